// The records of the slots of all jobs, in block RAM: a record comes one clock after its place. segment.v has the
// fields. A job begins with slots that have served no position (SPEC.md, 10.2): `opens` writes the record of one, at
// `walk`.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module slot_table #(
    parameter JOBS = 4,
    parameter LEASE = 5,
    parameter RECORD = 358,
    parameter REPRODUCIBLE = 1 // whether contributions may wait for their turn
) (
    input  wire              clk,
    input  wire [JOBS-1:0]   job,
    input  wire [31:0]       slots,  // of the job
    input  wire [LEASE-1:0]  slot,   // of the packet
    input  wire              walks,  // through all slots: `walk` in the place of `slot`
    input  wire [LEASE-1:0]  walk,
    input  wire              opens,
    input  wire              writes,
    input  wire [RECORD-1:0] record,
    input  wire              writes_turns,
    input  wire [64:0]       turns,  // whether there is a sum, and the children whose data wait
    output wire [RECORD-1:0] s_record,
    output wire [64:0]       s_turns
);

wire [JOBS+LEASE-1:0] place = {job, walks ? walk : slot};
wire [31:0] opened = {{(32 - LEASE){1'b0}}, walk} - slots; // slot s has served position s - N (6-31)

ram #(.WIDTH(RECORD), .ADDRESS(JOBS + LEASE)) records (
    .clk(clk), .write_enable(writes || opens), .write_address(place),
    .write_data(opens ? {{(RECORD - 34){1'b0}}, 2'b11, opened} : record),
    .read_enable(1'b1), .read_address(place), .read_data(s_record)
);

generate
    if (REPRODUCIBLE != 0) begin : in_turn
        ram #(.WIDTH(65), .ADDRESS(JOBS + LEASE)) turn (
            .clk(clk), .write_enable(writes_turns || opens), .write_address(place),
            .write_data(opens ? 65'd0 : turns),
            .read_enable(1'b1), .read_address(place), .read_data(s_turns)
        );
    end else begin : at_once
        assign s_turns = 65'd0;
        wire unused = &{1'b0, writes_turns, turns};
    end
endgenerate

endmodule

`resetall
