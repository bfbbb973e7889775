// MINLOC or MAXLOC of two pairs of 8 bytes: a value of 32 bits, or of 16 with padding, and an index of 32 bits (SPEC.md,
// 12-29 to 12-32). A NaN is beyond every number, for both. Of equal values that with the lower index is taken; at the same
// index MINLOC keeps -0 and MAXLOC +0. Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module pair_extreme (
    input  wire        is_maximum,
    input  wire        is_float, // the value is f32
    input  wire        is_short, // the value is i16
    input  wire [63:0] a,
    input  wire [63:0] b,
    output wire [63:0] extreme
);

localparam [31:0] CANONICAL_NAN = 32'h7fc00000;

// Any value as an i32 in the order of its type. Turning over the magnitude of a negative float gives its place.
function [31:0] place;
    input [31:0] value;
    input        of_float;
    input        of_short;
    place = of_short ? {{16{value[15]}}, value[15:0]} : of_float && value[31] ? {1'b1, ~value[30:0]} : value;
endfunction

wire a_is_nan = is_float && &a[30:23] && |a[22:0];
wire b_is_nan = is_float && &b[30:23] && |b[22:0];
wire are_zeros = is_float && a[30:0] == 31'd0 && b[30:0] == 31'd0;
wire [31:0] a_place = place(a[31:0], is_float, is_short), b_place = place(b[31:0], is_float, is_short);
wire a_is_less = $signed(a_place) < $signed(b_place);
wire a_index_is_less = $signed(a[63:32]) < $signed(b[63:32]);
wire same_index = a[63:32] == b[63:32];
wire a_is_before = a_is_less != is_maximum; // where values differ, or zeros of the same index do

reg keep_a;
always @* begin
    if (a_is_nan != b_is_nan) keep_a = a_is_nan;
    else if (a_is_nan || are_zeros || a_place == b_place) keep_a = same_index ? a_is_before : a_index_is_less;
    else keep_a = a_is_before;
end

wire [63:0] kept = keep_a ? a : b;
assign extreme[63:32] = kept[63:32];
assign extreme[31:0] = a_is_nan || b_is_nan ? CANONICAL_NAN : is_short ? {16'd0, kept[15:0]} : kept[31:0];

endmodule

`resetall
