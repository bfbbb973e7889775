// Children join a job and leave it (SPEC.md, 10.1, 10.2 and 10.4). After config_reader has read a CONFIG, its sender is
// added or refused. When the last child has joined, the slots are opened and the job is active.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "engine_states.vh"

module membership #(
    parameter LEASE = 5,
    parameter CHUNK = 4,
    parameter REPRODUCIBLE = 1
) (
    input  wire         clk,
    input  wire         rst,
    // the turn of a CONFIG or a LEAVE
    input  wire         joins,
    input  wire         leaves,    // when its LEAVE_ACK is written
    input  wire         remembers, // a LEAVE of an unknown job
    output wire         drops,
    output wire         is_done,
    output reg  [3:0]   state,
    // the packet
    input  wire [31:0]  p_address,
    input  wire [15:0]  p_seg,
    input  wire [7:0]   p_status,
    input  wire [63:0]  p_node_bitmap,
    input  wire [63:0]  p_rank_bitmap,
    input  wire [63:0]  source_bit,
    input  wire [63:0]  below_source,
    // what the CONFIG says
    input  wire         config_fails,
    input  wire         config_is_read,
    input  wire         config_is_wrong,
    input  wire [63:0]  config_boot,
    input  wire [127:0] config_digest,
    input  wire [31:0]  config_slots,
    input  wire [31:0]  config_chunk,
    input  wire [63:0]  config_mask,
    input  wire [7:0]   config_hops,
    input  wire [7:0]   config_lane,
    input  wire [7:0]   config_flags,
    input  wire [7:0]   config_route,
    output wire         config_in_order,
    output wire [31:0]  config_lease, // slots that the job gets
    // the job
    input  wire         found,
    input  wire         has_entry,
    input  wire         key_is_right,
    input  wire [2:0]   job_state,
    input  wire [63:0]  mask,
    input  wire [63:0]  joined,
    input  wire [63:0]  left,
    input  wire [31:0]  slots,
    input  wire [31:0]  chunk,
    input  wire [127:0] digest,
    input  wire         in_order,
    output wire         forms,
    output wire         adds,      // the sender
    output wire         halves,
    output wire         activates,
    output wire         invites,
    output wire         refuses_key,
    output wire         departs,   // the sender
    output wire         remembers_end,
    // the sender, as a child
    input  wire [31:0]  child_address,
    input  wire [63:0]  child_boot,
    output wire         is_heard,     // and so is the job,
    output wire         job_is_heard, // or the job alone
    output wire [5:0]   buffer,
    // the slots
    input  wire         s_final,
    input  wire [63:0]  s_missing,
    input  wire         nothing_is_sent, // of any slot
    input  wire         accumulator_is_idle,
    output wire         walks,
    output wire         opens,
    output wire [LEASE-1:0] walk,
    // the end of the job: its reason, and that children may be told
    output wire         aborts,
    output wire         ends,
    output wire         empties,
    output wire [7:0]   end_status,
    output wire [63:0]  end_bits,
    output wire [15:0]  end_above,
    output wire [63:0]  end_lost,
    // packets to send
    input  wire         may_invite,
    input  wire         is_written,
    output wire         answers,
    output wire [7:0]   opcode,
    output reg  [7:0]   refusal,
    output reg  [31:0]  offered_slots,
    output wire         to_group,
    output wire         loads,
    output wire [63:0]  bits
);

localparam [31:0] SLOTS = 32'd1 << LEASE, MAX_CHUNK = 32'd64 << CHUNK, MIN_LEASE = 32'd4;
localparam [7:0] TREE = 8'd1;

// ---- A CONFIG

wire source_joined = |(joined & source_bit), source_left = |(left & source_bit);
wire is_known = found && !(job_state == `JOB_REMEMBERED && !key_is_right);
wire is_ended = job_state == `JOB_TOMBSTONE || job_state == `JOB_REMEMBERED;
assign config_in_order = REPRODUCIBLE != 0 && |(config_flags & `FANIN_JOB_REPRODUCIBLE_RUN);
wire has_unsupported_flag = |(config_flags & ~(REPRODUCIBLE != 0 ? `FANIN_JOB_REPRODUCIBLE_RUN : 8'd0));

// Slots that a job gets. One in order has a buffer in each for every child but the first.
function [31:0] lease_of;
    input       is_in_order;
    input [6:0] count;
    integer n;
    begin
        lease_of = SLOTS;
        for (n = 0; n < 6; n = n + 1) if (is_in_order && count > (7'd1 << n) + 7'd1) lease_of = SLOTS >> (n + 1);
    end
endfunction

reg  [6:0] counted; // children of the job that a CONFIG is about; then, those of them before its sender
wire [6:0] count;
bit_count count_children (
    .bitmap(state == `MEMBER_JOIN ? config_mask & below_source : config_mask), .count(count)
);
always @(posedge clk) counted <= count;
assign buffer = counted[5:0] - 6'd1;
assign config_lease = lease_of(config_in_order, counted);
wire chunk_fits = config_chunk <= MAX_CHUNK;
wire has_lease = config_lease >= MIN_LEASE;

// The error of the first CONFIG of a job, of one of a known job, and of a repeated one
always @* begin
    refusal = 8'd0;
    if (state == `MEMBER_JOIN && !config_is_wrong) begin
        if (!is_known) begin
            if (config_route != TREE) refusal = 8'd0; // dropped
            else if (config_lane != 8'd0) refusal = `FANIN_STATUS_TOO_FEW_LANES;
            else if (config_hops > 8'd1 || has_unsupported_flag) refusal = `FANIN_STATUS_NOT_SUPPORTED;
            else if (config_slots < MIN_LEASE || !chunk_fits || !has_lease || !has_entry)
                refusal = `FANIN_STATUS_NO_RESOURCES;
        end else if (!key_is_right
            || ((mask & ~joined) == 64'd0 && job_state != `JOB_REMEMBERED && (mask & source_bit) == 64'd0)
            || (source_joined && child_address != p_address)) refusal = `FANIN_STATUS_JID_IN_USE;
    end
end
wire is_refused = refusal != 8'd0;
wire is_dropped = config_is_wrong || (!is_known && config_route != TREE);
wire is_taken = state == `MEMBER_JOIN && !is_dropped && !is_refused; // or told that the job has ended
wire is_answered = is_taken && is_known && is_ended;
wire agrees = config_digest == digest && config_chunk == chunk && config_mask == mask && config_route == TREE
    && !has_unsupported_flag && config_in_order == in_order && config_lane == 8'd0;
wire mismatches = is_taken && is_known && !is_ended && !agrees;
wire is_reborn = is_taken && is_known && !is_ended && agrees && source_joined && child_boot != config_boot;
wire is_repeated = is_taken && is_known && !is_ended && agrees && source_joined && child_boot == config_boot;
wire is_new = is_taken && (!is_known || (!is_ended && agrees && !source_joined));
wire is_complete = (mask & ~(joined | source_bit)) == 64'd0;

assign forms = is_taken && !is_known;
assign adds = state == `MEMBER_ADD;
assign refuses_key = state == `MEMBER_JOIN && !config_is_wrong && is_known && !key_is_right;
assign is_heard = state == `MEMBER_JOIN && !config_is_wrong && is_known && key_is_right && source_joined
    && child_address == p_address;
assign job_is_heard = adds || (is_taken && is_known && !is_ended);

// ---- Slots of a job that is complete, or of one that a child leaves

reg  [LEASE:0] walked;
wire [31:0] slots_walked = {{(31 - LEASE){1'b0}}, walked};
wire walk_is_over = state == `MEMBER_WALK && slots_walked == slots;
assign walk = walked[LEASE-1:0];
assign walks = state == `MEMBER_WALK || state == `MEMBER_OPEN;
assign opens = state == `MEMBER_OPEN && nothing_is_sent && accumulator_is_idle;
assign halves = opens && slots_walked + 32'd1 == slots;
assign activates = state == `MEMBER_ACTIVATE;

// ---- A LEAVE

wire is_leave = state == `MEMBER_LEAVE;
wire leaves_with_reason = is_leave && job_state != `JOB_TOMBSTONE && p_status != 8'd0 && !source_left;
wire is_needed = state == `MEMBER_LOOK && !s_final && |(s_missing & source_bit); // by an open position
assign departs = is_leave;
assign remembers_end = state == `MEMBER_REMEMBER && is_written;
assign empties = is_leave && !leaves_with_reason && (mask & ~left & ~source_bit) == 64'd0;

// ---- The end of the job

assign aborts = mismatches || is_reborn || leaves_with_reason || is_needed;
assign ends = (aborts && !(mismatches && !source_joined)) || (state == `MEMBER_MISMATCH && is_written);
wire from_packet = leaves_with_reason || remembers_end;
wire has_members = p_node_bitmap != 64'd0 || remembers_end;
assign end_status = mismatches ? `FANIN_STATUS_MEMBERS_MISMATCH : is_reborn ? `FANIN_STATUS_PEER_LOST
    : from_packet ? p_status : is_needed ? `FANIN_STATUS_ABORTED : 8'd0;
assign end_bits = from_packet && has_members ? p_node_bitmap : aborts ? source_bit : 64'd0;
assign end_above = from_packet && has_members ? p_seg : 16'd0;
assign end_lost = is_reborn ? {32'd0, p_address} : from_packet && p_status == `FANIN_STATUS_PEER_LOST ? p_rank_bitmap
    : 64'd0;

// ---- The packets. A sender that may not join hears first that the job ends for it.

assign invites = state == `MEMBER_INVITE;
assign answers = is_refused || is_answered || (mismatches && !source_joined);
wire acknowledges = is_repeated || (adds && !is_complete) || activates;
assign opcode = is_refused || acknowledges ? `FANIN_OPCODE_CONFIG_ACK : answers ? `FANIN_OPCODE_ABORT
    : invites ? `FANIN_OPCODE_KEEPALIVE : 8'd0;
assign to_group = invites;
assign loads = acknowledges || invites;
assign bits = activates ? joined : invites ? mask : acknowledges ? source_bit : 64'd0;

assign drops = (state == `MEMBER_READ && config_fails) || (state == `MEMBER_JOIN && is_dropped);
assign is_done = (state == `MEMBER_TELL && is_written) || (state == `MEMBER_ACTIVATED && is_written && !may_invite)
    || (is_leave && !leaves_with_reason && !empties && job_state != `JOB_ACTIVE)
    || walk_is_over || remembers_end;

always @(posedge clk) begin
    case (state)
        `MEMBER_IDLE: begin
            offered_slots <= 32'd0;
            if (joins) state <= `MEMBER_READ;
            else if (leaves) state <= `MEMBER_LEAVING;
            else if (remembers) state <= `MEMBER_REMEMBER;
        end

        `MEMBER_READ: if (config_fails) state <= `MEMBER_IDLE; else if (config_is_read) state <= `MEMBER_COUNT;
        `MEMBER_COUNT: state <= `MEMBER_JOIN;
        `MEMBER_JOIN: begin
            if (refusal == `FANIN_STATUS_NO_RESOURCES && has_entry && has_lease && chunk_fits)
                offered_slots <= config_lease;
            state <= is_new ? `MEMBER_ADD : mismatches && !source_joined ? `MEMBER_MISMATCH
                : is_refused || is_answered || is_repeated ? `MEMBER_TELL : `MEMBER_IDLE;
        end
        `MEMBER_ADD: state <= is_complete ? `MEMBER_OPEN : `MEMBER_TELL;
        `MEMBER_OPEN: if (halves) state <= `MEMBER_ACTIVATE;
        `MEMBER_ACTIVATE: state <= `MEMBER_ACTIVATED;
        `MEMBER_ACTIVATED: if (is_written) state <= may_invite ? `MEMBER_INVITE : `MEMBER_IDLE;
        `MEMBER_INVITE: state <= `MEMBER_TELL;
        `MEMBER_TELL, `MEMBER_MISMATCH: if (is_written) state <= `MEMBER_IDLE;

        `MEMBER_LEAVING: if (is_written) state <= `MEMBER_LEAVE;
        `MEMBER_LEAVE:
            state <= leaves_with_reason || empties || job_state != `JOB_ACTIVE ? `MEMBER_IDLE : `MEMBER_WALK;
        `MEMBER_WALK: state <= walk_is_over ? `MEMBER_IDLE : `MEMBER_LOOK;
        `MEMBER_LOOK: state <= is_needed ? `MEMBER_IDLE : `MEMBER_WALK;
        default: if (is_written) state <= `MEMBER_IDLE;
    endcase
    if (adds || is_leave) walked <= {(LEASE + 1){1'b0}};
    else if (opens || state == `MEMBER_LOOK) walked <= walked + 1'b1;
    if (rst) state <= `MEMBER_IDLE;
end

endmodule

`resetall
