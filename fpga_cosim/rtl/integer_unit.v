// One step of an operation on 64 bits of integers of 8, 16, 32 or 64 bits: SUM (which wraps), MIN, MAX, and the bitwise
// and logical operations (SPEC.md, 12-12, 12-13 and 12-26). Other operations give 0.
//
// One step a clock; it comes LATENCY = 3 clocks with `advance` after its operands.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"

module integer_unit (
    input  wire        clk,
    input  wire        advance,
    input  wire [7:0]  op,
    input  wire [1:0]  size_log2, // of an element, in bytes
    input  wire        is_signed,
    input  wire [63:0] a,
    input  wire [63:0] b,
    output reg  [63:0] result
);

// Bits of bytes: that of the last byte of an element for all of its bytes
function [7:0] of_last;
    input [7:0] bits;
    input [1:0] size;
    case (size)
        2'd0: of_last = bits;
        2'd1: of_last = {{2{bits[7]}}, {2{bits[5]}}, {2{bits[3]}}, {2{bits[1]}}};
        2'd2: of_last = {{4{bits[7]}}, {4{bits[3]}}};
        default: of_last = {8{bits[7]}};
    endcase
endfunction

// And whether any of an element is set, at its first byte
function [7:0] any_at_first;
    input [7:0] bits;
    input [1:0] size;
    case (size)
        2'd0: any_at_first = bits;
        2'd1: any_at_first = {1'b0, |bits[7:6], 1'b0, |bits[5:4], 1'b0, |bits[3:2], 1'b0, |bits[1:0]};
        2'd2: any_at_first = {3'd0, |bits[7:4], 3'd0, |bits[3:0]};
        default: any_at_first = {7'd0, |bits};
    endcase
endfunction

reg [7:0] last; // bytes of their elements
always @* begin
    case (size_log2)
        2'd0: last = 8'b11111111;
        2'd1: last = 8'b10101010;
        2'd2: last = 8'b10001000;
        default: last = 8'b10000000;
    endcase
end

// One adder makes sums, and compares by a - b = a + ~b + 1. It has 9 bits for each byte. The ninth passes a carry on within
// an element. At its end it stops that of a sum; that of a difference it keeps (a is not less), and gives a new one.
// With the sign turned over, two's complement is in the order of unsigned numbers.
wire compares = op == `FANIN_OP_MIN || op == `FANIN_OP_MAX;
wire [71:0] x, y;
wire [7:0]  a_true, b_true;
genvar k;
generate
    for (k = 0; k < 8; k = k + 1) begin : bytes
        wire [7:0] turned = {compares && is_signed && last[k], 7'd0};
        assign x[9*k +: 9] = {compares || !last[k], a[8*k +: 8] ^ turned};
        assign y[9*k +: 9] = {compares && last[k], b[8*k +: 8] ^ turned ^ {8{compares}}};
        assign a_true[k] = |a[8*k +: 8];
        assign b_true[k] = |b[8*k +: 8];
    end
endgenerate

// Stages 1 and 2: the adder's lower and upper half; which elements are true
reg  [37:0] low_1; // with a carry in below, and one out above
reg  [35:0] x_1, y_1, low_2;
reg  [36:0] high_2;
reg  [7:0]  a_true_1, b_true_1, true_2;
wire [7:0]  a_any = any_at_first(a_true_1, size_1), b_any = any_at_first(b_true_1, size_1);
reg  [7:0]  op_1, op_2;
reg  [1:0]  size_1, size_2;
reg  [63:0] a_1, a_2, b_1, b_2;

always @(posedge clk) if (advance) begin
    {op_1, op_2} <= {op, op_1};
    {size_1, size_2} <= {size_log2, size_1};
    {a_1, a_2} <= {a, a_1};
    {b_1, b_2} <= {b, b_1};
    low_1 <= {1'b0, x[35:0], 1'b1} + {1'b0, y[35:0], compares};
    {x_1, y_1} <= {x[71:36], y[71:36]};
    {a_true_1, b_true_1} <= {a_true, b_true};
    low_2 <= low_1[36:1];
    high_2 <= {x_1, 1'b1} + {y_1, low_1[37]};
    case (op_1)
        `FANIN_OP_LAND: true_2 <= a_any & b_any;
        `FANIN_OP_LOR: true_2 <= a_any | b_any;
        default: true_2 <= a_any ^ b_any;
    endcase
end

// Stage 3: what the operation takes of it
wire [71:0] total = {high_2[36:1], low_2};
wire [7:0]  ninths = {total[71], total[62], total[53], total[44], total[35], total[26], total[17], total[8]};
wire [7:0]  not_less = of_last(ninths, size_2);
wire [7:0]  keep_a = not_less ^ {8{op_2 == `FANIN_OP_MIN}};
integer i;

always @(posedge clk) if (advance) begin
    for (i = 0; i < 8; i = i + 1) begin
        case (op_2)
            `FANIN_OP_SUM, `FANIN_OP_MEAN: result[8*i +: 8] <= total[9*i +: 8];
            `FANIN_OP_MIN, `FANIN_OP_MAX: result[8*i +: 8] <= keep_a[i] ? a_2[8*i +: 8] : b_2[8*i +: 8];
            `FANIN_OP_LAND, `FANIN_OP_LOR, `FANIN_OP_LXOR: result[8*i +: 8] <= {7'd0, true_2[i]};
            `FANIN_OP_BAND: result[8*i +: 8] <= a_2[8*i +: 8] & b_2[8*i +: 8];
            `FANIN_OP_BOR: result[8*i +: 8] <= a_2[8*i +: 8] | b_2[8*i +: 8];
            `FANIN_OP_BXOR: result[8*i +: 8] <= a_2[8*i +: 8] ^ b_2[8*i +: 8];
            default: result[8*i +: 8] <= 8'd0;
        endcase
    end
end

wire unused = &{1'b0, low_1[0], high_2[0]};

endmodule

`resetall
