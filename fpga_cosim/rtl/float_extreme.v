// Minimum or maximum of two IEEE 754 numbers of any format: -0 is less than +0; a NaN on either side gives the canonical
// one (SPEC.md, 12-16). Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float_extreme #(
    parameter EXPONENT = 8,
    parameter FRACTION = 23
) (
    input  wire                       is_maximum,
    input  wire [EXPONENT+FRACTION:0] a,
    input  wire [EXPONENT+FRACTION:0] b,
    output wire [EXPONENT+FRACTION:0] extreme
);

localparam SIGN = EXPONENT + FRACTION;
localparam [SIGN:0] CANONICAL_NAN = {1'b0, {(EXPONENT + 1){1'b1}}, {(FRACTION - 1){1'b0}}};

wire a_is_nan = &a[SIGN-1:FRACTION] && |a[FRACTION-1:0];
wire b_is_nan = &b[SIGN-1:FRACTION] && |b[FRACTION-1:0];
// Numbers of one sign are in the order of their magnitudes, or in the opposite one if they are negative.
wire a_is_less = a[SIGN] != b[SIGN] ? a[SIGN] : a[SIGN] ? a[SIGN-1:0] > b[SIGN-1:0] : a[SIGN-1:0] < b[SIGN-1:0];

assign extreme = a_is_nan || b_is_nan ? CANONICAL_NAN : a_is_less != is_maximum ? a : b;

endmodule

`resetall
