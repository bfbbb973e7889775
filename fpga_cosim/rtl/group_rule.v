// The multicast group: one packet for all children, where it reaches them and most of those that hear it want it
// (SPEC.md, 7.4). The bits of job and slot are counted in one clock; the answer is there in the next one.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module group_rule (
    input  wire        clk,
    input  wire [31:0] group_address, // 0: there is no group
    input  wire [15:0] group_size,    // devices that listen there; 0: not known
    input  wire [63:0] mask,          // children of the job
    // the slot
    input  wire [63:0] wants,
    input  wire        hears,         // all children have said that they hear the group
    input  wire        has_data,
    input  wire [7:0]  status,
    output wire        may_invite,    // the children of the job
    output wire        result_to_group
);

wire [6:0] children, wanting;
reg  [6:0] children_count, wanting_count;
bit_count count_children (.bitmap(mask), .count(children));
bit_count count_wanting (.bitmap(wants), .count(wanting));
always @(posedge clk) begin
    children_count <= children;
    wanting_count <= wanting;
end

assign may_invite = group_address != 32'd0 && children_count > 7'd1 && {8'd0, children_count, 1'b0} > group_size;
wire most_want = {8'd0, wanting_count, 1'b0} > group_size && {wanting_count, 1'b0} > {1'b0, children_count};
assign result_to_group = may_invite && hears && (most_want || wanting_count == 7'd0 || !has_data || status != 8'd0);

endmodule

`resetall
