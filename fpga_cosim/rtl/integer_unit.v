// One step of an operation on 64 bits of integers of 8, 16, 32 or 64 bits: SUM (which wraps), MIN, MAX, and the bitwise
// and logical operations (SPEC.md, 12-12, 12-13 and 12-26). Other operations give 0. Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"

module integer_unit (
    input  wire [7:0]  op,
    input  wire [1:0]  size_log2, // of an element, in bytes
    input  wire        is_signed,
    input  wire [63:0] a,
    input  wire [63:0] b,
    output reg  [63:0] result
);

reg [7:0] first, last;    // bytes of their elements
reg       carry, borrow;  // from the bytes below
reg       a_true, b_true; // the bytes of the element so far
reg       a_is_less, keep_a, is_true;
reg [63:0] sum;
reg [7:0]  less, a_truth, b_truth;
reg [7:0]  a_byte, b_byte;
reg [8:0]  byte_sum;
integer i;

always @* begin
    case (size_log2)
        2'd0: begin first = 8'b11111111; last = 8'b11111111; end
        2'd1: begin first = 8'b01010101; last = 8'b10101010; end
        2'd2: begin first = 8'b00010001; last = 8'b10001000; end
        default: begin first = 8'b00000001; last = 8'b10000000; end
    endcase

    // Upwards: carries, borrows and truth values end where an element begins.
    carry = 1'b0;
    borrow = 1'b0;
    a_true = 1'b0;
    b_true = 1'b0;
    for (i = 0; i < 8; i = i + 1) begin
        byte_sum = {1'b0, a[8*i +: 8]} + {1'b0, b[8*i +: 8]} + {8'd0, carry && !first[i]};
        sum[8*i +: 8] = byte_sum[7:0];
        carry = byte_sum[8];
        // With the sign turned over, two's complement is in the order of unsigned numbers.
        a_byte = a[8*i +: 8] ^ {is_signed && last[i], 7'd0};
        b_byte = b[8*i +: 8] ^ {is_signed && last[i], 7'd0};
        borrow = a_byte < b_byte || (a_byte == b_byte && borrow && !first[i]);
        less[i] = borrow;
        a_true = a[8*i +: 8] != 8'd0 || (a_true && !first[i]);
        b_true = b[8*i +: 8] != 8'd0 || (b_true && !first[i]);
        a_truth[i] = a_true;
        b_truth[i] = b_true;
    end

    // Downwards: the last byte of an element decides for all of its bytes.
    result = 64'd0;
    a_is_less = 1'b0;
    is_true = 1'b0;
    keep_a = 1'b0;
    for (i = 7; i >= 0; i = i - 1) begin
        if (last[i]) begin
            a_is_less = less[i];
            case (op)
                `FANIN_OP_LAND: is_true = a_truth[i] && b_truth[i];
                `FANIN_OP_LOR: is_true = a_truth[i] || b_truth[i];
                default: is_true = a_truth[i] != b_truth[i];
            endcase
        end
        keep_a = a_is_less != (op == `FANIN_OP_MAX);
        case (op)
            `FANIN_OP_SUM, `FANIN_OP_MEAN: result[8*i +: 8] = sum[8*i +: 8];
            `FANIN_OP_MIN, `FANIN_OP_MAX: result[8*i +: 8] = keep_a ? a[8*i +: 8] : b[8*i +: 8];
            `FANIN_OP_LAND, `FANIN_OP_LOR, `FANIN_OP_LXOR: result[8*i +: 8] = {7'd0, is_true && first[i]};
            `FANIN_OP_BAND: result[8*i +: 8] = a[8*i +: 8] & b[8*i +: 8];
            `FANIN_OP_BOR: result[8*i +: 8] = a[8*i +: 8] | b[8*i +: 8];
            `FANIN_OP_BXOR: result[8*i +: 8] = a[8*i +: 8] ^ b[8*i +: 8];
            default: result[8*i +: 8] = 8'd0;
        endcase
    end
end

endmodule

`resetall
