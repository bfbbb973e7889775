// Takes frames from an AXI-Stream, stores their payloads, and passes on their headers (SPEC.md, section 2).
//
// A header is the first two beats of a frame, with zeros behind its end; it comes after the ICRC of the whole frame was
// checked. Payloads lie in a ring of 2**RING beats, each from the start of a beat: 64 bytes from byte 110 of the frame
// on, and so on. Padding and ICRC may follow in the last beat. At most MAX_BEATS beats of a payload are stored;
// `header_beats` is their number. The reader gives beats back by `release_beats`, in order.
//
// One beat a clock, also of frames without gaps; one clock more where the last beat of the payload lies wholly within
// one beat of the frame. A header comes 11 clocks after the last beat. Without room the stream stands still.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module frame_receiver #(
    parameter RING = 7,
    parameter MAX_BEATS = 17
) (
    input  wire          clk,
    input  wire          rst,
    // the stream
    input  wire [511:0]  s_axis_tdata,
    input  wire [63:0]   s_axis_tkeep,
    input  wire          s_axis_tlast,
    input  wire          s_axis_tvalid,
    output wire          s_axis_tready,
    // the oldest header
    output wire          header_valid,
    output wire [1023:0] header,
    output wire [15:0]   header_frame_bytes,
    output wire [RING:0] header_beats,
    output wire          header_icrc_is_right,
    input  wire          header_pop,
    // the ring
    input  wire [RING-1:0] ring_address,
    output wire [511:0]  ring_data, // one clock later
    input  wire [RING:0] release_beats,
    output wire          is_idle
);

localparam [31:0] RIGHT = 32'h2144df1c; // the CRC over a frame with its ICRC

reg          has_beat, is_last; // the beat that was taken last, with zeros for the bytes that it does not have
reg  [511:0] data;
reg  [6:0]   bytes;
reg  [511:0] first_beat, second_beat;
reg  [143:0] held; // the last 18 bytes of the beat before
reg  [143:0] tail; // what is still to be written
reg          is_tail;
reg  [9:0]   beat;  // of the frame, 1023 at most
reg  [RING:0] write_pointer, read_pointer, stored;
reg  [511:0] kept;
reg  [6:0]   count;
integer i;

wire no_room, headers_full, verdicts_empty, verdicts_full, headers_empty;
wire take = has_beat && !is_tail && !no_room && !headers_full;
wire is_first = beat == 10'd0;

assign s_axis_tready = (!has_beat || take) && !rst;
wire [RING:0] filled = write_pointer - read_pointer;
assign no_room = filled >= {1'b0, {RING{1'b1}}};

// The bytes of a beat are its lowest ones.
always @* begin
    count = 7'd64;
    kept = s_axis_tdata;
    for (i = 63; i >= 0; i = i - 1) begin
        if (!s_axis_tkeep[i]) begin
            count = i[6:0];
            kept[8*i +: 8] = 8'd0;
        end
    end
end

always @(posedge clk) begin
    if (s_axis_tready) begin
        has_beat <= s_axis_tvalid;
        is_last <= s_axis_tlast;
        data <= kept;
        bytes <= count;
    end
    if (rst) has_beat <= 1'b0;
end

// Beat m of the frame completes beat m - 2 of the payload; what is behind its byte 46 begins the next.
wire leaves_tail = is_last && !is_first && bytes > 7'd50; // 46, and the ICRC
wire wants_write = is_tail || (take && beat >= 10'd2);
wire write = wants_write && stored < MAX_BEATS[RING:0];
wire [511:0] written = is_tail ? {368'd0, tail} : {data[367:0], held};
wire [RING:0] stored_then = stored + {{RING{1'b0}}, write};
wire [RING:0] stored_at_end = stored_then + {{RING{1'b0}}, leaves_tail && stored_then < MAX_BEATS[RING:0]};

always @(posedge clk) begin
    if (write) write_pointer <= write_pointer + 1'b1;
    stored <= stored_then;
    is_tail <= 1'b0;
    if (take) begin
        if (is_first) begin
            first_beat <= data;
            second_beat <= 512'd0;
        end
        if (beat == 10'd1) second_beat <= data;
        held <= data[511:368];
        tail <= data[511:368];
        if (beat != 10'd1023) beat <= beat + 10'd1;
        if (is_last) begin
            beat <= 10'd0;
            is_tail <= leaves_tail;
            if (!leaves_tail) stored <= {(RING + 1){1'b0}};
        end
    end
    if (is_tail) stored <= {(RING + 1){1'b0}};
    read_pointer <= read_pointer + release_beats;
    if (rst) begin
        write_pointer <= {(RING + 1){1'b0}};
        read_pointer <= {(RING + 1){1'b0}};
        stored <= {(RING + 1){1'b0}};
        beat <= 10'd0;
        is_tail <= 1'b0;
    end
end

ram #(.WIDTH(512), .ADDRESS(RING)) ring (
    .clk(clk), .write_enable(write), .write_address(write_pointer[RING-1:0]), .write_data(written),
    .read_enable(1'b1), .read_address(ring_address), .read_data(ring_data)
);

wire [511:0] head_low = is_first ? data : first_beat;
wire [511:0] head_high = is_first ? 512'd0 : beat == 10'd1 ? data : second_beat;
wire [15:0] frame_bytes = {beat, 6'd0} + {9'd0, bytes};

fifo #(.WIDTH(1024 + 16 + RING + 1), .ADDRESS(2)) headers (
    .clk(clk), .rst(rst), .push(take && is_last), .data({stored_at_end, frame_bytes, head_high, head_low}),
    .pop(header_pop), .first({header_beats, header_frame_bytes, header}), .is_empty(headers_empty), .is_full(headers_full)
);

// The CRC comes nine clocks after the last beat.
wire [31:0] crc;
reg  [8:0]  ended;
always @(posedge clk) ended <= rst ? 9'd0 : {ended[7:0], take && is_last};

icrc icrc_inst (
    .clk(clk), .advance(1'b1), .is_valid(take), .is_first(is_first), .bytes(bytes), .data(data),
    .crc(crc)
);
fifo #(.WIDTH(1), .ADDRESS(3)) verdicts (
    .clk(clk), .rst(rst), .push(ended[8]), .data(crc == RIGHT), .pop(header_pop), .first(header_icrc_is_right),
    .is_empty(verdicts_empty), .is_full(verdicts_full)
);
assign header_valid = !headers_empty && !verdicts_empty;
assign is_idle = headers_empty && !has_beat && is_first && !is_tail && ended == 9'd0;

wire unused = verdicts_full; // there are no more verdicts than headers

endmodule

`resetall
