// A queue of 2**ADDRESS entries whose oldest one is visible, by `is_settled`, SETTLE + 1 clocks after its push: it
// stays behind data under way, and the pusher need not wait for them. Otherwise as `fifo`; a pop without `is_settled`
// is lost.
//
// Record 0106 (docs/decisions) says why results wait here, and not the engine.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module settling_fifo #(
    parameter WIDTH = 8,
    parameter ADDRESS = 2,
    parameter SETTLE = 4 // 2 or more
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             push,
    input  wire [WIDTH-1:0] data,
    input  wire             pop,
    output wire [WIDTH-1:0] first,
    output wire             is_settled,
    output wire             is_empty,
    output wire             is_full
);

reg  [SETTLE-1:0] pushed; // so many clocks ago
reg  [ADDRESS:0]  settled;
wire              taken = pop && is_settled;

assign is_settled = settled != {(ADDRESS + 1){1'b0}};
fifo #(.WIDTH(WIDTH), .ADDRESS(ADDRESS)) entries (
    .clk(clk), .rst(rst), .push(push), .data(data), .pop(taken), .first(first), .is_empty(is_empty), .is_full(is_full)
);

always @(posedge clk) begin
    pushed <= (pushed << 1) | {{(SETTLE - 1){1'b0}}, push && !is_full};
    settled <= settled + {{ADDRESS{1'b0}}, pushed[SETTLE-1]} - {{ADDRESS{1'b0}}, taken};
    if (rst) begin
        pushed <= {SETTLE{1'b0}};
        settled <= {(ADDRESS + 1){1'b0}};
    end
end

endmodule

`resetall
