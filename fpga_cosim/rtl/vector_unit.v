// One step of an operation on a whole beat: WIDTH bits of elements of one type, side by side (SPEC.md, 12-3 to 12-16 and
// 12-26). Operation 0 gives b unchanged: so the first data are copied, bit for bit (12-3, 12-4).
//
// One beat a clock; its result comes LATENCY = 4 clocks with `advance` later. Operation and type may change in each beat.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"

module vector_unit #(
    parameter WIDTH = 512 // a multiple of 64
) (
    input  wire             clk,
    input  wire             advance,
    input  wire [7:0]       op,
    input  wire [7:0]       dtype,
    input  wire [WIDTH-1:0] a,
    input  wire [WIDTH-1:0] b,
    output wire [WIDTH-1:0] result
);

wire is_float, is_signed, is_computed;
wire [1:0] size_log2;
wire is_copy = op == `FANIN_OP_NONE;
wire is_maximum = op == `FANIN_OP_MAX;

computed_operation computed_operation_inst (
    .op(op), .dtype(dtype), .is_computed(is_computed), .is_float(is_float), .is_signed(is_signed), .size_log2(size_log2)
);

reg sums_1, sums_2, sums_3, sums_4; // whether the adders' result counts

always @(posedge clk) if (advance) begin
    sums_1 <= is_float && op == `FANIN_OP_SUM;
    sums_2 <= sums_1;
    sums_3 <= sums_2;
    sums_4 <= sums_3;
end

genvar lane;
generate
    for (lane = 0; lane < WIDTH / 64; lane = lane + 1) begin : lanes
        wire [63:0] own_a = a[64*lane +: 64];
        wire [63:0] own_b = b[64*lane +: 64];
        wire [63:0] integers, extremes, sums;
        reg  [63:0] others_1, others_2, others_3, others_4; // all that takes less than four clocks, held back

        integer_unit integer_unit_inst (
            .op(op), .size_log2(size_log2), .is_signed(is_signed), .a(own_a), .b(own_b), .result(integers)
        );
        float_extreme low_extreme (
            .is_maximum(is_maximum), .a(own_a[31:0]), .b(own_b[31:0]), .extreme(extremes[31:0])
        );
        float_extreme high_extreme (
            .is_maximum(is_maximum), .a(own_a[63:32]), .b(own_b[63:32]), .extreme(extremes[63:32])
        );
        float32_add low_sum (
            .clk(clk), .advance(advance), .a(own_a[31:0]), .b(own_b[31:0]), .sum(sums[31:0])
        );
        float32_add high_sum (
            .clk(clk), .advance(advance), .a(own_a[63:32]), .b(own_b[63:32]), .sum(sums[63:32])
        );

        always @(posedge clk) if (advance) begin
            others_1 <= is_copy ? own_b : is_float ? extremes : integers;
            others_2 <= others_1;
            others_3 <= others_2;
            others_4 <= others_3;
        end
        assign result[64*lane +: 64] = sums_4 ? sums : others_4;
    end
endgenerate

wire unused = is_computed; // the engine asks before data come here

endmodule

`resetall
