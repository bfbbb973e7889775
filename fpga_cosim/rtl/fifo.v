// A queue of 2**ADDRESS entries. `first` is the oldest entry as long as `is_empty` is 0; `pop` removes it. A push while
// `is_full`, or a pop while `is_empty`, is lost: the neighbours check first. An entry is visible one clock after its
// push.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module fifo #(
    parameter WIDTH = 8,
    parameter ADDRESS = 2
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             push,
    input  wire [WIDTH-1:0] data,
    input  wire             pop,
    output wire [WIDTH-1:0] first,
    output wire             is_empty,
    output wire             is_full
);

reg [WIDTH-1:0] memory [0:(1<<ADDRESS)-1];
reg [ADDRESS:0] head, tail;

assign first = memory[head[ADDRESS-1:0]];
assign is_empty = head == tail;
assign is_full = head[ADDRESS-1:0] == tail[ADDRESS-1:0] && head[ADDRESS] != tail[ADDRESS];

always @(posedge clk) begin
    if (push && !is_full) begin
        memory[tail[ADDRESS-1:0]] <= data;
        tail <= tail + 1'b1;
    end
    if (pop && !is_empty) head <= head + 1'b1;
    if (rst) begin
        head <= {(ADDRESS + 1){1'b0}};
        tail <= {(ADDRESS + 1){1'b0}};
    end
end

endmodule

`resetall
