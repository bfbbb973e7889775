// The division of MEAN on a whole beat: WIDTH bits of elements of one type, and their upper halves of f16 and bf16, which
// are f32 (see vector_unit). The quotients come as they are sent: f16 and bf16 rounded once, behind the division (SPEC.md,
// 12-19 and 12-25). The divisor comes as its reciprocal and its shift (reciprocal_table.v).
//
// One beat a clock; `means_valid` and the means come 8 clocks after `valid`. Type and divisor may change in each beat.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"

module mean_unit #(
    parameter WIDTH = 512 // a multiple of 64
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             valid,
    input  wire [7:0]       dtype,
    input  wire [WIDTH-1:0] total,
    input  wire [WIDTH-1:0] total_high,
    input  wire [63:0]      reciprocal,
    input  wire [5:0]       shift,
    output wire             means_valid,
    output wire [WIDTH-1:0] means
);

wire is_computed, is_float, is_signed, is_small, is_bf16, is_pair, is_bf16_6, is_float_8, is_small_8;
wire [1:0] size_log2;
computed_operation computed_operation_inst (
    .op(`FANIN_OP_MEAN), .dtype(dtype), .is_computed(is_computed), .is_float(is_float), .is_signed(is_signed),
    .is_small(is_small), .is_bf16(is_bf16), .is_pair(is_pair), .size_log2(size_log2)
);
delay #(.WIDTH(1), .CLOCKS(6)) format (.clk(clk), .advance(1'b1), .data(is_bf16), .delayed(is_bf16_6));
delay #(.WIDTH(2), .CLOCKS(8)) kind (
    .clk(clk), .advance(1'b1), .data({is_float, is_small}), .delayed({is_float_8, is_small_8})
);

reg [8:1] works;
always @(posedge clk) works <= rst ? 8'd0 : {works[7:1], valid};
assign means_valid = works[8];

genvar lane, part;
generate
    for (lane = 0; lane < WIDTH / 64; lane = lane + 1) begin : lanes
        wire [127:0] own = {total_high[64*lane +: 64], total[64*lane +: 64]};
        wire [127:0] quotients_6;
        wire [63:0]  quotients_8, narrowed_8, integers_8;

        integer_divide integer_divide_inst (
            .clk(clk), .valid(valid && !is_float), .size_log2(size_log2), .is_signed(is_signed), .a(own[63:0]),
            .reciprocal(reciprocal), .shift(shift), .quotient(integers_8)
        );
        for (part = 0; part < 4; part = part + 1) begin : parts
            float32_divide float32_divide_inst (
                .clk(clk), .valid(valid && is_float), .a(own[32*part +: 32]), .reciprocal(reciprocal[63:14]), .shift(shift),
                .quotient(quotients_6[32*part +: 32])
            );
            float16_narrow float16_narrow_inst (
                .clk(clk), .advance(1'b1), .is_bf16(is_bf16_6), .wide(quotients_6[32*part +: 32]),
                .narrow(narrowed_8[16*part +: 16])
            );
        end
        delay #(.WIDTH(64), .CLOCKS(2)) wide (
            .clk(clk), .advance(1'b1), .data(quotients_6[63:0]), .delayed(quotients_8)
        );
        assign means[64*lane +: 64] = !is_float_8 ? integers_8 : is_small_8 ? narrowed_8 : quotients_8;
    end
endgenerate

wire unused = &{1'b0, is_computed, is_pair}; // the engine asks before data come here

endmodule

`resetall
