// The verdict on a packet about a position, and the slot after a CONTRIBUTION (SPEC.md, item 10 of section 5, and 7.1).
// Combinational. slot_rule says whether the slot may serve the position. In a job in the order of the bits data are too
// early while a child with a lower bit is missing (12-8). A position of one contributor has no order.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"

module contribution_rule #(
    parameter LEASE = 5
) (
    // the job
    input  wire        is_active,
    input  wire        in_order,
    input  wire [63:0] mask,
    input  wire [63:0] left,
    input  wire [31:0] slots,
    input  wire [31:0] chunk,
    // the packet
    input  wire [63:0] source_bit,
    input  wire [63:0] below_source, // the bits below it
    input  wire [7:0]  p_op,
    input  wire [7:0]  p_dtype,
    input  wire [7:0]  p_flags,
    input  wire [31:0] p_position,
    input  wire [31:0] p_mid,
    input  wire [31:0] p_sid,
    input  wire [15:0] p_seg,
    input  wire [15:0] p_length,
    input  wire [7:0]  p_status,
    input  wire [31:0] p_contributions,
    // the slot
    input  wire [31:0] s_position,
    input  wire        s_final,
    input  wire        s_fresh,
    input  wire [63:0] s_missing,
    input  wire [63:0] s_wants,
    input  wire [7:0]  s_status,
    input  wire [31:0] s_contributions,
    input  wire        s_has_data,
    input  wire [7:0]  s_op,
    input  wire [7:0]  s_dtype,
    input  wire [1:0]  s_class,
    input  wire [31:0] s_mid,
    input  wire [31:0] s_sid,
    input  wire [15:0] s_length,
    input  wire        s_hears,
    input  wire        s_has_sum,
    input  wire [63:0] s_pending,
    // the verdict
    output wire [4:0]  drop,
    output wire        accepts,       // no reason to drop: known earlier than the reason
    output wire        replaces,      // the slot's position
    output wire        is_missing,    // of a child of the job
    output wire        differs,
    output wire        brings,        // data, without a status
    output wire        adds,          // data that are not empty
    output wire        is_pending,
    output wire        has_pending,     // data wait already
    output wire        is_last_one,
    output wire        some_have_left, // of those that are missing
    output wire        had_sum,
    output wire        divides,       // the sum, with this contribution: 7.1-13
    output wire        is_float,
    // the slot with the contribution
    output wire [63:0] missing_then,
    output wire [63:0] wants_then,
    output wire [7:0]  status_then,
    output wire [31:0] contributions_then,
    output wire        has_data_then,
    output wire [15:0] length_then,
    output wire        hears_then,
    output wire        has_sum_then,
    output wire [63:0] pending_then
);

wire [1:0] p_class = p_flags[`FANIN_CLASS_SHIFT +: 2];
wire p_has_data = |(p_flags & `FANIN_FLAG_HAS_DATA);
wire p_wants = |(p_flags & `FANIN_FLAG_WANTS_RESULT);
wire is_computed, is_signed, is_small, is_bf16, is_pair, slot_accepts;
wire [1:0] size_log2;
wire [4:0] slot_drop;
assign brings = p_has_data && p_status == 8'd0;
assign adds = brings && p_length != 16'd0;

computed_operation computed_operation_inst (
    .op(p_op), .dtype(p_dtype), .is_computed(is_computed), .is_float(is_float), .is_signed(is_signed),
    .is_small(is_small), .is_bf16(is_bf16), .is_pair(is_pair), .size_log2(size_log2)
);
slot_rule slot_rule_inst (
    .slots(slots), .position(p_position), .op(p_op), .dtype(p_dtype), .contributor_class(p_class), .mid(p_mid),
    .sid(p_sid), .length(p_length), .brings(brings), .is_wide(|(p_flags & `FANIN_FLAG_WIDE)),
    .slot_position(s_position), .slot_is_final(s_final), .slot_is_fresh(s_fresh), .slot_op(s_op), .slot_dtype(s_dtype),
    .slot_class(s_class), .slot_mid(s_mid), .slot_sid(s_sid), .slot_length(s_length), .slot_has_data(s_has_data),
    .accepts(slot_accepts), .drop(slot_drop), .replaces(replaces), .differs(differs)
);

wire [LEASE-1:0] slot_mask = slots[LEASE-1:0] - 1'b1;
wire is_wrong = !is_active || p_seg != {{(16 - LEASE){1'b0}}, p_position[LEASE-1:0] & slot_mask}
    || {1'b0, p_length} > chunk[16:0] || p_class > `FANIN_CLASS_ALL || (p_class == `FANIN_CLASS_NONE && p_has_data)
    || (p_has_data && p_class == `FANIN_CLASS_ALL && !is_computed);
assign accepts = !is_wrong && slot_accepts;
assign drop = is_wrong ? `DROP_POSITION : slot_drop;

// Questions about all bits are answered for both masks, since `replaces` is known late.
assign missing_then = (replaces ? mask : s_missing) & ~source_bit;
assign is_missing = replaces || |(s_missing & source_bit);
assign is_last_one = replaces ? (mask & ~source_bit) == 64'd0 : (s_missing & ~source_bit) == 64'd0;
assign some_have_left = replaces ? |(mask & ~source_bit & left) : |(s_missing & ~source_bit & left);
wire is_behind_others = replaces ? |(mask & below_source) : |(s_missing & below_source);

wire had_data = !replaces && s_has_data;
assign has_data_then = had_data || brings;
assign length_then = had_data ? s_length : p_length;
assign status_then = !replaces && s_status > p_status ? s_status : p_status;
assign wants_then = (replaces ? 64'd0 : s_wants) | (p_wants ? source_bit : 64'd0);
assign hears_then = (replaces || s_hears) && |(p_flags & `FANIN_FLAG_HEARS_GROUP);

wire [31:0] contributions_sum = s_contributions + p_contributions;
assign contributions_then = replaces ? p_contributions : contributions_sum;
// Whether the sum is more than 1, without an adder: if it is not, each bit but the lowest is cancelled by the carry
// below it.
wire [30:0] carries = {s_contributions[30:1] | p_contributions[30:1], s_contributions[0] & p_contributions[0]};
wire of_several = replaces ? |p_contributions[31:1] : (s_contributions[31:1] ^ p_contributions[31:1]) != carries;

assign is_pending = in_order && p_class == `FANIN_CLASS_ALL && is_behind_others;
assign has_pending = in_order && |s_pending;
assign had_sum = !replaces && s_has_sum;
assign has_sum_then = had_sum || (brings && !is_pending);
assign pending_then = s_pending | (adds && is_pending ? source_bit : 64'd0);

assign divides = is_last_one && !has_pending && p_op == `FANIN_OP_MEAN && p_class == `FANIN_CLASS_ALL && of_several
    && (had_data || brings) && length_then != 16'd0 && status_then == 8'd0;

wire unused = &{1'b0, is_signed, is_small, is_bf16, is_pair, size_log2, slots, chunk};

endmodule

`resetall
