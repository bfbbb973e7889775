// Computes the payload of a contribution into its slot (SPEC.md, 7.1-8): reads both, writes the result back, and gives
// the payload back to the ring. A command without `computes` only gives it back; operation 0 copies. The value as it is
// sent goes to a memory of its own (see vector_unit); with `divides` it is the mean (see mean_unit). Without `adds`
// there is no payload to compute. With `stores` the payload goes into a buffer, unchanged; with `recalls` a buffer
// takes the place of a payload, two clocks after it was stored or later.
//
// One beat a clock, commands without gaps. A beat can be read again LATENCY = 9 clocks after it was read, so the first
// beats of two commands about one slot are at least 9 clocks apart; then all their beats are. In the memory of what is
// sent a beat can be read SENT + 1 = 17 clocks after it was read here, divided or not: beats come there in order.
//
// Record 0106 (docs/decisions): small floats, contributions before their turn, and where MEAN is divided.
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
    input  wire               adds,
    input  wire               divides,
    input  wire               stores,
    input  wire               recalls,
    input  wire [ADDRESS-CHUNK-1:0] buffer,
    input  wire [63:0]        reciprocal, // of the divisor, and its shift: see reciprocal_table
    input  wire [5:0]         shift,
    input  wire [7:0]         op,
    input  wire [7:0]         dtype,
    input  wire [ADDRESS-CHUNK-1:0] slot,
    input  wire [RING:0]      slot_beats,  // of data
    input  wire [RING:0]      ring_beats,  // to give back
    // the ring
    output wire [RING-1:0]    ring_address,
    input  wire [511:0]       ring_data, // one clock later
    output wire [RING:0]      release_beats, // one clock after a command that only gives them back
    // the buffers
    output wire [ADDRESS-1:0] pending_read_address,
    input  wire [511:0]       pending_data, // one clock later
    output reg                pending_write_enable,
    output reg  [ADDRESS-1:0] pending_write_address,
    output wire [511:0]       pending_write_data,
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

localparam LATENCY = 9, SENT = 16;

reg               runs, gives_back, own_adds, own_divides, own_stores, own_recalls;
reg  [7:0]        own_op, own_dtype;
reg  [ADDRESS-CHUNK-1:0] own_slot, own_buffer;
reg  [RING:0]     left, remainder, beat;
reg  [RING-1:0]   head; // of the ring

// Beats under way, the youngest first. The ring is read one clock before the slot, to prepare its data meanwhile.
reg  [SENT:0]      flying;
reg  [LATENCY-1:0] divided; // which of them go through the division
reg  [LATENCY-3:0] firsts;  // which of them are the first of a command
reg  [ADDRESS-1:0] places [0:SENT];
wire [(LATENCY-2)*(ADDRESS-CHUNK)-1:0] slots;
reg  [7:0]         op_1, dtype_1;
reg                keeps_1, recalls_1;
reg  [63:0]        own_reciprocal;
reg  [5:0]         own_shift;
wire [7:0]         mean_dtype;
wire [63:0]        mean_reciprocal;
wire [5:0]         mean_shift;
wire               means_valid;
wire [511:0]       means, rounded, rounded_then;
integer i, j;
genvar k;
generate
    for (k = 0; k < LATENCY - 2; k = k + 1) begin : each
        assign slots[(ADDRESS-CHUNK)*k +: ADDRESS-CHUNK] = places[k][ADDRESS-1:CHUNK];
    end
endgenerate

// Two clocks pass before a command that is taken now reads the place of the youngest beat under way.
wire works = runs && !own_stores; // on the slot
reg  collides;
always @* begin
    collides = works && beat == {(RING + 1){1'b0}} && slot == own_slot;
    for (i = 0; i < LATENCY - 2; i = i + 1) begin
        if (firsts[i] && slot == slots[(ADDRESS-CHUNK)*i +: ADDRESS-CHUNK]) collides = 1'b1;
    end
end

wire last = left == {{RING{1'b0}}, 1'b1};
assign command_ready = (!runs || last) && !(computes && collides);
assign is_idle = !runs && !gives_back && !pending_write_enable && flying == {(SENT + 1){1'b0}};
wire takes = command_valid && command_ready;

assign ring_address = head + beat[RING-1:0];
assign read_address = places[0];
assign pending_read_address = {own_buffer, beat[CHUNK-1:0]};
assign pending_write_data = ring_data;
assign release_beats = (runs && last) || gives_back ? remainder : {(RING + 1){1'b0}};
assign ring_head = head;

always @(posedge clk) begin
    flying <= {flying[SENT-1:0], works};
    divided <= {divided[LATENCY-2:0], works && own_divides};
    firsts <= {firsts[LATENCY-4:0], works && beat == {(RING + 1){1'b0}}};
    pending_write_enable <= runs && own_stores;
    pending_write_address <= pending_read_address;
    places[0] <= {own_slot, beat[CHUNK-1:0]};
    for (j = 1; j <= SENT; j = j + 1) places[j] <= places[j-1];
    op_1 <= own_op;
    dtype_1 <= own_dtype;
    keeps_1 <= !own_adds;
    recalls_1 <= own_recalls;
    if (runs) begin
        beat <= beat + 1'b1;
        left <= left - 1'b1;
        if (last) runs <= 1'b0;
    end
    head <= head + release_beats[RING-1:0];
    gives_back <= takes && !computes;
    if (takes) remainder <= ring_beats;
    if (takes && computes) begin
        runs <= 1'b1;
        own_op <= op;
        own_adds <= adds;
        own_divides <= divides;
        own_stores <= stores;
        own_recalls <= recalls;
        own_buffer <= buffer;
        own_reciprocal <= reciprocal;
        own_shift <= shift;
        own_dtype <= dtype;
        own_slot <= slot;
        left <= slot_beats;
        beat <= {(RING + 1){1'b0}};
    end
    if (rst) begin
        runs <= 1'b0;
        gives_back <= 1'b0;
        pending_write_enable <= 1'b0;
        flying <= {(SENT + 1){1'b0}};
        divided <= {LATENCY{1'b0}};
        firsts <= {(LATENCY - 2){1'b0}};
        head <= {RING{1'b0}};
    end
end

vector_unit vector_unit_inst (
    .clk(clk), .advance(1'b1), .op(op_1), .dtype(dtype_1), .keeps(keeps_1), .a(read_data), .a_high(read_data_high),
    .b(recalls_1 ? pending_data : ring_data), .result(write_data), .result_high(write_data_high), .rounded(rounded)
);
assign write_enable = flying[LATENCY-1];
assign write_address = places[LATENCY-1];

// The divisor goes along with the beats of its command.
delay #(.WIDTH(8 + 6 + 64), .CLOCKS(LATENCY)) divisor (
    .clk(clk), .advance(1'b1), .data({own_dtype, own_shift, own_reciprocal}),
    .delayed({mean_dtype, mean_shift, mean_reciprocal})
);
mean_unit mean_unit_inst (
    .clk(clk), .rst(rst), .valid(divided[LATENCY-1]), .dtype(mean_dtype), .total(write_data), .total_high(write_data_high),
    .reciprocal(mean_reciprocal), .shift(mean_shift), .means_valid(means_valid), .means(means)
);
delay #(.WIDTH(512), .CLOCKS(SENT - LATENCY - 1)) undivided (
    .clk(clk), .advance(1'b1), .data(rounded), .delayed(rounded_then)
);
assign send_enable = flying[SENT];
assign send_address = places[SENT];
assign send_data = means_valid ? means : rounded_then;

endmodule

`resetall
