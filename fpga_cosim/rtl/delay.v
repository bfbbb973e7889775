// The input of CLOCKS clocks with `advance` ago. It is not reset.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module delay #(
    parameter WIDTH = 8,
    parameter CLOCKS = 4
) (
    input  wire             clk,
    input  wire             advance,
    input  wire [WIDTH-1:0] data,
    output wire [WIDTH-1:0] delayed
);

reg [WIDTH-1:0] held [0:CLOCKS-1];
integer i;

always @(posedge clk) if (advance) begin
    held[0] <= data;
    for (i = 1; i < CLOCKS; i = i + 1) held[i] <= held[i-1];
end
assign delayed = held[CLOCKS-1];

endmodule

`resetall
