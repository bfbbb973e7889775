// Quotients of 64 bits of integers of 8, 16, 32 or 64 bits and a number of 2 to 2**32 - 1, rounded toward zero (SPEC.md,
// 12-25). The divisor comes as its reciprocal and its shift (reciprocal_table.v), which are exact for all these integers.
//
// 64 bits a clock; the quotients come 6 clocks after operands with `valid`.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module integer_divide (
    input  wire        clk,
    input  wire        valid,
    input  wire [1:0]  size_log2, // of an element, in bytes
    input  wire        is_signed,
    input  wire [63:0] a,
    input  wire [63:0] reciprocal,
    input  wire [5:0]  shift,
    output reg  [63:0] quotient
);

reg [5:1] works; // stages with data
always @(posedge clk) works <= {works[4:1], valid};

// Elements with the other sign, where their bytes are `negative`
function [63:0] turned;
    input [63:0] value;
    input [7:0]  negative;
    input [1:0]  size;
    reg carry;
    integer i;
    begin
        carry = 1'b0;
        for (i = 0; i < 8; i = i + 1) begin
            if ((i[2:0] & ~(3'd7 << size)) == 3'd0) carry = negative[i]; // the first byte of an element
            {carry, turned[8*i +: 8]} = {1'b0, value[8*i +: 8] ^ {8{negative[i]}}} + {8'd0, carry};
        end
    end
endfunction

// Stage 1: magnitudes
reg [7:0] is_negative;
integer j;
always @* begin
    for (j = 0; j < 8; j = j + 1) is_negative[j] = is_signed && a[{j[2:0] | ~(3'd7 << size_log2), 3'd7}];
end

reg [7:0]  negative_1, negative_2, negative_3, negative_4, negative_5;
reg [1:0]  size_1, size_2, size_3, size_4, size_5;
reg [5:0]  shift_1, shift_2, shift_3, shift_4, shift_5;
reg [63:0] magnitude_1, reciprocal_1;
always @(posedge clk) if (valid) begin
    {negative_1, size_1, shift_1, reciprocal_1} <= {is_negative, size_log2, shift, reciprocal};
    magnitude_1 <= turned(a, is_negative, size_log2);
end

// Stages 2 to 5: the product of each byte, then their sums. Of the bits from 64 on the quotient is made.
reg [72:0]  bytes_2 [0:7];
reg [80:0]  pairs_3 [0:3];
reg [96:0]  fours_4 [0:1];
reg [71:0]  bytes_3, bytes_4, bytes_5; // 8 of 9 bits
reg [67:0]  pairs_4, pairs_5;          // 4 of 17
reg [65:0]  fours_5;                   // 2 of 33
reg [64:0]  eight_5;
wire [128:0] eight = {32'd0, fours_4[0]} + {fours_4[1], 32'd0};
integer k;
always @(posedge clk) if (works[1]) begin
    {negative_2, size_2, shift_2} <= {negative_1, size_1, shift_1};
    for (k = 0; k < 8; k = k + 1) bytes_2[k] <= {8'd0, 1'b1, reciprocal_1} * {65'd0, magnitude_1[8*k +: 8]};
end
always @(posedge clk) if (works[2]) begin
    {negative_3, size_3, shift_3} <= {negative_2, size_2, shift_2};
    for (k = 0; k < 8; k = k + 1) bytes_3[9*k +: 9] <= bytes_2[k][72:64];
    for (k = 0; k < 4; k = k + 1) pairs_3[k] <= {8'd0, bytes_2[2*k]} + {bytes_2[2*k+1], 8'd0};
end
always @(posedge clk) if (works[3]) begin
    {negative_4, size_4, shift_4} <= {negative_3, size_3, shift_3};
    bytes_4 <= bytes_3;
    for (k = 0; k < 4; k = k + 1) pairs_4[17*k +: 17] <= pairs_3[k][80:64];
    for (k = 0; k < 2; k = k + 1) fours_4[k] <= {16'd0, pairs_3[2*k]} + {pairs_3[2*k+1], 16'd0};
end
always @(posedge clk) if (works[4]) begin
    {negative_5, size_5, shift_5} <= {negative_4, size_4, shift_4};
    {bytes_5, pairs_5} <= {bytes_4, pairs_4};
    for (k = 0; k < 2; k = k + 1) fours_5[33*k +: 33] <= fours_4[k][96:64];
    eight_5 <= eight[128:64];
end

// Stage 6: the shift, and the sign
reg [63:0] magnitude_6;
reg [8:0]  byte_6;
reg [16:0] pair_6;
reg [32:0] four_6;
reg [64:0] eight_6;
integer m;
always @* begin
    byte_6 = 9'd0;
    pair_6 = 17'd0;
    four_6 = 33'd0;
    eight_6 = eight_5 >> shift_5;
    magnitude_6 = eight_6[63:0];
    case (size_5)
        2'd0: for (m = 0; m < 8; m = m + 1) begin
            byte_6 = bytes_5[9*m +: 9] >> shift_5;
            magnitude_6[8*m +: 8] = byte_6[7:0];
        end
        2'd1: for (m = 0; m < 4; m = m + 1) begin
            pair_6 = pairs_5[17*m +: 17] >> shift_5;
            magnitude_6[16*m +: 16] = pair_6[15:0];
        end
        2'd2: for (m = 0; m < 2; m = m + 1) begin
            four_6 = fours_5[33*m +: 33] >> shift_5;
            magnitude_6[32*m +: 32] = four_6[31:0];
        end
        default: ;
    endcase
end
always @(posedge clk) if (works[5]) quotient <= turned(magnitude_6, negative_5, size_5);

wire unused = &{1'b0, eight[63:0], byte_6[8], pair_6[16], four_6[32], eight_6[64]};

endmodule

`resetall
