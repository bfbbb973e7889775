// Sum of two IEEE 754 binary32 numbers, rounded to nearest even, with subnormals. Any NaN is the canonical one,
// 0x7fc00000 (SPEC.md, 12-14 and 12-15).
//
// One sum a clock; it comes LATENCY = 7 clocks with `advance` after its operands.
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

localparam [31:0] CANONICAL_NAN = 32'h7fc00000, INFINITY = 32'h7f800000;

// Stage 1: the number of the greater magnitude is the big one.
wire a_is_big = a[30:0] >= b[30:0];

reg        sign_1, subtract_1;
reg [30:0] big_1, small_1;

always @(posedge clk) if (advance) begin
    sign_1 <= a_is_big ? a[31] : b[31];
    subtract_1 <= a[31] ^ b[31];
    big_1 <= a_is_big ? a[30:0] : b[30:0];
    small_1 <= a_is_big ? b[30:0] : a[30:0];
end

// Stage 2: the fractions with the first ones of normal numbers, and how far the exponents are apart.
wire [7:0] big_exponent = big_1[30:23] == 8'd0 ? 8'd1 : big_1[30:23];
wire [7:0] small_exponent = small_1[30:23] == 8'd0 ? 8'd1 : small_1[30:23];

reg        sign_2, subtract_2, infinite_2, nan_2;
wire       infinite_6, nan_6;
reg [7:0]  exponent_2, distance_2;
reg [23:0] big_2, small_2;

always @(posedge clk) if (advance) begin
    sign_2 <= sign_1;
    subtract_2 <= subtract_1;
    infinite_2 <= big_1[30:23] == 8'hff;
    nan_2 <= big_1 > INFINITY[30:0] || (subtract_1 && small_1 == INFINITY[30:0]);
    exponent_2 <= big_exponent;
    distance_2 <= big_exponent - small_exponent;
    big_2 <= {big_1[30:23] != 8'd0, big_1[22:0]};
    small_2 <= {small_1[30:23] != 8'd0, small_1[22:0]};
end
delay #(.WIDTH(2), .CLOCKS(4)) special (
    .clk(clk), .advance(advance), .data({infinite_2, nan_2}), .delayed({infinite_6, nan_6})
);

// Stage 3: the small one is shifted to the place of the big one, with guard, round and sticky bit.
wire [49:0] shifted = {small_2, 26'd0} >> (distance_2 > 8'd26 ? 5'd26 : distance_2[4:0]);

reg        sign_3, subtract_3;
reg [7:0]  exponent_3;
reg [23:0] big_3;
reg [26:0] small_3;

always @(posedge clk) if (advance) begin
    sign_3 <= sign_2;
    subtract_3 <= subtract_2;
    exponent_3 <= exponent_2;
    big_3 <= big_2;
    small_3 <= {shifted[49:24], |shifted[23:0]};
end

// Stage 4: they are added, or the small one is subtracted: with its bits turned over, and a carry into the lowest.
wire [28:0] total = {1'b0, big_3, 3'b000, 1'b1} + {{1'b0, small_3} ^ {28{subtract_3}}, subtract_3};

reg        sign_4, subtract_4;
reg [7:0]  exponent_4, room_4; // room: to shift to the left, until it is subnormal
reg [27:0] total_4;

always @(posedge clk) if (advance) begin
    sign_4 <= sign_3;
    subtract_4 <= subtract_3;
    exponent_4 <= exponent_3;
    room_4 <= exponent_3 - 8'd1;
    total_4 <= total[28:1];
end

// Stage 5: how far to shift it so that the first one goes to bit 26, unless the number is subnormal.
reg [4:0] zeros;
integer i;

always @* begin
    zeros = 5'd27;
    for (i = 0; i < 27; i = i + 1) begin
        if (total_4[i]) zeros = 5'd26 - i[4:0];
    end
end

reg        sign_5;
reg [7:0]  exponent_5;
reg [27:0] total_5;
reg [4:0]  left_5;

always @(posedge clk) if (advance) begin
    // x - x is +0; a sum of zeros of one sign has that sign.
    sign_5 <= sign_4 && !(subtract_4 && total_4 == 28'd0);
    exponent_5 <= exponent_4;
    total_5 <= total_4;
    left_5 <= {3'd0, zeros} > room_4 ? room_4[4:0] : zeros;
end

// Stage 6: the shift.
wire [26:0] normal = total_5[26:0] << left_5;

reg        sign_6;
reg [8:0]  exponent_6;
reg [25:0] number_6; // without the first one, which is the exponent's

always @(posedge clk) if (advance) begin
    sign_6 <= sign_5;
    if (total_5[27]) begin
        number_6 <= {total_5[26:2], total_5[1] | total_5[0]};
        exponent_6 <= {1'b0, exponent_5} + 9'd1;
    end else begin
        number_6 <= normal[25:0];
        exponent_6 <= normal[26] ? {1'b0, exponent_5 - {3'd0, left_5}} : 9'd0;
    end
end

// Stage 7: rounding. A carry out of the fraction goes into the exponent, also from subnormal to normal, and to infinity.
wire round_up = number_6[2] && (number_6[1] || number_6[0] || number_6[3]);
wire [30:0] rounded = {exponent_6[7:0], number_6[25:3]} + {30'd0, round_up};

always @(posedge clk) if (advance) begin
    if (nan_6) sum <= CANONICAL_NAN;
    else sum <= {sign_6, infinite_6 || exponent_6 >= 9'd255 ? INFINITY[30:0] : rounded};
end

wire unused = total[0];

endmodule

`resetall
