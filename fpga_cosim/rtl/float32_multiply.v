// Product of two IEEE 754 binary32 numbers, rounded to nearest even, with subnormals. Any NaN is the canonical one,
// 0x7fc00000 (SPEC.md, 12-14 and 12-15).
//
// One product a clock; it comes LATENCY = 4 clocks with `advance` after its operands.
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

// Stage 1: the fractions, with the first ones of normal numbers, are multiplied.
wire [7:0]  a_exponent = a[30:23] == 8'd0 ? 8'd1 : a[30:23], b_exponent = b[30:23] == 8'd0 ? 8'd1 : b[30:23];
wire [23:0] a_number = {a[30:23] != 8'd0, a[22:0]}, b_number = {b[30:23] != 8'd0, b[22:0]};
wire a_is_nan = a[30:23] == 8'hff && a[22:0] != 23'd0, b_is_nan = b[30:23] == 8'hff && b[22:0] != 23'd0;
wire a_is_infinite = a[30:0] == INFINITY[30:0], b_is_infinite = b[30:0] == INFINITY[30:0];
wire a_is_zero = a[30:0] == 31'd0, b_is_zero = b[30:0] == 31'd0;

reg        sign_1, nan_1, infinite_1;
reg [47:0] product_1;
reg signed [9:0] exponent_1; // of a product below 2, whose first one is bit 46; negative ones are subnormal

always @(posedge clk) if (advance) begin
    sign_1 <= a[31] ^ b[31];
    nan_1 <= a_is_nan || b_is_nan || (a_is_infinite && b_is_zero) || (b_is_infinite && a_is_zero);
    infinite_1 <= a_is_infinite || b_is_infinite;
    product_1 <= {24'd0, a_number} * {24'd0, b_number};
    exponent_1 <= {2'd0, a_exponent} + {2'd0, b_exponent} - 10'd127;
end

// Stage 2: how far to shift it so that the first one goes to bit 47, unless the number is subnormal.
reg [5:0] zeros;
integer i;

always @* begin
    zeros = 6'd48;
    for (i = 0; i < 48; i = i + 1) begin
        if (product_1[i]) zeros = 6'd47 - i[5:0];
    end
end

wire is_low = exponent_1 < $signed({4'd0, zeros}) || zeros == 6'd48; // no one can reach bit 47
wire signed [9:0] down = -exponent_1;

reg        sign_2, nan_2, infinite_2, right_2;
reg [47:0] product_2;
reg [5:0]  distance_2;
reg signed [9:0] exponent_2;

always @(posedge clk) if (advance) begin
    sign_2 <= sign_1;
    nan_2 <= nan_1;
    infinite_2 <= infinite_1;
    product_2 <= product_1;
    right_2 <= exponent_1[9];
    distance_2 <= exponent_1[9] ? (down > 10'sd48 ? 6'd48 : down[5:0]) : is_low ? exponent_1[5:0] : zeros;
    exponent_2 <= is_low ? 10'sd0 : exponent_1 + 10'sd1 - $signed({4'd0, zeros});
end

// Stage 3: the shift. What falls out on the right is kept as one sticky bit.
wire [47:0] left = product_2 << distance_2;
wire [95:0] right = {product_2, 48'd0} >> distance_2;
wire [47:0] shifted = right_2 ? right[95:48] : left;

reg        sign_3, nan_3, infinite_3, guard_3, sticky_3;
reg [22:0] fraction_3;
reg signed [9:0] exponent_3;

always @(posedge clk) if (advance) begin
    sign_3 <= sign_2;
    nan_3 <= nan_2;
    infinite_3 <= infinite_2 || exponent_2 >= 10'sd255;
    fraction_3 <= shifted[46:24];
    guard_3 <= shifted[23];
    sticky_3 <= |shifted[22:0] || (right_2 && |right[47:0]);
    exponent_3 <= exponent_2;
end

// Stage 4: rounding. A carry out of the fraction goes into the exponent, also from subnormal to normal, and to infinity.
wire round_up = guard_3 && (sticky_3 || fraction_3[0]);
wire [30:0] rounded = {exponent_3[7:0], fraction_3} + {30'd0, round_up};

always @(posedge clk) if (advance) begin
    if (nan_3) product <= CANONICAL_NAN;
    else product <= {sign_3, infinite_3 ? INFINITY[30:0] : rounded};
end

wire unused = &{1'b0, exponent_3[9:8], shifted[47]};

endmodule

`resetall
