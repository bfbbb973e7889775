// The turn of a packet about a position: a CONTRIBUTION is taken into its slot, pending data are computed in their turn,
// and RESULT, NEED or WAIT is sent (SPEC.md, 7.1, 8 and 12). contribution_rule has the rules.
//
// A contribution that does not complete its position is taken in the clock in which the packet comes (`goes_on`). It
// `waits` while the accumulator is not ready, or the slot's last result is still to be sent.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"
`include "engine_states.vh"

module segment #(
    parameter JOBS = 4,
    parameter LEASE = 5,
    parameter RING = 7,
    parameter RECORD = 358, // bits of the record of a slot
    parameter REPRODUCIBLE = 1,
    parameter [39:0] JUST_SENT_US = 40'd5000 // 8-18
) (
    input  wire            clk,
    input  wire            rst,
    input  wire [39:0]     now_us,
    // the packet and its sender, when its turn comes
    input  wire            is_positional,
    input  wire [63:0]     source_bit,
    input  wire [63:0]     below_source,
    input  wire [7:0]      p_opcode,
    input  wire [7:0]      p_op,
    input  wire [7:0]      p_dtype,
    input  wire [7:0]      p_flags,
    input  wire [31:0]     p_position,
    input  wire [31:0]     p_mid,
    input  wire [31:0]     p_sid,
    input  wire [15:0]     p_seg,
    input  wire [15:0]     p_length,
    input  wire [7:0]      p_status,
    input  wire [31:0]     p_contributions,
    input  wire [5:0]      child_buffer,
    // the end of its turn
    output wire [4:0]      drop,
    output wire            waits,
    output wire            goes_on,
    output wire            works, // until `is_done`, or the job ends
    output wire            is_done,
    output wire            gives, // the accumulator gives the payload back
    output reg  [3:0]      state,
    // the job
    input  wire [JOBS-1:0] job,
    input  wire            is_active,
    input  wire            in_order,
    input  wire [63:0]     mask,
    input  wire [63:0]     joined,
    input  wire [63:0]     left,
    input  wire [31:0]     slots,
    input  wire [31:0]     chunk,
    input  wire            had_loss,
    output wire            loses,
    output wire            aborts,
    output wire [7:0]      end_status,
    output wire [63:0]     end_bits,
    // its slot
    input  wire [RECORD-1:0] s_record,
    input  wire [64:0]     s_turns,
    output wire            writes,
    output wire [RECORD-1:0] record,
    output wire            writes_turns,
    output wire [64:0]     turns,
    output wire            s_final,
    output wire [63:0]     s_missing,
    // the walk through children: waiting or missing ones, or receivers
    output wire            loads,
    output wire [63:0]     bits,
    output wire            looks,
    output wire            uses_own,
    output wire            skips,
    input  wire [63:0]     todo,
    input  wire [5:0]      own_bit,
    input  wire            is_last,
    input  wire [39:0]     silence,
    // the accumulator
    input  wire            accumulator_ready,
    input  wire            divisor_ready,
    output wire            accumulate,
    output wire            adds,
    output wire            stores,
    output wire            recalls,
    output wire            divides,
    output wire            divisor_valid,
    output wire [31:0]     divisor,
    output wire            divisor_is_float,
    output wire [JOBS+LEASE-1:0] compute_slot,
    output wire [JOBS+LEASE-1:0] compute_buffer,
    output wire [7:0]      compute_op,
    output wire [RING:0]   compute_beats,
    // the packet to send, and its position
    input  wire [15:0]     issued, // commands that read a slot; those that need it no more
    input  wire [15:0]     done,
    input  wire            result_to_group,
    input  wire            is_written,
    output wire [7:0]      opcode,
    output wire            to_group,
    output reg  [63:0]     missing,
    output reg  [63:0]     wants,
    output reg             hears,
    output reg             has_data,
    output reg  [7:0]      status,
    output reg  [31:0]     contributions,
    output reg  [7:0]      op,
    output reg  [7:0]      dtype,
    output reg  [1:0]      contributor_class,
    output reg  [31:0]     mid,
    output reg  [31:0]     sid,
    output reg  [15:0]     length,
    output reg  [5:0]      oldest, // of the missing: silent longest,
    output wire [31:0]     oldest_us // for so long
);

// ---- The slot: its record as it was read, and what the packet makes of it

wire [31:0] s_position, s_contributions, s_mid, s_sid;
wire        s_fresh, s_has_data, s_hears;
wire [63:0] s_wants;
wire [7:0]  s_status, s_op, s_dtype;
wire [1:0]  s_class;
wire [15:0] s_length, s_ticket;
wire [39:0] s_finished;
assign {s_hears, s_ticket, s_finished, s_length, s_sid, s_mid, s_class, s_dtype, s_op, s_has_data, s_contributions,
    s_status, s_wants, s_missing, s_fresh, s_final, s_position} = s_record;
wire [63:0] s_pending = s_turns[63:0];
wire        s_has_sum = REPRODUCIBLE != 0 ? s_turns[64] : s_has_data;

wire accepts, replaces, is_missing, differs, brings, adds_payload, is_pending, has_pending, is_last_one, some_have_left;
wire had_sum, divides_payload, has_data_then, has_sum_then, hears_then;
wire [63:0] missing_then, wants_then, pending_then;
wire [7:0]  status_then;
wire [31:0] contributions_then;
wire [15:0] length_then;
contribution_rule #(.LEASE(LEASE)) rule (
    .is_active(is_active), .in_order(in_order), .mask(mask), .left(left), .slots(slots), .chunk(chunk),
    .source_bit(source_bit), .below_source(below_source), .p_op(p_op), .p_dtype(p_dtype), .p_flags(p_flags),
    .p_position(p_position), .p_mid(p_mid), .p_sid(p_sid), .p_seg(p_seg), .p_length(p_length), .p_status(p_status),
    .p_contributions(p_contributions), .s_position(s_position), .s_final(s_final), .s_fresh(s_fresh),
    .s_missing(s_missing), .s_wants(s_wants), .s_status(s_status), .s_contributions(s_contributions),
    .s_has_data(s_has_data), .s_op(s_op), .s_dtype(s_dtype), .s_class(s_class), .s_mid(s_mid), .s_sid(s_sid),
    .s_length(s_length), .s_hears(s_hears), .s_has_sum(s_has_sum), .s_pending(s_pending), .drop(drop), .accepts(accepts),
    .replaces(replaces), .is_missing(is_missing), .differs(differs), .brings(brings), .adds(adds_payload),
    .is_pending(is_pending), .has_pending(has_pending), .is_last_one(is_last_one), .some_have_left(some_have_left),
    .had_sum(had_sum), .divides(divides_payload), .is_float(divisor_is_float), .missing_then(missing_then),
    .wants_then(wants_then), .status_then(status_then), .contributions_then(contributions_then),
    .has_data_then(has_data_then), .length_then(length_then), .hears_then(hears_then), .has_sum_then(has_sum_then),
    .pending_then(pending_then)
);

// Which children's data wait, and whether there is a sum of those before. In a slot that is FINAL none waits.
reg  [63:0] pending;
reg         has_sum;
wire folds = REPRODUCIBLE != 0 && state == `SEGMENT_FOLD_NEXT && pending[own_bit];

// ---- What the packet is

wire meets = is_positional && accepts;
wire probes = meets && p_opcode == `FANIN_OPCODE_PROBE;
wire contributes = meets && p_opcode == `FANIN_OPCODE_CONTRIBUTION && is_missing && !differs;
wire repeats = meets && p_opcode == `FANIN_OPCODE_CONTRIBUTION && !is_missing; // 7.1-2
wire contradicts = meets && p_opcode == `FANIN_OPCODE_CONTRIBUTION && is_missing && differs;
// The result of the position before may still be under way out of the slot.
wire [15:0] age = issued - s_ticket, outstanding = issued - done;
wire is_still_sent = replaces && !s_fresh && age < outstanding;
wire has_work = adds || divides;
wire may_work = accumulator_ready && (!divides || divisor_ready);
wire taken = contributes && !is_still_sent && (!has_work || may_work); // in this clock
wire is_open = !some_have_left && !has_pending && !is_last_one; // and stays so

assign waits = contributes && !taken;
assign goes_on = taken && has_work && is_open;
assign works = probes || (repeats && s_final) || contradicts || (taken && !is_open);
assign gives = taken && has_work;

// ---- The accumulator

// The buffer of a slot for pending data of a child: the number of the children before it, minus one. The first child is
// never pending. A job of N slots has 2**LEASE / N buffers in each: in the place of a buffer the slot takes the lower
// bits, and that number, reversed, the upper ones.
wire [LEASE+5:0] long_buffer = {{LEASE{1'b0}}, child_buffer};
wire [LEASE-1:0] buffer_place;
genvar i;
generate
    for (i = 0; i < LEASE; i = i + 1) begin : mirrored
        assign buffer_place[LEASE-1-i] = long_buffer[i];
    end
endgenerate

assign adds = folds || adds_payload;
assign stores = !folds && is_pending;
assign recalls = folds;
wire divides_recalled = is_last && op == `FANIN_OP_MEAN && |contributions[31:1] && status == 8'd0;
assign divides = folds ? divides_recalled : divides_payload;
assign divisor = folds ? contributions : contributions_then;
assign divisor_valid = ((contributes && !is_still_sent) || folds) && divides;
assign accumulate = ((contributes && !is_still_sent) || folds) && has_work && (!divides || divisor_ready);
assign compute_op = (folds ? has_sum : had_sum) ? p_op : `FANIN_OP_NONE;
assign compute_slot = {job, p_seg[LEASE-1:0]};
assign compute_buffer = {job, p_seg[LEASE-1:0] | buffer_place};
wire [15:0] beats_of_data = ((folds ? length : length_then) + 16'd63) >> 6;
assign compute_beats = beats_of_data[RING:0];

// ---- The answer: RESULT, NEED or WAIT

reg  [39:0] finished, oldest_age;
reg         was_just_sent, is_first;
wire is_empty = contributor_class != `FANIN_CLASS_NONE && !has_data && status == 8'd0; // 7.1-20
wire completes = state == `SEGMENT_COMPLETE && !is_empty;
wire resends = state == `SEGMENT_RESEND && (had_loss || !was_just_sent); // else it may still be under way: 8-18
wire needs = probes && is_missing;
wire tells_wait = state == `SEGMENT_OLDEST && todo == 64'd0;
wire tells_result = (repeats && s_final) || completes || resends;
assign opcode = tells_result ? `FANIN_OPCODE_RESULT : needs ? `FANIN_OPCODE_NEED
    : tells_wait ? `FANIN_OPCODE_WAIT : 8'd0;
assign to_group = completes && result_to_group;
assign loses = needs || resends;
assign oldest_us = |oldest_age[39:32] ? 32'hffffffff : oldest_age[31:0];

assign loads = tells_result || needs || tells_wait || probes || taken;
assign bits = !loads ? 64'd0 : completes ? joined : taken ? missing_then | pending_then
    : probes && !is_missing ? s_missing : source_bit;
assign looks = state == `SEGMENT_FOLD || state == `SEGMENT_OLDEST;
assign uses_own = state == `SEGMENT_FOLD_NEXT;
assign skips = (folds && may_work) || state == `SEGMENT_OLDEST_LOOK;

// ---- What is recorded, and the end of the job

assign aborts = contradicts || (taken && some_have_left) || (state == `SEGMENT_COMPLETE && is_empty);
assign end_status = !aborts ? 8'd0 : taken ? `FANIN_STATUS_ABORTED : `FANIN_STATUS_OP_MISMATCH;
assign end_bits = contradicts ? source_bit : taken && some_have_left ? missing_then & left : 64'd0;

wire finishes = state == `SEGMENT_SAVE;
assign writes = taken || finishes;
assign record = finishes
    ? {hears, issued, finished, length, sid, mid, contributor_class, dtype, op, has_data, contributions, status, wants,
        missing, 1'b0, 1'b1, p_position}
    : {hears_then, s_ticket, 40'd0, length_then, p_sid, p_mid, p_flags[`FANIN_CLASS_SHIFT +: 2], p_dtype, p_op,
        has_data_then, contributions_then, status_then, wants_then, missing_then, 1'b0, 1'b0, p_position};
assign writes_turns = taken || uses_own;
assign turns = is_positional ? {has_sum_then, pending_then} : {has_sum, pending};
assign is_done = finishes || (state == `SEGMENT_TELL && is_written) || (uses_own && !folds && missing != 64'd0);

always @(posedge clk) begin
    was_just_sent <= now_us - s_finished <= JUST_SENT_US;
    case (state)
        `SEGMENT_IDLE: if (meets) begin
            missing <= taken ? missing_then : s_missing;
            wants <= taken ? wants_then : s_wants;
            status <= taken ? status_then : s_status;
            contributions <= taken ? contributions_then : s_contributions;
            has_data <= taken ? has_data_then : s_has_data;
            op <= taken ? p_op : s_op;
            dtype <= taken ? p_dtype : s_dtype;
            contributor_class <= taken ? p_flags[`FANIN_CLASS_SHIFT +: 2] : s_class;
            mid <= taken ? p_mid : s_mid;
            sid <= taken ? p_sid : s_sid;
            length <= taken ? length_then : s_length;
            finished <= s_finished;
            hears <= taken ? hears_then : s_hears;
            has_sum <= has_sum_then;
            pending <= pending_then;
            oldest_age <= 40'd0;
            oldest <= 6'd0;
            is_first <= 1'b1;
            if (needs) state <= `SEGMENT_TELL;
            else if (probes) state <= s_final ? `SEGMENT_RESEND : `SEGMENT_OLDEST; // 8-16 to 8-21
            else if (repeats && s_final) state <= `SEGMENT_RESULT;
            else if (taken && !some_have_left && has_pending) state <= `SEGMENT_FOLD;
            else if (taken && !some_have_left && is_last_one) state <= `SEGMENT_COUNT;
        end

        `SEGMENT_FOLD: state <= `SEGMENT_FOLD_NEXT;
        `SEGMENT_FOLD_NEXT: if (!folds) state <= missing == 64'd0 ? `SEGMENT_COUNT : `SEGMENT_IDLE;
        else if (may_work) begin
            pending[own_bit] <= 1'b0;
            has_sum <= 1'b1;
            state <= `SEGMENT_FOLD;
        end

        `SEGMENT_COUNT: state <= `SEGMENT_COMPLETE;
        `SEGMENT_COMPLETE: begin
            finished <= now_us;
            state <= is_empty ? `SEGMENT_IDLE : `SEGMENT_RESULT;
        end
        `SEGMENT_RESEND: state <= resends ? `SEGMENT_RESULT : `SEGMENT_OLDEST;
        `SEGMENT_OLDEST: state <= tells_wait ? `SEGMENT_TELL : `SEGMENT_OLDEST_LOOK;
        `SEGMENT_OLDEST_LOOK: begin
            is_first <= 1'b0;
            if (is_first || silence > oldest_age) begin
                oldest_age <= silence;
                oldest <= own_bit;
            end
            state <= `SEGMENT_OLDEST;
        end
        `SEGMENT_TELL: if (is_written) state <= `SEGMENT_IDLE;
        `SEGMENT_RESULT: if (is_written) state <= `SEGMENT_SAVE;
        default: state <= `SEGMENT_IDLE;
    endcase
    if (rst) state <= `SEGMENT_IDLE;
end

wire unused = &{1'b0, brings, beats_of_data, long_buffer};

endmodule

`resetall
