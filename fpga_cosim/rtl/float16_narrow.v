// f32 rounded to f16 or bf16, to nearest even. Any NaN becomes the canonical one (SPEC.md, 12-15 and 12-18).
// Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float16_narrow (
    input  wire        is_bf16,
    input  wire [31:0] wide,
    output reg  [15:0] narrow
);

wire is_nan = &wide[30:23] && wide[22:0] != 23'd0;

// Both formats: what is kept, and whether it is rounded up. A carry goes into the exponent, and on to infinity.
wire round_bf16 = wide[15] && (wide[14:0] != 15'd0 || wide[16]);
wire round_normal = wide[12] && (wide[11:0] != 12'd0 || wide[13]);
wire [14:0] normal = {wide[27:23] - 5'd16, wide[22:13]} + {14'd0, round_normal}; // the biases: 127 - 15 = 112

// A subnormal f16: the number shifted to its place, with all that falls out of it.
wire [7:0]  distance = 8'd126 - wide[30:23]; // from the first bit of the number to the last of the fraction, 14 or more
wire [47:0] shifted = {1'b1, wide[22:0], 24'd0} >> (distance > 8'd25 ? 5'd25 : distance[4:0]);
wire round_subnormal = shifted[23] && (shifted[22:0] != 23'd0 || shifted[24]);
wire [14:0] subnormal = {5'd0, shifted[33:24]} + {14'd0, round_subnormal};

always @* begin
    if (is_bf16) narrow = is_nan ? 16'h7fc0 : wide[31:16] + {15'd0, round_bf16};
    else if (is_nan) narrow = 16'h7e00;
    else if (wide[30:23] >= 8'd143) narrow = {wide[31], 15'h7c00};
    else if (wide[30:23] >= 8'd113) narrow = {wide[31], normal};
    else narrow = {wide[31], subnormal};
end

wire unused = &{1'b0, shifted[47:34]}; // zeros: a subnormal is shifted by 14 or more

endmodule

`resetall
