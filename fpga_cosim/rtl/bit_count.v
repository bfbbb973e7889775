// How many bits of a bitmap are set. Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module bit_count (
    input  wire [63:0] bitmap,
    output reg  [6:0]  count
);

integer n;
always @* begin
    count = 7'd0;
    for (n = 0; n < 64; n = n + 1) count = count + {6'd0, bitmap[n]};
end

endmodule

`resetall
