// A value of one clock, seen in another: `m_value` is an earlier `s_value`, never a mixture of two.
//
// The source holds a value and turns its request. Then the destination takes the value and turns its acknowledgement,
// which lets the source take the next: one value for about three clocks of each side. Shorter values may never be seen.
// A reset of one side alone repeats a value; it must last six clocks of the slower side.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module clock_crossing #(
    parameter WIDTH = 8
) (
    input  wire             s_clk,
    input  wire             s_rst,
    input  wire [WIDTH-1:0] s_value,
    input  wire             m_clk,
    input  wire             m_rst,
    output reg  [WIDTH-1:0] m_value // 0 at first
);

reg [WIDTH-1:0] held;
reg             request, acknowledge;
(* ASYNC_REG = "TRUE" *) reg [1:0] request_seen;     // of m_clk
(* ASYNC_REG = "TRUE" *) reg [1:0] acknowledge_seen; // of s_clk

always @(posedge s_clk) begin
    acknowledge_seen <= {acknowledge_seen[0], acknowledge};
    if (s_rst) begin // `held` stays: the destination may be about to take it
        request <= 1'b0;
        acknowledge_seen <= 2'd0;
    end else if (acknowledge_seen[1] == request) begin
        held <= s_value;
        request <= !request;
    end
end

always @(posedge m_clk) begin
    request_seen <= {request_seen[0], request};
    if (request_seen[1] != acknowledge) begin
        m_value <= held;
        acknowledge <= request_seen[1];
    end
    if (m_rst) begin
        m_value <= {WIDTH{1'b0}};
        acknowledge <= 1'b0;
        request_seen <= 2'd0;
    end
end

endmodule

`resetall
