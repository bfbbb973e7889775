// Sum of two IEEE 754 binary32 numbers, rounded to nearest even, with subnormals. Any NaN is the canonical one,
// 0x7fc00000 (SPEC.md, 12-14 and 12-15).
//
// One sum a clock; it comes LATENCY = 4 clocks with `advance` after its operands.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float32_add (
    input  wire        clk,
    input  wire        advance,
    input  wire [31:0] a,
    input  wire [31:0] b,
    output reg  [31:0] sum
);

localparam [31:0] CANONICAL_NAN = 32'h7fc00000;

// Stage 1: the number of the greater magnitude is `larger`.
wire a_is_big = a[30:0] >= b[30:0];
wire [31:0] larger = a_is_big ? a : b;
wire [30:0] smaller = a_is_big ? b[30:0] : a[30:0];
wire [7:0] big_exponent = larger[30:23] == 8'd0 ? 8'd1 : larger[30:23];
wire [7:0] small_exponent = smaller[30:23] == 8'd0 ? 8'd1 : smaller[30:23];
wire big_is_special = larger[30:23] == 8'hff;
wire opposite = a[31] ^ b[31];
wire small_is_infinite = smaller == 31'h7f800000;

reg        sign_1, subtract_1, special_1;
reg [31:0] special_value_1;
reg [7:0]  exponent_1, distance_1;
reg [23:0] big_1, small_1;

always @(posedge clk) if (advance) begin
    sign_1 <= larger[31];
    subtract_1 <= opposite;
    special_1 <= big_is_special;
    special_value_1 <= larger[22:0] != 23'd0 || (opposite && small_is_infinite) ? CANONICAL_NAN : larger;
    exponent_1 <= big_exponent;
    distance_1 <= big_exponent - small_exponent;
    big_1 <= {larger[30:23] != 8'd0, larger[22:0]};
    small_1 <= {smaller[30:23] != 8'd0, smaller[22:0]};
end

// Stage 2: the smaller one is shifted to the place of the greater, with guard, round and sticky bit, and added.
wire [49:0] shifted = {small_1, 26'd0} >> (distance_1 > 8'd26 ? 5'd26 : distance_1[4:0]);
wire [26:0] aligned = {shifted[49:24], |shifted[23:0]};
wire [27:0] difference = {1'b0, big_1, 3'b000} - {1'b0, aligned};
wire [27:0] total = {1'b0, big_1, 3'b000} + {1'b0, aligned};

reg        sign_2, subtract_2, special_2;
reg [31:0] special_value_2;
reg [7:0]  exponent_2;
reg [27:0] total_2;

always @(posedge clk) if (advance) begin
    sign_2 <= sign_1;
    subtract_2 <= subtract_1;
    special_2 <= special_1;
    special_value_2 <= special_value_1;
    exponent_2 <= exponent_1;
    total_2 <= subtract_1 ? difference : total;
end

// Stage 3: the first one goes to bit 26, unless the number is subnormal.
reg [4:0] zeros;
integer i;

always @* begin
    zeros = 5'd27;
    for (i = 0; i < 27; i = i + 1) begin
        if (total_2[i]) zeros = 5'd26 - i[4:0];
    end
end

wire [7:0] room = exponent_2 - 8'd1;
wire [4:0] left = {3'd0, zeros} > room ? room[4:0] : zeros;
wire [26:0] normal = total_2[26:0] << left;

reg        sign_3, special_3;
reg [31:0] special_value_3;
reg [8:0]  exponent_3;
reg [25:0] number_3; // without the first one, which is the exponent's

always @(posedge clk) if (advance) begin
    // x - x is +0; a sum of zeros of one sign has that sign.
    sign_3 <= sign_2 && !(subtract_2 && total_2 == 28'd0);
    special_3 <= special_2;
    special_value_3 <= special_value_2;
    if (total_2[27]) begin
        number_3 <= {total_2[26:2], total_2[1] | total_2[0]};
        exponent_3 <= {1'b0, exponent_2} + 9'd1;
    end else begin
        number_3 <= normal[25:0];
        exponent_3 <= normal[26] ? {1'b0, exponent_2 - {3'd0, left}} : 9'd0;
    end
end

// Stage 4: rounding. A carry out of the fraction goes into the exponent, also from subnormal to normal, and to infinity.
wire round_up = number_3[2] && (number_3[1] || number_3[0] || number_3[3]);
wire [30:0] rounded = {exponent_3[7:0], number_3[25:3]} + {30'd0, round_up};

always @(posedge clk) if (advance) begin
    if (special_3) sum <= special_value_3;
    else if (exponent_3 >= 9'd255) sum <= {sign_3, 31'h7f800000};
    else sum <= {sign_3, rounded};
end

endmodule

`resetall
