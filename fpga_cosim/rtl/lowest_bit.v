// The lowest bit of a bitmap that is set, as a number, and what is left without it. Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module lowest_bit (
    input  wire [63:0] bitmap,
    output reg  [5:0]  lowest,
    output wire [63:0] rest
);

integer i;
always @* begin
    lowest = 6'd0;
    for (i = 63; i >= 0; i = i - 1) begin
        if (bitmap[i]) lowest = i[5:0];
    end
end
assign rest = bitmap & (bitmap - 64'd1);

endmodule

`resetall
