// The records of children, by job and bit: address, boot and buffer, and when the child was last heard and last sent a
// packet. Block RAM: a record comes one clock after its place. One walk at a time goes through children: `looks` reads
// the next one, which then is `own_bit`; `skips` removes it.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module child_table #(
    parameter JOBS = 4
) (
    input  wire            clk,
    input  wire [39:0]     now_us,
    input  wire [39:0]     lived_us, // see scan.v
    input  wire [JOBS-1:0] job,
    input  wire [5:0]      source,   // the bit of the packet's sender: read and written outside of a walk
    // the walk
    input  wire            loads,
    input  wire [63:0]     bits,
    input  wire            looks,
    input  wire            uses_own, // `own_bit` is read, or written
    input  wire            skips,
    input  wire            ends,
    output reg  [63:0]     todo,
    output reg  [5:0]      own_bit,
    output wire            is_last,  // of `todo`
    // what is written of a child
    input  wire            joins,
    input  wire [47:0]     mac,
    input  wire [31:0]     address,
    input  wire [63:0]     boot,
    input  wire [5:0]      buffer,
    input  wire            is_heard,
    input  wire            is_sent,
    // what was read of one
    output wire [47:0]     child_mac,
    output wire [31:0]     child_address,
    output wire [63:0]     child_boot,
    output wire [5:0]      child_buffer,
    output wire [39:0]     silence,  // since it was heard
    output wire [39:0]     since_sent
);

wire [5:0]  next;
wire [63:0] next_rest;
lowest_bit lowest_todo (.bitmap(todo), .lowest(next), .rest(next_rest));
assign is_last = next_rest == 64'd0;

always @(posedge clk) begin
    if (looks) own_bit <= next;
    if (loads) todo <= bits;
    else if (ends) todo <= 64'd0;
    else if (skips) todo <= next_rest;
end

wire [JOBS+5:0] child = {job, looks ? next : uses_own ? own_bit : source};
wire [39:0] child_heard, child_sent;
assign silence = lived_us - child_heard;
assign since_sent = now_us - child_sent;

ram #(.WIDTH(150), .ADDRESS(JOBS + 6)) children (
    .clk(clk), .write_enable(joins), .write_address(child), .write_data({buffer, mac, address, boot}),
    .read_enable(1'b1), .read_address(child), .read_data({child_buffer, child_mac, child_address, child_boot})
);
ram #(.WIDTH(40), .ADDRESS(JOBS + 6)) heard (
    .clk(clk), .write_enable(joins || is_heard), .write_address(child), .write_data(lived_us),
    .read_enable(1'b1), .read_address(child), .read_data(child_heard)
);
ram #(.WIDTH(40), .ADDRESS(JOBS + 6)) sent (
    .clk(clk), .write_enable(joins || is_sent), .write_address(child), .write_data(now_us),
    .read_enable(1'b1), .read_address(child), .read_data(child_sent)
);

endmodule

`resetall
