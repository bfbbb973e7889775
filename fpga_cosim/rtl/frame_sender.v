// Makes frames of commands: Ethernet, IPv4, UDP, BTH, CETH, payload, padding and ICRC (SPEC.md, sections 2 and 3).
//
// A command has the CETH's fields of one packet. Its payload is `length` bytes: of the slot memory from beat
// `slot_beat` on, or of `body`, first byte lowest. A sender takes a command when it begins its frame; `slot_done` says
// for one clock that the frame of a command with `from_slot` no longer needs the slot memory.
//
// One beat a clock in and out, frames without gaps; one clock more where the ICRC lies across two beats. The first beat
// comes 10 clocks after its command.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"

module frame_sender #(
    parameter ADDRESS = 13 // of a beat of the slot memory
) (
    input  wire          clk,
    input  wire          rst,
    input  wire [47:0]   own_mac,
    input  wire [31:0]   own_address,
    // the command
    input  wire          command_valid,
    output wire          command_pop,
    input  wire [47:0]   mac,
    input  wire [31:0]   address,
    input  wire [7:0]    opcode,
    input  wire [7:0]    op,
    input  wire [7:0]    dtype,
    input  wire [7:0]    flags,
    input  wire [31:0]   jid,
    input  wire [31:0]   key,
    input  wire [31:0]   position,
    input  wire [31:0]   mid,
    input  wire [31:0]   sid,
    input  wire [15:0]   seg,
    input  wire [15:0]   length,
    input  wire [7:0]    status,
    input  wire [7:0]    source,
    input  wire [31:0]   contributions,
    input  wire [31:0]   token,
    input  wire [63:0]   node_bitmap,
    input  wire [63:0]   rank_bitmap,
    input  wire          from_slot,
    input  wire [ADDRESS-1:0] slot_beat,
    input  wire [63:0]   body,
    // the slot memory
    output wire          slot_read,
    output wire [ADDRESS-1:0] slot_address,
    input  wire [511:0]  slot_data, // one clock later
    output wire          slot_done,
    // the stream
    output wire [511:0]  m_axis_tdata,
    output wire [63:0]   m_axis_tkeep,
    output wire          m_axis_tlast,
    output wire          m_axis_tvalid,
    input  wire          m_axis_tready,
    output wire          is_idle
);

localparam [15:0] HEADERS = 110, ETHERNET = 14, IP = 20;
localparam [15:0] UP = 3; // added before the lowest two bits are cleared
localparam [15:0] SOURCE_PORT = 16'hc000;
localparam ICRC_CLOCKS = 9, CHECKSUM_CLOCKS = 3;

wire advance = !m_axis_tvalid || m_axis_tready;

// Lengths: each is `length` and a constant, so that none waits for another one. A payload is padded to a multiple of 4.
wire [1:0]  padcount = 2'd0 - length[1:0];
wire [15:0] filled = length + HEADERS; // bytes of the frame without padding and ICRC
wire [15:0] covered = ((length + (HEADERS + UP - 16'd2)) & ~16'd3) | 16'd2; // with padding: 110, 114, 118, ...
wire [9:0]  last_beat = covered[15:6];
wire [15:0] total_length = (length + (HEADERS - ETHERNET + `FANIN_ICRC_BYTES + UP)) & ~16'd3; // of IPv4
wire [15:0] udp_length = (length + (HEADERS - ETHERNET - IP + `FANIN_ICRC_BYTES + UP)) & ~16'd3;
// Headers, in the order of the wire: the first byte is the highest. The checksum of IPv4 follows: no ICRC covers it.
wire [8*14-1:0] ethernet = {mac, own_mac, 16'h0800};
wire [8*20-1:0] ip = {16'h4500, total_length, 16'd0, 16'h4000, 16'h4011, 16'd0, own_address, address};
wire [15:0] port = `FANIN_UDP_PORT;
wire [8*8-1:0] udp = {SOURCE_PORT, port, udp_length, 16'd0};
wire [23:0] qpn = `FANIN_COLLECTIVE_QPN;
wire [15:0] pkey = `FANIN_DEFAULT_PKEY;
wire [8*12-1:0] bth = {opcode, 2'd0, padcount, 4'd0, pkey, 8'd0, qpn, 32'd0};
wire [7:0] version = `FANIN_WIRE_VERSION;
wire [8*56-1:0] ceth = {version, op, dtype, flags, jid, key, position, mid, sid, seg, length, status, source, 8'd0, 8'd0,
    contributions, token, node_bitmap, rank_bitmap};
wire [8*HEADERS-1:0] wire_order = {ethernet, ip, udp, bth, ceth};
wire [8*HEADERS-1:0] head;
genvar i;
generate
    for (i = 0; i < HEADERS; i = i + 1) begin : reversed
        assign head[8*i +: 8] = wire_order[8*(HEADERS-1-i) +: 8];
    end
endgenerate

// Beat m has byte 18 on of beat m - 2 of the payload, and 18 bytes of the next.
reg  [9:0]   beat;
reg          is_tail;       // the beat with the second half of an ICRC
reg  [367:0] held;          // the last 46 bytes of the payload's beat before
wire [511:0] payload = from_slot ? slot_data : {448'd0, body};
wire is_last = beat == last_beat;
wire straddles = covered[5:0] == 6'd62;
wire ends = is_tail || (is_last && !straddles);
wire works = command_valid && advance;
assign command_pop = works && ends;
assign slot_done = command_pop && from_slot;
assign slot_read = advance;
wire [ADDRESS+7:0] place = {{ADDRESS{1'b0}}, beat[7:0]}; // a small memory has fewer than 256 beats
assign slot_address = slot_beat + place[ADDRESS-1:0];
wire unused = &{1'b0, place[ADDRESS+7:ADDRESS]};

reg [511:0] raw;
reg [6:0]   bytes;
integer k;
always @* begin
    case (beat)
        10'd0: raw = head[511:0];
        10'd1: raw = {payload[143:0], head[8*HEADERS-1:512]};
        default: raw = {payload[143:0], held};
    endcase
    for (k = 0; k < 64; k = k + 1) begin
        if ({beat, 6'd0} + k[15:0] >= filled) raw[8*k +: 8] = 8'd0;
    end
    bytes = is_last ? {1'b0, covered[5:0]} : 7'd64;
end

reg          first_0, last_0, tail_0;
reg  [6:0]   bytes_0;
reg  [511:0] data_0;
reg  [ICRC_CLOCKS:0] valid; // beats under way, the youngest first
wire         last_9, tail_9;
wire [6:0]   bytes_9;
wire [511:0] data_9;

always @(posedge clk) begin
    if (advance) begin
        held <= payload[511:144];
        first_0 <= beat == 10'd0;
        last_0 <= is_last && !is_tail;
        tail_0 <= is_tail;
        bytes_0 <= bytes;
        data_0 <= raw;
        valid <= {valid[ICRC_CLOCKS-1:0], command_valid};
        if (command_valid) begin
            is_tail <= is_last && straddles && !is_tail;
            if (ends) beat <= 10'd0;
            else if (!is_last) beat <= beat + 10'd1;
        end
    end
    if (rst) begin
        valid <= {(ICRC_CLOCKS + 1){1'b0}};
        is_tail <= 1'b0;
        beat <= 10'd0;
    end
end

wire [31:0] crc;
reg  [15:0] second_half;
icrc icrc_inst (
    .clk(clk), .advance(advance), .is_valid(valid[0] && !tail_0), .is_first(first_0), .bytes(bytes_0), .data(data_0),
    .crc(crc)
);

// The checksum of IPv4, while its beat waits for the ICRC: the sum of its words, the carries added twice
localparam [18:0] FIXED = 19'h04500 + 19'h04000 + 19'h04011;
reg  [18:0] addresses_0, sum_1;
reg  [15:0] length_0, checksum_3;
reg  [16:0] sum_2;
wire        first_3, last_3, tail_3;
wire [6:0]  bytes_3;
wire [511:0] data_3, whole_3;
always @(posedge clk) if (advance) begin
    addresses_0 <= (FIXED + {3'd0, own_address[31:16]} + {3'd0, own_address[15:0]})
        + ({3'd0, address[31:16]} + {3'd0, address[15:0]});
    length_0 <= total_length;
    sum_1 <= addresses_0 + {3'd0, length_0};
    sum_2 <= {1'b0, sum_1[15:0]} + {14'd0, sum_1[18:16]};
    checksum_3 <= ~(sum_2[15:0] + {15'd0, sum_2[16]});
end
delay #(.WIDTH(512 + 7 + 3), .CLOCKS(CHECKSUM_CLOCKS)) without (
    .clk(clk), .advance(advance), .data({data_0, bytes_0, first_0, last_0, tail_0}),
    .delayed({data_3, bytes_3, first_3, last_3, tail_3})
);
assign whole_3 = first_3 ? {data_3[511:208], checksum_3[7:0], checksum_3[15:8], data_3[191:0]} : data_3;
delay #(.WIDTH(512 + 7 + 2), .CLOCKS(ICRC_CLOCKS - CHECKSUM_CLOCKS)) beats (
    .clk(clk), .advance(advance), .data({whole_3, bytes_3, last_3, tail_3}),
    .delayed({data_9, bytes_9, last_9, tail_9})
);
always @(posedge clk) if (advance) second_half <= crc[31:16];

wire [511:0] placed = {480'd0, crc} << {bytes_9[5:0], 3'd0};
wire [7:0]   kept = {1'b0, bytes_9} + (last_9 ? 8'd4 : 8'd0);
assign m_axis_tvalid = valid[ICRC_CLOCKS];
assign m_axis_tdata = tail_9 ? {496'd0, second_half} : last_9 ? data_9 | placed : data_9;
assign m_axis_tlast = tail_9 || (last_9 && bytes_9 != 7'd62);
assign m_axis_tkeep = tail_9 ? 64'd3 : kept >= 8'd64 ? {64{1'b1}} : ~({64{1'b1}} << kept[5:0]);
assign is_idle = !command_valid && valid == {(ICRC_CLOCKS + 1){1'b0}};

endmodule

`resetall
