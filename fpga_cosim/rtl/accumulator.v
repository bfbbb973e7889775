// Computes the payload of a contribution into its slot (SPEC.md, 7.1-8): reads both, and writes the result back. The
// payload is given back to the ring when it was read. A command without `computes` only gives it back; operation 0 copies.
// The value as it would be sent goes to a memory of its own, one clock later (see vector_unit).
//
// One beat a clock; a command follows another one without a gap. A beat that was read can be read again LATENCY = 9 clocks
// later. So the first beats of two commands about one slot are at least 9 clocks apart; then all their beats are.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module accumulator #(
    parameter RING = 7,
    parameter CHUNK = 4, // beats of a slot: 2**CHUNK
    parameter ADDRESS = 13
) (
    input  wire               clk,
    input  wire               rst,
    // the command
    input  wire               command_valid,
    output wire               command_ready,
    input  wire               computes,
    input  wire [7:0]         op,
    input  wire [7:0]         dtype,
    input  wire [ADDRESS-1:0] slot_beat,   // the first of the slot
    input  wire [RING:0]      slot_beats,  // of data
    input  wire [RING:0]      ring_beats,  // to give back
    // the ring
    output wire [RING-1:0]    ring_address,
    input  wire [511:0]       ring_data, // one clock later
    output wire [RING:0]      release_beats,
    // the slot memory
    output wire [ADDRESS-1:0] read_address,
    input  wire [511:0]       read_data, // one clock later
    input  wire [511:0]       read_data_high,
    output wire               write_enable,
    output wire [ADDRESS-1:0] write_address,
    output wire [511:0]       write_data,
    output wire [511:0]       write_data_high,
    // the memory of what is sent
    output wire               send_enable,
    output wire [ADDRESS-1:0] send_address,
    output wire [511:0]       send_data,
    output wire               is_idle,
    output wire [RING-1:0]    ring_head // place of the oldest payload
);

localparam LATENCY = 9;

reg               runs;
reg  [7:0]        own_op, own_dtype;
reg  [ADDRESS-1:0] own_slot;
reg  [RING:0]     left, remainder, beat;
reg  [RING-1:0]   head; // of the ring

// Beats on their way, the youngest first. The ring is read one clock before the slot: its data are made ready meanwhile.
reg  [LATENCY:0]   flying;
reg  [LATENCY-3:0] firsts; // which of them are the first of a command
reg  [ADDRESS-1:0] places [0:LATENCY];
wire [(LATENCY-2)*(ADDRESS-CHUNK)-1:0] slots;
reg  [7:0]         op_1, dtype_1;
integer i, j;
genvar k;
generate
    for (k = 0; k < LATENCY - 2; k = k + 1) begin : each
        assign slots[(ADDRESS-CHUNK)*k +: ADDRESS-CHUNK] = places[k][ADDRESS-1:CHUNK];
    end
endgenerate

// Two clocks pass before a command that is taken now reads the place that the youngest beat on its way was read from.
reg collides;
always @* begin
    collides = runs && beat == {(RING + 1){1'b0}} && slot_beat[ADDRESS-1:CHUNK] == own_slot[ADDRESS-1:CHUNK];
    for (i = 0; i < LATENCY - 2; i = i + 1) begin
        if (firsts[i] && slot_beat[ADDRESS-1:CHUNK] == slots[(ADDRESS-CHUNK)*i +: ADDRESS-CHUNK]) collides = 1'b1;
    end
end

wire last = left == {{RING{1'b0}}, 1'b1};
assign command_ready = (!runs || last) && !(computes && collides);
assign is_idle = !runs && flying == {(LATENCY + 1){1'b0}};
wire takes = command_valid && command_ready;

assign ring_address = head + beat[RING-1:0];
assign read_address = places[0];
assign release_beats = (runs && last ? remainder : {(RING + 1){1'b0}})
    + (takes && !computes ? ring_beats : {(RING + 1){1'b0}});
assign ring_head = head;

always @(posedge clk) begin
    flying <= {flying[LATENCY-1:0], runs};
    firsts <= {firsts[LATENCY-4:0], runs && beat == {(RING + 1){1'b0}}};
    places[0] <= own_slot + {{(ADDRESS - RING - 1){1'b0}}, beat};
    for (j = 1; j <= LATENCY; j = j + 1) places[j] <= places[j-1];
    op_1 <= own_op;
    dtype_1 <= own_dtype;
    if (runs) begin
        beat <= beat + 1'b1;
        left <= left - 1'b1;
        if (last) runs <= 1'b0;
    end
    head <= head + release_beats[RING-1:0];
    if (takes && computes) begin
        runs <= 1'b1;
        own_op <= op;
        own_dtype <= dtype;
        own_slot <= slot_beat;
        left <= slot_beats;
        remainder <= ring_beats;
        beat <= {(RING + 1){1'b0}};
    end
    if (rst) begin
        runs <= 1'b0;
        flying <= {(LATENCY + 1){1'b0}};
        firsts <= {(LATENCY - 2){1'b0}};
        head <= {RING{1'b0}};
    end
end

vector_unit vector_unit_inst (
    .clk(clk), .advance(1'b1), .op(op_1), .dtype(dtype_1), .a(read_data), .a_high(read_data_high), .b(ring_data),
    .result(write_data), .result_high(write_data_high), .rounded(send_data)
);
assign write_enable = flying[LATENCY-1];
assign write_address = places[LATENCY-1];
assign send_enable = flying[LATENCY];
assign send_address = places[LATENCY];

endmodule

`resetall
