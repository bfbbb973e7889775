// Quotient of an IEEE 754 binary32 number and a whole number of 2 to 2**32 that is an f32, too: rounded to nearest
// even, with subnormals. Any NaN is the canonical one, 0x7fc00000 (SPEC.md, 12-14, 12-15 and 12-25). The divisor comes
// as its shift and the upper bits of its reciprocal (reciprocal_table.v): 2**50 + `reciprocal` + 1 is 2**(50+shift) /
// divisor, up to a whole number.
//
// One quotient a clock; it comes 6 clocks after operands with `valid`. The product is exact enough: let n and d be the
// 24 bits of dividend and divisor. n * 2**(shift+1) / divisor is a multiple of 1 / d: it is whole, or more than 2**-24
// away from the whole numbers. n * (2**50 + reciprocal + 1) / 2**49 is that, or more by less than 2**-24. So its whole
// part is right, and the quotient is exact where the 24 bits behind the point are zeros.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float32_divide (
    input  wire        clk,
    input  wire        valid,
    input  wire [31:0] a,
    input  wire [49:0] reciprocal,
    input  wire [5:0]  shift,
    output reg  [31:0] quotient
);

localparam [31:0] CANONICAL_NAN = 32'h7fc00000;

reg [5:1] works; // stages with data
always @(posedge clk) works <= {works[4:1], valid};

// Stage 1: the first one of the dividend goes to bit 23, also of a subnormal.
reg [4:0] zeros;
integer i;
always @* begin
    zeros = 5'd23;
    for (i = 0; i < 23; i = i + 1) begin
        if (a[i]) zeros = 5'd23 - i[4:0];
    end
end
wire is_normal = a[30:23] != 8'd0;

reg        sign_1, special_1, nan_1;
reg [23:0] number_1;
reg [49:0] reciprocal_1;
reg signed [9:0] exponent_1; // of a quotient that begins with bit 25

always @(posedge clk) if (valid) begin
    sign_1 <= a[31];
    special_1 <= &a[30:23];
    nan_1 <= &a[30:23] && a[22:0] != 23'd0;
    number_1 <= is_normal ? {1'b1, a[22:0]} : {1'b0, a[22:0]} << zeros;
    reciprocal_1 <= reciprocal;
    exponent_1 <= (is_normal ? {2'd0, a[30:23]} + 10'd1 : 10'd2 - {5'd0, zeros}) - {4'd0, shift};
end

// Stages 2 to 4: the product, in three parts, and their sum from the lower part on. Its lowest bits do not count.
reg        sign_2, special_2, nan_2, sign_3, special_3, nan_3, sign_4, special_4, nan_4;
reg [41:0] low_2, middle_2, middle_3, high_2, high_3;
reg [74:0] product_4;
reg signed [9:0] exponent_2, exponent_3;

always @(posedge clk) if (works[1]) begin
    {sign_2, special_2, nan_2, exponent_2} <= {sign_1, special_1, nan_1, exponent_1};
    low_2 <= {18'd0, number_1} * {25'd0, reciprocal_1[16:0]} + {18'd0, number_1};
    middle_2 <= {18'd0, number_1} * {25'd0, reciprocal_1[33:17]};
    high_2 <= {18'd0, number_1} * {25'd0, 1'b1, reciprocal_1[49:34]};
end
always @(posedge clk) if (works[2]) begin
    {sign_3, special_3, nan_3, exponent_3} <= {sign_2, special_2, nan_2, exponent_2};
    {high_3, middle_3} <= {high_2, middle_2 + {17'd0, low_2[41:17]}};
end

// Where a number of 26 bits goes, and its exponent: a subnormal one is shifted to the right by the distance.
function [12:0] placed;
    input signed [9:0] exponent;
    reg   signed [9:0] down;
    begin
        down = 10'sd1 - exponent;
        placed = down < 10'sd1 ? {5'd0, exponent[7:0]} : {down > 10'sd26 ? 5'd26 : down[4:0], 8'd0};
    end
endfunction

// The product begins with bit 74, or with bit 73: then the exponent is one less.
reg [12:0] place_high_4, place_4;
always @(posedge clk) if (works[3]) begin
    {sign_4, special_4, nan_4} <= {sign_3, special_3, nan_3};
    product_4 <= {high_3[40:0] + {16'd0, middle_3[41:17]}, middle_3[16:0], 17'd0};
    place_high_4 <= placed(exponent_3);
    place_4 <= placed(exponent_3 - 10'sd1);
end

// Stage 5: the first one goes to bit 25, or to where a subnormal has it. What falls out is kept as one sticky bit.
wire is_high = product_4[74];
wire [25:0] number = is_high ? product_4[74:49] : product_4[73:48];
wire [4:0]  distance = is_high ? place_high_4[12:8] : place_4[12:8];
wire [51:0] shifted = {number, 26'd0} >> distance;

reg        sign_5, special_5, nan_5, guard_5, sticky_5;
reg [7:0]  exponent_5;
reg [22:0] fraction_5;

always @(posedge clk) if (works[4]) begin
    {sign_5, special_5, nan_5} <= {sign_4, special_4, nan_4};
    exponent_5 <= is_high ? place_high_4[7:0] : place_4[7:0];
    fraction_5 <= shifted[50:28];
    guard_5 <= shifted[27];
    sticky_5 <= |shifted[26:0] || |product_4[47:25] || (is_high && product_4[48]);
end

// Stage 6: rounding. A carry out of the fraction goes into the exponent.
wire round_up = guard_5 && (sticky_5 || fraction_5[0]);

always @(posedge clk) if (works[5]) begin
    if (nan_5) quotient <= CANONICAL_NAN;
    else if (special_5) quotient <= {sign_5, 31'h7f800000};
    else quotient <= {sign_5, {exponent_5, fraction_5} + {30'd0, round_up}};
end

wire unused = &{1'b0, low_2[16:0], high_3[41], shifted[51], product_4[24:0]};

endmodule

`resetall
