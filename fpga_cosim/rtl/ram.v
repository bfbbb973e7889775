// A memory with one write port and one read port: block RAM. Data come one clock after their address, with
// `read_enable`; a read beside a write of the same place gives the old value.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module ram #(
    parameter WIDTH = 512,
    parameter ADDRESS = 8
) (
    input  wire               clk,
    input  wire               write_enable,
    input  wire [ADDRESS-1:0] write_address,
    input  wire [WIDTH-1:0]   write_data,
    input  wire               read_enable,
    input  wire [ADDRESS-1:0] read_address,
    output reg  [WIDTH-1:0]   read_data
);

reg [WIDTH-1:0] memory [0:(1<<ADDRESS)-1];

always @(posedge clk) begin
    if (write_enable) memory[write_address] <= write_data;
    if (read_enable) read_data <= memory[read_address];
end

endmodule

`resetall
