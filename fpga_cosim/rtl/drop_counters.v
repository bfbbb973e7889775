// Counts dropped packets: one counter of 32 bits for each reason of drop_reasons.vh.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "drop_reasons.vh"

module drop_counters (
    input  wire       clk,
    input  wire       rst,
    input  wire [4:0] drop, // why a packet is dropped in this clock; DROP_NONE: none is
    output wire [32*`DROP_REASONS-1:0] drops
);

reg [31:0] counters [0:`DROP_REASONS-1];
reg [4:0]  dropped; // `drop`, one clock later: its path is long
genvar i;
generate
    for (i = 0; i < `DROP_REASONS; i = i + 1) begin : reasons
        assign drops[32*i +: 32] = counters[i];
    end
endgenerate

integer k;
always @(posedge clk) begin
    dropped <= drop;
    if (dropped != `DROP_NONE) counters[dropped] <= counters[dropped] + 32'd1;
    if (rst) begin
        dropped <= `DROP_NONE;
        for (k = 0; k < `DROP_REASONS; k = k + 1) counters[k] <= 32'd0;
    end
end

endmodule

`resetall
