// The end of a job (SPEC.md, section 11): it becomes a tombstone, its children get ABORT, and it is free when all have
// left or when it is too old.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "engine_states.vh"

module job_end (
    input  wire        clk,
    input  wire        rst,
    input  wire        aborts,   // the job: its reason is in the job table
    input  wire        empties,  // all children but those that have ended have left, or the job is too old:
    input  wire        is_aged,  // then it is free, even if some have not left
    input  wire [63:0] mask,
    input  wire [63:0] joined,
    input  wire [63:0] left,
    output wire        buries,
    output wire        frees,
    output wire        is_done,
    output reg  [1:0]  state,
    // ABORT to children
    output wire [7:0]  opcode,
    output wire [63:0] bits,
    input  wire        is_written
);

assign buries = state == `END_ABORT;
assign opcode = buries ? `FANIN_OPCODE_ABORT : 8'd0;
assign bits = buries ? joined & ~left : 64'd0;
assign is_done = state == `END_FREE;
assign frees = is_done && (is_aged || (mask & ~left) == 64'd0);

always @(posedge clk) begin
    case (state)
        `END_IDLE: if (aborts) state <= `END_ABORT; else if (empties) state <= `END_FREE;
        `END_ABORT: state <= `END_TELL;
        `END_TELL: if (is_written) state <= `END_FREE;
        default: state <= `END_IDLE;
    endcase
    if (rst) state <= `END_IDLE;
end

endmodule

`resetall
