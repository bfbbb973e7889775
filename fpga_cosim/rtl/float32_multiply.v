// Product of two IEEE 754 binary32 numbers, rounded to nearest even, with subnormals. Any NaN is the canonical one,
// 0x7fc00000 (SPEC.md, 12-14 and 12-15).
//
// One product a clock; it comes LATENCY = 7 clocks with `advance` after its operands.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float32_multiply (
    input  wire        clk,
    input  wire        advance,
    input  wire [31:0] a,
    input  wire [31:0] b,
    output reg  [31:0] product
);

localparam [31:0] CANONICAL_NAN = 32'h7fc00000, INFINITY = 32'h7f800000;

// Stages 1 and 2: the fractions, with the first ones of normal numbers, are multiplied, in parts that a multiplier of an
// FPGA takes whole; then the sum of the parts. What is special goes to the last stage.
wire [7:0]  a_exponent = a[30:23] == 8'd0 ? 8'd1 : a[30:23], b_exponent = b[30:23] == 8'd0 ? 8'd1 : b[30:23];
wire [23:0] a_number = {a[30:23] != 8'd0, a[22:0]}, b_number = {b[30:23] != 8'd0, b[22:0]};
wire a_is_nan = a[30:23] == 8'hff && a[22:0] != 23'd0, b_is_nan = b[30:23] == 8'hff && b[22:0] != 23'd0;
wire a_is_infinite = a[30:0] == INFINITY[30:0], b_is_infinite = b[30:0] == INFINITY[30:0];
wire a_is_zero = a[30:0] == 31'd0, b_is_zero = b[30:0] == 31'd0;

reg        sign_1, nan_1, infinite_1;
reg [40:0] low_1;
reg [30:0] high_1;
reg [47:0] product_2;
reg signed [9:0] exponent_1, exponent_2; // of a product below 2, whose first one is bit 46; negative ones are subnormal
wire       sign_6, nan_6, infinite_6;

always @(posedge clk) if (advance) begin
    sign_1 <= a[31] ^ b[31];
    nan_1 <= a_is_nan || b_is_nan || (a_is_infinite && b_is_zero) || (b_is_infinite && a_is_zero);
    infinite_1 <= a_is_infinite || b_is_infinite;
    low_1 <= {17'd0, a_number} * {24'd0, b_number[16:0]};
    high_1 <= {7'd0, a_number} * {24'd0, b_number[23:17]};
    exponent_1 <= {2'd0, a_exponent} + {2'd0, b_exponent} - 10'd127;
    product_2 <= {high_1, 17'd0} + {7'd0, low_1};
    exponent_2 <= exponent_1;
end
delay #(.WIDTH(3), .CLOCKS(5)) special (
    .clk(clk), .advance(advance), .data({sign_1, nan_1, infinite_1}), .delayed({sign_6, nan_6, infinite_6})
);

// Stages 3 and 4: how far to shift it so that the first one goes to bit 47, unless the number is subnormal.
reg [5:0] zeros, zeros_3;
integer i;

always @* begin
    zeros = 6'd48;
    for (i = 0; i < 48; i = i + 1) begin
        if (product_2[i]) zeros = 6'd47 - i[5:0];
    end
end

reg signed [9:0] exponent_3, exponent_4;
reg signed [9:0] down_3; // to shift to the right, if it is not negative
wire is_low = exponent_3 < $signed({4'd0, zeros_3}) || zeros_3 == 6'd48; // no one can reach bit 47

reg        right_4;
reg [47:0] product_3, product_4;
reg [5:0]  distance_4;

always @(posedge clk) if (advance) begin
    zeros_3 <= zeros;
    product_3 <= product_2;
    exponent_3 <= exponent_2;
    down_3 <= -exponent_2;
    product_4 <= product_3;
    right_4 <= exponent_3[9];
    distance_4 <= exponent_3[9] ? (down_3 > 10'sd48 ? 6'd48 : down_3[5:0]) : is_low ? exponent_3[5:0] : zeros_3;
    exponent_4 <= is_low ? 10'sd0 : exponent_3 + 10'sd1 - $signed({4'd0, zeros_3});
end

// Stage 5: the shift.
wire [47:0] left = product_4 << distance_4;
wire [95:0] right = {product_4, 48'd0} >> distance_4;

reg [47:0] shifted_5;
reg        lost_5; // ones that have fallen out on the right
reg signed [9:0] exponent_5;

always @(posedge clk) if (advance) begin
    shifted_5 <= right_4 ? right[95:48] : left;
    lost_5 <= right_4 && |right[47:0];
    exponent_5 <= exponent_4;
end

// Stage 6: what is behind the fraction, as a guard and a sticky bit.
reg        too_great_6, guard_6, sticky_6;
reg [22:0] fraction_6;
reg [7:0]  exponent_6;

always @(posedge clk) if (advance) begin
    too_great_6 <= exponent_5 >= 10'sd255;
    fraction_6 <= shifted_5[46:24];
    guard_6 <= shifted_5[23];
    sticky_6 <= |shifted_5[22:0] || lost_5;
    exponent_6 <= exponent_5[7:0];
end

// Stage 7: rounding. A carry out of the fraction goes into the exponent, also from subnormal to normal, and to infinity.
wire round_up = guard_6 && (sticky_6 || fraction_6[0]);
wire [30:0] rounded = {exponent_6, fraction_6} + {30'd0, round_up};

always @(posedge clk) if (advance) begin
    if (nan_6) product <= CANONICAL_NAN;
    else product <= {sign_6, infinite_6 || too_great_6 ? INFINITY[30:0] : rounded};
end

wire unused = shifted_5[47];

endmodule

`resetall
