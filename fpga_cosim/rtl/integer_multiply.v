// Products of 64 bits of integers of 8, 16, 32 or 64 bits, which wrap (SPEC.md, 12-13); signed and unsigned are the same.
// Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module integer_multiply (
    input  wire [1:0]  size_log2, // of an element, in bytes
    input  wire [63:0] a,
    input  wire [63:0] b,
    output reg  [63:0] product
);

integer i;

always @* begin
    case (size_log2)
        2'd0: for (i = 0; i < 8; i = i + 1) product[8*i +: 8] = a[8*i +: 8] * b[8*i +: 8];
        2'd1: for (i = 0; i < 4; i = i + 1) product[16*i +: 16] = a[16*i +: 16] * b[16*i +: 16];
        2'd2: for (i = 0; i < 2; i = i + 1) product[32*i +: 32] = a[32*i +: 32] * b[32*i +: 32];
        default: product = a * b;
    endcase
end

endmodule

`resetall
