// Quotients of 64 bits of integers of 8, 16, 32 or 64 bits and a number of 2 to 2**32 - 1, rounded toward zero (SPEC.md,
// 12-25). The divisor comes as its reciprocal and its shift (reciprocal_table.v).
//
// Let r be the first N bits of the reciprocal: then 2**N + r + 1 is 2**(N+shift) / divisor, rounded up. For each whole n
// below 2**N, n / divisor rounded down is n * (2**N + r + 1) / 2**(N+shift) rounded down: Granlund and Montgomery,
// "Division by Invariant Integers using Multiplication", 1994, theorem 4.2.
//
// 64 bits a clock; the quotients come 8 clocks after operands with `valid`. The product of 64 bits is made of 16 products,
// of 16 bits of n and 16 bits of r. Those of shorter integers have the same places, where both factors belong to one
// integer; two bytes, with eight zeros between them, have one product.
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

localparam [1:0] BYTES = 2'd0, HALFWORDS = 2'd1, WORDS = 2'd2; // sizes

reg [7:1] works; // stages with data
always @(posedge clk) works <= {works[6:1], valid};

// Elements with the other sign, where their bytes are `negative`: of a byte, if all below it in its element are zeros
function [63:0] turned;
    input [63:0] value;
    input [7:0]  negative;
    input [1:0]  size;
    reg carry;
    integer i, k;
    begin
        for (i = 0; i < 8; i = i + 1) begin
            carry = negative[i];
            for (k = 0; k < i; k = k + 1) begin
                if (i[2:0] >> size == k[2:0] >> size && value[8*k +: 8] != 8'd0) carry = 1'b0;
            end
            turned[8*i +: 8] = (value[8*i +: 8] ^ {8{negative[i]}}) + {7'd0, carry};
        end
    end
endfunction

// Stage 1: magnitudes, and r in the place of each integer
reg [7:0]  is_negative;
reg [63:0] factors;
integer j;
always @* begin
    for (j = 0; j < 8; j = j + 1) is_negative[j] = is_signed && a[{j[2:0] | ~(3'd7 << size_log2), 3'd7}];
    case (size_log2)
        BYTES: factors = {4{8'd0, reciprocal[63:56]}};
        HALFWORDS: factors = {4{reciprocal[63:48]}};
        WORDS: factors = {2{reciprocal[63:32]}};
        default: factors = reciprocal;
    endcase
end

reg [63:0] magnitude_1, magnitude_2, factors_1;
always @(posedge clk) if (valid) begin
    factors_1 <= factors;
    magnitude_1 <= turned(a, is_negative, size_log2);
end

// What goes along with the data
reg  [1:0] size_1, size_2, size_3, size_4, size_5, size_6, size_7;
wire [7:0] negative_7;
wire [5:0] shift_6;
always @(posedge clk) {size_1, size_2, size_3, size_4, size_5, size_6, size_7}
    <= {size_log2, size_1, size_2, size_3, size_4, size_5, size_6};
delay #(.WIDTH(8), .CLOCKS(7)) signs (.clk(clk), .advance(1'b1), .data(is_negative), .delayed(negative_7));
delay #(.WIDTH(6), .CLOCKS(6)) shifts (.clk(clk), .advance(1'b1), .data(shift), .delayed(shift_6));

// Stage 2: the products
reg [511:0] products_2; // of parts i and j at 32 * (4 * i + j)
genvar p, q;
generate
    for (p = 0; p < 4; p = p + 1) begin : parts
        wire [15:0] part = magnitude_1[16*p +: 16];
        for (q = 0; q < 4; q = q + 1) begin : of_r
            wire is_one = p == q || size_1 > WORDS || (size_1 == WORDS && p / 2 == q / 2);
            wire [15:0] factor = is_one ? factors_1[16*q +: 16] : 16'd0;
            wire [23:0] number = p == q && size_1 == BYTES ? {part[15:8], 8'd0, part[7:0]} : {8'd0, part};
            always @(posedge clk) if (works[1]) products_2[32*(4*p+q) +: 32] <= {8'd0, number} * {16'd0, factor};
        end
    end
endgenerate
always @(posedge clk) if (works[1]) magnitude_2 <= magnitude_1;

// Stages 3 to 6: the sum, in columns of 16 bits. To n * r n itself is added, and n * 2**N.
reg [151:0] sums_3;    // 8 of 19 bits
reg [135:0] columns_4; // 8 of 17 bits, with the carries of the sums before them
reg [7:0]   tops_4;    // what lies above the last column of an integer
reg [135:0] columns_5, columns_6;
reg [7:0]   tops_5, tops_6, carries_5; // one more carry into each column

// Which columns are the last ones of an integer
function [7:0] last;
    input [1:0] size;
    last = size == BYTES ? 8'hff : size == HALFWORDS ? 8'haa : size == WORDS ? 8'h88 : 8'h80;
endfunction

wire [7:0] last_3 = last(size_3), last_4 = last(size_4);
genvar c, t;
generate
    for (c = 0; c < 8; c = c + 1) begin : columns
        reg  [15:0]  own; // of the integer
        wire [151:0] terms;
        wire [18:0]  sum = sums_3[19*c +: 19];
        wire [2:0]   carried;
        if (c == 0) begin : lowest
            assign carried = 3'd0;
        end else begin : other
            assign carried = last_3[c-1] ? 3'd0 : sums_3[19*c-3 +: 3];
        end
        always @* begin
            case (size_2)
                BYTES: own = {2{magnitude_2[8*c +: 8]}};
                HALFWORDS: own = magnitude_2[16*(c/2) +: 16];
                WORDS: own = magnitude_2[16*(c/4*2+c%2) +: 16];
                default: own = magnitude_2[16*(c%4) +: 16];
            endcase
        end
        for (t = 0; t < 4; t = t + 1) begin : of_part
            // Lower halves of products, upper ones of products one column before; there is a place left for `own`.
            if (t <= c && c - t < 4) begin : low
                assign terms[19*t +: 19] = {3'd0, products_2[32*(3*t+c) +: 16]};
            end else begin : no_low
                assign terms[19*t +: 19] = t == 0 ? {3'd0, own} : 19'd0;
            end
            if (t < c && c - t < 5) begin : high
                assign terms[19*(4+t) +: 19] = {3'd0, products_2[32*(3*t+c-1)+16 +: 16]};
            end else begin : no_high
                assign terms[19*(4+t) +: 19] = t == 3 && c < 4 ? {3'd0, own} : 19'd0;
            end
        end
        always @(posedge clk) begin
            if (works[2]) sums_3[19*c +: 19] <=
                ((terms[0 +: 19] + terms[19 +: 19]) + (terms[38 +: 19] + terms[57 +: 19]))
                + ((terms[76 +: 19] + terms[95 +: 19]) + (terms[114 +: 19] + terms[133 +: 19]));
            if (works[3]) columns_4[17*c +: 17] <= {1'b0, sum[15:0]} + {14'd0, carried};
            if (works[3]) tops_4[c] <= |sum[18:16];
            if (works[5]) columns_6[17*c +: 17] <= columns_5[17*c +: 17] + {16'd0, carries_5[c]};
        end
    end
endgenerate

reg [7:0] carries;
reg       carry;
integer k;
always @* begin
    carry = 1'b0;
    for (k = 0; k < 8; k = k + 1) begin
        carries[k] = carry;
        carry = !last_4[k] && (columns_4[17*k+16] || (carry && &columns_4[17*k +: 16]));
    end
end
always @(posedge clk) begin
    if (works[4]) {columns_5, tops_5, carries_5} <= {columns_4, tops_4, carries};
    if (works[5]) tops_6 <= tops_5;
end

// Stage 7: the shift, of the upper half of each sum
reg [63:0]  magnitude_7, shifted;
reg [8:0]   byte_6;
reg [16:0]  halfword_6;
reg [32:0]  word_6;
reg [64:0]  long_6;
reg [127:0] low; // 16 bits of each column
reg [7:0]   top; // above it
integer n;
always @* begin
    for (n = 0; n < 8; n = n + 1) begin
        low[16*n +: 16] = columns_6[17*n +: 16];
        top[n] = tops_6[n] || columns_6[17*n+16];
    end
    byte_6 = 9'd0;
    halfword_6 = 17'd0;
    word_6 = 33'd0;
    long_6 = {top[7], low[64 +: 64]} >> shift_6;
    shifted = long_6[63:0];
    case (size_6)
        BYTES: for (n = 0; n < 8; n = n + 1) begin
            byte_6 = {top[n], low[16*n+8 +: 8]} >> shift_6;
            shifted[8*n +: 8] = byte_6[7:0];
        end
        HALFWORDS: for (n = 0; n < 4; n = n + 1) begin
            halfword_6 = {top[2*n+1], low[32*n+16 +: 16]} >> shift_6;
            shifted[16*n +: 16] = halfword_6[15:0];
        end
        WORDS: for (n = 0; n < 2; n = n + 1) begin
            word_6 = {top[4*n+3], low[64*n+32 +: 32]} >> shift_6;
            shifted[32*n +: 32] = word_6[31:0];
        end
        default: ;
    endcase
end
always @(posedge clk) if (works[6]) magnitude_7 <= shifted;

// Stage 8: the sign
always @(posedge clk) if (works[7]) quotient <= turned(magnitude_7, negative_7, size_7);

wire unused = &{1'b0, byte_6[8], halfword_6[16], word_6[32], long_6[64], low[7:0], last_3[7]};

endmodule

`resetall
