// Products of 64 bits of integers of 8, 16, 32 or 64 bits, which wrap (SPEC.md, 12-13); signed and unsigned are the same.
//
// One product of 64 bits a clock; it comes LATENCY = 4 clocks with `advance` after its operands. It is made of products of
// 16 bits, for all sizes the same: an FPGA has multipliers that take these whole.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module integer_multiply (
    input  wire        clk,
    input  wire        advance,
    input  wire [1:0]  size_log2, // of an element, in bytes
    input  wire [63:0] a,
    input  wire [63:0] b,
    output reg  [63:0] product
);

localparam [1:0] BYTES = 2'd0, WORDS = 2'd2, LONGS = 2'd3; // sizes

// Stage 1: products of part i of a and part j of b, 16 bits each. Where elements are shorter than 64 bits, the upper half
// of b meets the upper half of a; bytes have a product each, of byte i + 2j.
reg  [31:0] part_1 [0:7]; // i + 2j; i is 0 or 1
reg  [31:0] part_20_1;    // and what only 64 bits have, by i and j
reg  [15:0] part_21_1, part_30_1;
wire [15:0] a_part [0:7], b_part [0:7];
reg  [1:0]  size_1, size_2, size_3;
genvar k;
generate
    for (k = 0; k < 8; k = k + 1) begin : parts
        localparam I = k % 2, J = k / 2;
        assign a_part[k] = size_log2 == BYTES ? {8'd0, a[8*k +: 8]}
            : size_log2 == LONGS ? a[16*I +: 16] : a[16*(I + J / 2 * 2) +: 16];
        assign b_part[k] = size_log2 == BYTES ? {8'd0, b[8*k +: 8]} : b[16*J +: 16];
        always @(posedge clk) if (advance) part_1[k] <= {16'd0, a_part[k]} * {16'd0, b_part[k]};
    end
endgenerate

always @(posedge clk) if (advance) begin
    part_20_1 <= {16'd0, a[47:32]} * {16'd0, b[15:0]};
    part_21_1 <= a[47:32] * b[31:16];
    part_30_1 <= a[63:48] * b[15:0];
    {size_1, size_2, size_3} <= {size_log2, size_1, size_2};
end

// Stages 2 to 4: the sums. Products of 16 bits and of bytes are ready.
wire is_long = size_1 == LONGS;
reg  [31:0] low_2, upper_2, high_3;
reg  [32:0] cross_2;
reg  [15:0] top_2, low_3;
reg  [32:0] middle_3;
reg  [63:0] short_2, short_3;

always @(posedge clk) if (advance) begin
    low_2 <= part_1[0];
    cross_2 <= {1'b0, part_1[1]} + {1'b0, part_1[2]};
    upper_2 <= part_1[4] + (is_long ? part_1[3] + part_20_1 : 32'd0);
    top_2 <= part_1[5][15:0] + part_1[6][15:0] + (is_long ? part_21_1 + part_30_1 : 16'd0);
    short_2 <= size_1 == BYTES
        ? {part_1[7][7:0], part_1[6][7:0], part_1[5][7:0], part_1[4][7:0],
           part_1[3][7:0], part_1[2][7:0], part_1[1][7:0], part_1[0][7:0]}
        : {part_1[7][15:0], part_1[4][15:0], part_1[3][15:0], part_1[0][15:0]};

    low_3 <= low_2[15:0];
    middle_3 <= cross_2 + {17'd0, low_2[31:16]};
    high_3 <= upper_2 + {top_2, 16'd0};
    short_3 <= short_2;

    case (size_3)
        LONGS: product <= {high_3 + {15'd0, middle_3[32:16]}, middle_3[15:0], low_3};
        WORDS: product <= {high_3, middle_3[15:0], low_3};
        default: product <= short_3;
    endcase
end

wire unused = &{1'b0, part_1[7][31:16]};

endmodule

`resetall
