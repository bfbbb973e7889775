// The number of the lowest set bit of a bitmap, and the bitmap without it. Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module lowest_bit (
    input  wire [63:0] bitmap,
    output reg  [5:0]  lowest,
    output reg  [63:0] rest
);

// Bits that have a lower one. Each step doubles how far it looks, so that no bit waits for all those below it.
integer i;
always @* begin
    rest = bitmap << 1;
    for (i = 1; i < 64; i = 2 * i) rest = rest | (rest << i);
    rest = rest & bitmap;
    lowest = 6'd0;
    for (i = 0; i < 64; i = i + 1) begin
        if (bitmap[i] && !rest[i]) lowest = lowest | i[5:0];
    end
end

endmodule

`resetall
