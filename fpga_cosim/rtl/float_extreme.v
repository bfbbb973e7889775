// Minimum or maximum of two IEEE 754 numbers of any format: -0 is less than +0; a NaN on either side gives the canonical
// one (SPEC.md, 12-16).
//
// One extreme a clock; it comes LATENCY = 2 clocks with `advance` after its operands.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float_extreme #(
    parameter EXPONENT = 8,
    parameter FRACTION = 23
) (
    input  wire                       clk,
    input  wire                       advance,
    input  wire                       is_maximum,
    input  wire [EXPONENT+FRACTION:0] a,
    input  wire [EXPONENT+FRACTION:0] b,
    output reg  [EXPONENT+FRACTION:0] extreme
);

localparam SIGN = EXPONENT + FRACTION;
localparam [SIGN:0] CANONICAL_NAN = {1'b0, {(EXPONENT + 1){1'b1}}, {(FRACTION - 1){1'b0}}};

wire a_is_nan = &a[SIGN-1:FRACTION] && |a[FRACTION-1:0];
wire b_is_nan = &b[SIGN-1:FRACTION] && |b[FRACTION-1:0];
// Numbers of one sign are in the order of their magnitudes, or in the opposite one if they are negative.
wire a_is_less = a[SIGN] != b[SIGN] ? a[SIGN] : a[SIGN] ? a[SIGN-1:0] > b[SIGN-1:0] : a[SIGN-1:0] < b[SIGN-1:0];

reg        nan_1, keep_a_1;
reg [SIGN:0] a_1, b_1;

always @(posedge clk) if (advance) begin
    nan_1 <= a_is_nan || b_is_nan;
    keep_a_1 <= a_is_less != is_maximum;
    {a_1, b_1} <= {a, b};
    extreme <= nan_1 ? CANONICAL_NAN : keep_a_1 ? a_1 : b_1;
end

endmodule

`resetall
