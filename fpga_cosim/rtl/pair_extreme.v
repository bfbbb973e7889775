// MINLOC or MAXLOC of two pairs of 8 bytes: a value of 32 bits, or of 16 with padding, and an index of 32 bits
// (SPEC.md, 12-29 to 12-32). A NaN is beyond every number, for both. Of equal values that with the lower index wins; at
// the same index MINLOC keeps -0 and MAXLOC +0. One extreme a clock; it comes LATENCY = 2 clocks with `advance` after
// its operands.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module pair_extreme (
    input  wire        clk,
    input  wire        advance,
    input  wire        is_maximum,
    input  wire        is_float, // the value is f32
    input  wire        is_short, // the value is i16
    input  wire [63:0] a,
    input  wire [63:0] b,
    output reg  [63:0] extreme
);

localparam [31:0] CANONICAL_NAN = 32'h7fc00000;

// Any value as an i32 in the order of its type. Turning over the magnitude of a negative float gives its place.
function [31:0] place;
    input [31:0] value;
    input        of_float;
    input        of_short;
    place = of_short ? {{16{value[15]}}, value[15:0]} : of_float && value[31] ? {1'b1, ~value[30:0]} : value;
endfunction

wire [31:0] a_place = place(a[31:0], is_float, is_short), b_place = place(b[31:0], is_float, is_short);

// Stage 1: comparisons
reg        maximum_1, short_1, a_nan_1, b_nan_1, zeros_1, less_1, equal_1, index_less_1, index_equal_1;
reg [63:0] a_1, b_1;

always @(posedge clk) if (advance) begin
    maximum_1 <= is_maximum;
    short_1 <= is_short;
    a_nan_1 <= is_float && &a[30:23] && |a[22:0];
    b_nan_1 <= is_float && &b[30:23] && |b[22:0];
    zeros_1 <= is_float && a[30:0] == 31'd0 && b[30:0] == 31'd0;
    less_1 <= $signed(a_place) < $signed(b_place);
    equal_1 <= a_place == b_place;
    index_less_1 <= $signed(a[63:32]) < $signed(b[63:32]);
    index_equal_1 <= a[63:32] == b[63:32];
    {a_1, b_1} <= {a, b};
end

// Stage 2: which is kept
wire a_is_before = less_1 != maximum_1; // where values differ, or zeros of the same index do

reg keep_a;
always @* begin
    if (a_nan_1 != b_nan_1) keep_a = a_nan_1;
    else if (a_nan_1 || zeros_1 || equal_1) keep_a = index_equal_1 ? a_is_before : index_less_1;
    else keep_a = a_is_before;
end

wire [63:0] kept = keep_a ? a_1 : b_1;

always @(posedge clk) if (advance) begin
    extreme[63:32] <= kept[63:32];
    extreme[31:0] <= a_nan_1 || b_nan_1 ? CANONICAL_NAN : short_1 ? {16'd0, kept[15:0]} : kept[31:0];
end

endmodule

`resetall
