// The switch's decisions, packet by packet: jobs, children, slots (SPEC.md, sections 5 to 8, 10 and 11). Headers come
// in, the accumulator is told what to compute, and commands for packets go out. The switch is the top of its tree.
//
// A job has one entry of 2**JOBS, with a lease of 2**LEASE slots of its own and 2**CHUNK beats in a slot. What is
// known of its children and slots lies in block RAM. A contribution that does not complete its position takes 2
// clocks, one that does 7, and 2 for each child; a mean waits for the reciprocal of its divisor in addition. In a
// reproducible job what comes before its turn is stored. Where data wait, a contribution takes 3 clocks more, and 2
// for each data that are recalled. Data follow while the next headers are looked at: a command for a result goes
// out before its data are there, and the queue behind it holds it back (switch_core.v). Membership takes what it
// takes: some 10 to 100 clocks. Time is `now_us`, microseconds from any beginning.
//
// Record 0078 (docs/decisions) says why one state machine decides.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"

module engine #(
    parameter JOBS = 4,
    parameter LEASE = 5,
    parameter CHUNK = 4,
    parameter RING = 7,
    parameter REPRODUCIBLE = 1, // whether a job may demand the order of the bits (12-6)
    parameter [39:0] DETECTION_US = 40'd5000000, // times of section 14
    parameter [39:0] KEEPALIVE_US = 40'd500000,
    parameter [39:0] AGEING_US = 40'd60000000,
    parameter [39:0] NAK_US = 40'd1000,        // 5-12
    parameter [39:0] JUST_SENT_US = 40'd5000,  // 8-18
    parameter [39:0] SCAN_US = 40'd50000       // how often silence is looked for
) (
    input  wire          clk,
    input  wire          rst,
    input  wire [39:0]   now_us,
    input  wire [31:0]   own_address,
    input  wire [31:0]   group_address, // where all children hear what is sent once (7.4); 0: there is no group
    input  wire [15:0]   group_size,    // devices that listen there; 0: not known
    // the oldest header, parsed
    input  wire          header_valid,
    output wire          header_pop,
    input  wire [RING:0] header_beats,
    input  wire [4:0]    p_drop,
    input  wire [47:0]   p_mac,
    input  wire [31:0]   p_address,
    input  wire [7:0]    p_opcode,
    input  wire [7:0]    p_version,
    input  wire [7:0]    p_op,
    input  wire [7:0]    p_dtype,
    input  wire [7:0]    p_flags,
    input  wire [31:0]   p_jid,
    input  wire [31:0]   p_key,
    input  wire [31:0]   p_position,
    input  wire [31:0]   p_mid,
    input  wire [31:0]   p_sid,
    input  wire [15:0]   p_seg,
    input  wire [15:0]   p_length,
    input  wire [7:0]    p_status,
    input  wire [7:0]    p_source,
    input  wire [31:0]   p_contributions,
    input  wire [31:0]   p_token,
    input  wire [63:0]   p_node_bitmap,
    input  wire [63:0]   p_rank_bitmap,
    // the payload of a CONFIG
    output wire          reads_config,
    output wire [2:0]    config_beat,
    input  wire [511:0]  ring_data, // one clock later
    // the accumulator
    output wire          accumulate,
    input  wire          accumulator_ready,
    input  wire          accumulator_is_idle,
    output wire          computes,
    output wire          adds,    // the payload to the slot
    output wire          stores,  // the payload before its turn, in `compute_buffer`;
    output wire          recalls, // this buffer instead of a payload
    output wire [JOBS+LEASE-1:0] compute_buffer,
    output wire          divides, // the slot's data, by `divisor`
    output wire          divisor_valid,
    output wire [31:0]   divisor,
    output wire          divisor_is_float,
    input  wire          divisor_ready,
    output wire [7:0]    compute_op,
    output wire [JOBS+LEASE-1:0] compute_slot,
    output wire [RING:0] compute_beats,
    // a command for a packet
    output wire          command_push,
    input  wire          command_is_full,
    input  wire          slot_done,
    output wire [47:0]   c_mac,
    output wire [31:0]   c_address,
    output wire [7:0]    c_opcode,
    output wire [7:0]    c_op,
    output wire [7:0]    c_dtype,
    output wire [7:0]    c_flags,
    output wire [31:0]   c_jid,
    output wire [31:0]   c_key,
    output wire [31:0]   c_position,
    output wire [31:0]   c_mid,
    output wire [31:0]   c_sid,
    output wire [15:0]   c_seg,
    output wire [15:0]   c_length,
    output wire [7:0]    c_status,
    output wire [7:0]    c_source,
    output wire [31:0]   c_contributions,
    output wire [31:0]   c_token,
    output wire [63:0]   c_node_bitmap,
    output wire [63:0]   c_rank_bitmap,
    output wire          c_from_slot,
    output wire [JOBS+LEASE+CHUNK-1:0] c_slot_beat,
    output wire [63:0]   c_body,
    // what has become of the packets: one counter of 32 bits for each reason
    output wire [32*`DROP_REASONS-1:0] drops,
    output wire          is_idle
);

localparam [31:0] SLOTS = 32'd1 << LEASE, LARGEST_CHUNK = 32'd64 << CHUNK, SMALLEST_LEASE = 32'd4;
localparam [7:0] TREE = 8'd1, RING_ROUTE = 8'd2, LAST_STATUS = `FANIN_STATUS_PATH_MTU;
localparam [95:0] MAPPED = 96'hffff; // before an IPv4 address
localparam [24:0] GROUP_MAC = {24'h01005e, 1'b0}; // before the lower bits of a multicast address (RFC 1112)

// States of a job (10.3); REMEMBERED: a tombstone that a LEAVE or a refusal has made
localparam [2:0] FREE = 3'd0, JOINING = 3'd1, ACTIVE = 3'd2, TOMBSTONE = 3'd3, REMEMBERED = 3'd4;

// States of the engine
localparam [5:0] IDLE = 6'd0, DECIDE = 6'd1, RELEASE = 6'd2, ANSWER = 6'd3, EACH = 6'd4, EACH_PUSH = 6'd5, SAVE = 6'd6,
    COMPLETE = 6'd7, RESEND = 6'd8, OLDEST = 6'd9, OLDEST_LOOK = 6'd10, ABORT = 6'd11, ENDED = 6'd12, FOLD = 6'd13,
    FOLD_NEXT = 6'd14, LEAVE = 6'd15, LEAVE_WALK = 6'd16, LEAVE_LOOK = 6'd17, CONFIG = 6'd18, CONFIG_BODY = 6'd19,
    CONFIG_HOPS = 6'd20, CONFIG_JOIN = 6'd21, CONFIG_ADD = 6'd22, ACTIVATE = 6'd23, ACTIVATED = 6'd24, SCAN_JOB = 6'd25,
    SCAN_CHILD = 6'd26, SCAN_LOOK = 6'd27, SCAN_END = 6'd28, SCAN_DUE = 6'd29, SCAN_NEXT = 6'd30, REMEMBER = 6'd31,
    INVITE = 6'd32;

reg [5:0] state, after, back; // after an answer; at the end of a job's or a packet's turn

// A status as this device knows it (11-6)
function [7:0] known;
    input [7:0] status;
    known = status > LAST_STATUS ? `FANIN_STATUS_ABORTED : status;
endfunction

function [6:0] ones;
    input [63:0] bitmap;
    integer n;
    begin
        ones = 7'd0;
        for (n = 0; n < 64; n = n + 1) ones = ones + {6'd0, bitmap[n]};
    end
endfunction

// A number as the bytes of a body, the first byte lowest
function [31:0] big_endian;
    input [31:0] number;
    big_endian = {number[7:0], number[15:8], number[23:16], number[31:24]};
endfunction

// ---- Jobs

reg [2:0]   job_state [0:(1<<JOBS)-1];
reg [31:0]  job_jid [0:(1<<JOBS)-1];
reg [31:0]  job_key [0:(1<<JOBS)-1];
reg [63:0]  job_mask [0:(1<<JOBS)-1];
reg [63:0]  job_joined [0:(1<<JOBS)-1];
reg [63:0]  job_left [0:(1<<JOBS)-1];
reg [31:0]  job_slots [0:(1<<JOBS)-1];
reg [31:0]  job_window [0:(1<<JOBS)-1];
reg [31:0]  job_chunk [0:(1<<JOBS)-1];
reg [127:0] job_digest [0:(1<<JOBS)-1];
reg [39:0]  job_heard [0:(1<<JOBS)-1];
reg [39:0]  job_invited [0:(1<<JOBS)-1]; // when its children were told last that there is a group
reg [40:0]  job_loss [0:(1<<JOBS)-1]; // the highest bit: whether there was one
reg [7:0]   job_status [0:(1<<JOBS)-1];
reg [63:0]  job_bits [0:(1<<JOBS)-1];   // members that the end is about,
reg [15:0]  job_above [0:(1<<JOBS)-1];  // whose children they are,
reg [63:0]  job_lost [0:(1<<JOBS)-1];   // and the lost device's address
reg [32:0]  job_refused [0:(1<<JOBS)-1]; // the highest bit: whether a key was refused
reg  [(1<<JOBS)-1:0] job_in_order; // whether it folds in the order of the bits: 12-6

wire [(1<<JOBS)-1:0] hits, vacant, remembered;
genvar i;
generate
    for (i = 0; i < 1 << JOBS; i = i + 1) begin : jobs
        assign hits[i] = job_state[i] != FREE && job_jid[i] == p_jid;
        assign vacant[i] = job_state[i] == FREE;
        assign remembered[i] = job_state[i] == REMEMBERED;
    end
endgenerate

reg  [JOBS-1:0] job; // whose turn it is
reg             found;
wire [63:0] hit_rest, vacant_rest, remembered_rest;
wire [5:0]  hit, first_vacant, first_remembered;
lowest_bit lowest_hit (.bitmap({{(64 - (1 << JOBS)){1'b0}}, hits}), .lowest(hit), .rest(hit_rest));
lowest_bit lowest_vacant (.bitmap({{(64 - (1 << JOBS)){1'b0}}, vacant}), .lowest(first_vacant), .rest(vacant_rest));
lowest_bit lowest_remembered (
    .bitmap({{(64 - (1 << JOBS)){1'b0}}, remembered}), .lowest(first_remembered), .rest(remembered_rest)
);

wire [2:0]  own_state = job_state[job];
wire [63:0] own_mask = job_mask[job], own_joined = job_joined[job], own_left = job_left[job];
wire [31:0] own_slots = job_slots[job], own_window = job_window[job], own_chunk = job_chunk[job];
wire        in_order = REPRODUCIBLE != 0 && job_in_order[job];
wire        key_is_right = job_key[job] == p_key;
wire        is_known = found && !(own_state == REMEMBERED && !key_is_right);
wire [JOBS-1:0] entry = found ? job : |vacant ? first_vacant[JOBS-1:0] : first_remembered[JOBS-1:0];
wire        has_entry = found || |vacant || |remembered;
wire [63:0] source_bit = 64'd1 << p_source[5:0];
wire        source_joined = |(own_joined & source_bit), source_left = |(own_left & source_bit);
wire [63:0] unjoined = own_mask & ~own_joined;
wire        all_left = (own_mask & ~own_left) == 64'd0;

// Microseconds without those for which the engine could look at no packet (10.5-7): by them silence and age are measured.
reg  [39:0] lived_us, seen_us, idle_us;

// ---- Children, by bit: who has joined; when it was last heard, and when it was last sent a packet

reg  [63:0] todo; // bits of children to go through
wire [5:0]  next;
wire [63:0] next_rest;
reg  [5:0]  own_bit; // the one whose turn it is
lowest_bit lowest_todo (.bitmap(todo), .lowest(next), .rest(next_rest));

wire [JOBS-1:0] at_job = state == IDLE ? hit[JOBS-1:0] : job;
wire goes_through = state == EACH || state == FOLD || state == OLDEST || state == SCAN_CHILD;
wire uses_own = state == EACH_PUSH || state == FOLD_NEXT;
wire [JOBS+5:0] child = {at_job, goes_through ? next : uses_own ? own_bit : p_source[5:0]};
wire        child_write, heard_write, sent_write;
reg  [63:0] config_boot;
wire [47:0] child_mac;
wire [31:0] child_address;
wire [63:0] child_boot;
wire [5:0]  child_buffer;
wire [39:0] child_heard, child_sent;

ram #(.WIDTH(150), .ADDRESS(JOBS + 6)) children (
    .clk(clk), .write_enable(child_write), .write_address(child),
    .write_data({own_buffer, p_mac, p_address, config_boot}),
    .read_enable(1'b1), .read_address(child), .read_data({child_buffer, child_mac, child_address, child_boot})
);
ram #(.WIDTH(40), .ADDRESS(JOBS + 6)) heard (
    .clk(clk), .write_enable(heard_write), .write_address(child), .write_data(lived_us),
    .read_enable(1'b1), .read_address(child), .read_data(child_heard)
);
ram #(.WIDTH(40), .ADDRESS(JOBS + 6)) sent (
    .clk(clk), .write_enable(sent_write), .write_address({job, state == EACH_PUSH ? own_bit : p_source[5:0]}),
    .write_data(now_us), .read_enable(1'b1), .read_address(child), .read_data(child_sent)
);

// Which buffer of a slot has the data of a child before its turn: the number of the children before it, but one. The
// first needs none, since it is never too early. A job of N slots has 2**LEASE / N buffers in each: in the place of a
// buffer the slot takes the lower bits, and that number, reversed, the upper ones.
wire [63:0] below_source = ~(~64'd0 << p_source[5:0]);
reg  [6:0]  counted; // children of the job that a CONFIG is about; then, those of them before its sender
wire [5:0]  own_buffer = counted[5:0] - 6'd1;
wire [LEASE+5:0] long_buffer = {{LEASE{1'b0}}, child_buffer};
wire [LEASE-1:0] buffer_place;
generate
    for (i = 0; i < LEASE; i = i + 1) begin : mirrored
        assign buffer_place[LEASE-1-i] = long_buffer[i];
    end
endgenerate
wire unused_buffers = &{1'b0, long_buffer};

// ---- Slots: the record that is read, and the one that is worked on

localparam RECORD = 32 + 1 + 1 + 64 + 64 + 8 + 32 + 1 + 8 + 8 + 2 + 32 + 32 + 16 + 40 + 16;
reg  [LEASE:0] walk;
wire [31:0] s_position, s_contributions, s_mid, s_sid;
wire        s_final, s_fresh, s_has_data;
wire [63:0] s_missing, s_wants;
wire [7:0]  s_status, s_op, s_dtype;
wire [1:0]  s_class;
wire [15:0] s_length, s_ticket;
wire [39:0] s_finished;

reg  [LEASE-1:0] slot;
reg  [31:0] position, contributions, mid, sid;
reg         is_final, has_data;
reg  [63:0] missing, wants;
reg  [7:0]  status, op, dtype;
reg  [1:0]  contributor_class;
reg  [15:0] length;
reg  [39:0] finished;
reg  [15:0] issued, done; // commands that read a slot; those that need it no more

wire walks = state == LEAVE_WALK || state == ACTIVATE;
wire [LEASE-1:0] slot_place = walks ? walk[LEASE-1:0] : p_seg[LEASE-1:0];
wire slot_write;
wire [RECORD-1:0] record = state == ACTIVATE
    ? {{(RECORD - 34){1'b0}}, 1'b1, 1'b1, {{(31 - LEASE){1'b0}}, walk} - own_slots}
    : {issued, finished, length, sid, mid, contributor_class, dtype, op, has_data, contributions, status, wants, missing,
       1'b0, is_final, position};
wire [RECORD-1:0] first_record; // of the packet in DECIDE
ram #(.WIDTH(RECORD), .ADDRESS(JOBS + LEASE)) slots (
    .clk(clk), .write_enable(slot_write), .write_address(slot_written),
    .write_data(state == DECIDE ? first_record : record), .read_enable(1'b1), .read_address({at_job, slot_place}),
    .read_data({s_ticket, s_finished, s_length, s_sid, s_mid, s_class, s_dtype, s_op, s_has_data, s_contributions,
        s_status, s_wants, s_missing, s_fresh, s_final, s_position})
);
wire [LEASE-1:0] slot_at = state == DECIDE ? p_seg[LEASE-1:0] : slot;
wire [JOBS+LEASE-1:0] slot_written = {job, walks ? walk[LEASE-1:0] : slot_at};

// Whether all contributions to the position so far came from children that hear the group
wire s_hears, hears_then;
ram #(.WIDTH(1), .ADDRESS(JOBS + LEASE)) hearing (
    .clk(clk), .write_enable(slot_write && state == DECIDE), .write_address({job, slot_at}), .write_data(hears_then),
    .read_enable(1'b1), .read_address({at_job, slot_place}), .read_data(s_hears)
);

// Children whose data wait for their turn, and whether the slot has a sum of those before. In a slot that is FINAL none
// waits.
reg  [63:0] early;
reg         has_sum;
wire        s_has_sum, has_sum_then, turns_write;
wire [63:0] s_early, early_then;
wire [64:0] turns_then = state == ACTIVATE ? 65'd0 : state == DECIDE ? {has_sum_then, early_then} : {has_sum, early};
generate
    if (REPRODUCIBLE != 0) begin : in_turn
        ram #(.WIDTH(65), .ADDRESS(JOBS + LEASE)) turns (
            .clk(clk), .write_enable(turns_write), .write_address(slot_written), .write_data(turns_then),
            .read_enable(1'b1), .read_address({at_job, slot_place}), .read_data({s_has_sum, s_early})
        );
    end else begin : at_once
        assign s_early = 64'd0;
        assign s_has_sum = s_has_data;
        wire unused = &{1'b0, turns_write, turns_then};
    end
endgenerate

// ---- A packet about a position: item 10 of section 5, and the slot rule

wire [1:0] p_class = p_flags[`FANIN_CLASS_SHIFT +: 2];
wire p_has_data = |(p_flags & `FANIN_FLAG_HAS_DATA);
wire p_wants = |(p_flags & `FANIN_FLAG_WANTS_RESULT);
wire brings = p_has_data && p_status == 8'd0;
wire is_computed, is_float, is_signed, is_small, is_bf16, is_pair, accepts, replaces, differs;
wire [1:0] size_log2;
wire [4:0] slot_drop;
computed_operation computed_operation_inst (
    .op(p_op), .dtype(p_dtype), .is_computed(is_computed), .is_float(is_float), .is_signed(is_signed),
    .is_small(is_small), .is_bf16(is_bf16), .is_pair(is_pair), .size_log2(size_log2)
);
slot_rule slot_rule_inst (
    .slots(own_slots), .position(p_position), .op(p_op), .dtype(p_dtype), .contributor_class(p_class), .mid(p_mid),
    .sid(p_sid), .length(p_length), .brings(brings), .is_wide(|(p_flags & `FANIN_FLAG_WIDE)),
    .slot_position(s_position), .slot_is_final(s_final), .slot_is_fresh(s_fresh), .slot_op(s_op), .slot_dtype(s_dtype),
    .slot_class(s_class), .slot_mid(s_mid), .slot_sid(s_sid), .slot_length(s_length), .slot_has_data(s_has_data),
    .accepts(accepts), .drop(slot_drop), .replaces(replaces), .differs(differs)
);
wire [LEASE-1:0] slot_mask = own_slots[LEASE-1:0] - 1'b1;
wire is_wrong = own_state != ACTIVE || p_seg != {{(16 - LEASE){1'b0}}, p_position[LEASE-1:0] & slot_mask}
    || {1'b0, p_length} > own_chunk[16:0] || p_class > `FANIN_CLASS_ALL || (p_class == `FANIN_CLASS_NONE && p_has_data)
    || (p_has_data && p_class == `FANIN_CLASS_ALL && !is_computed);

wire [63:0] missing_then = (replaces ? own_mask : s_missing) & ~source_bit;
// Questions about all bits are answered for both masks, since `replaces` is known late.
wire is_missing = replaces || |(s_missing & source_bit); // of a child of the job
wire is_last_one = replaces ? (own_mask & ~source_bit) == 64'd0 : (s_missing & ~source_bit) == 64'd0;
wire some_have_left = replaces ? |(own_mask & ~source_bit & own_left) : |(s_missing & ~source_bit & own_left);
wire is_behind_others = replaces ? |(own_mask & below_source) : |(s_missing & below_source);
wire had_data = !replaces && s_has_data;
wire [7:0] status_then = !replaces && s_status > known(p_status) ? s_status : known(p_status);
wire [31:0] contributions_sum = s_contributions + p_contributions;
wire [31:0] contributions_then = replaces ? p_contributions : contributions_sum;
// Whether the sum is more than 1, without an adder: if it is not, each bit but the lowest is cancelled by the carry
// below it.
wire [30:0] carries = {s_contributions[30:1] | p_contributions[30:1], s_contributions[0] & p_contributions[0]};
wire of_several = replaces ? |p_contributions[31:1] : (s_contributions[31:1] ^ p_contributions[31:1]) != carries;
wire [63:0] wants_then = (replaces ? 64'd0 : s_wants) | (p_wants ? source_bit : 64'd0);
assign hears_then = (replaces || s_hears) && |(p_flags & `FANIN_FLAG_HEARS_GROUP);
wire [15:0] length_then = had_data ? s_length : p_length;
assign first_record = {s_ticket, 40'd0, length_then, p_sid, p_mid, p_class, p_dtype, p_op, had_data || brings,
    contributions_then, status_then, wants_then, missing_then, 1'b0, 1'b0, p_position};
// Data are too early while a child with a lower bit is missing (12-8). A position of one contributor has no order.
wire is_early = in_order && p_class == `FANIN_CLASS_ALL && is_behind_others;
wire has_early = in_order && |s_early;
wire had_sum = !replaces && s_has_sum;
assign has_sum_then = had_sum || (brings && !is_early);
assign early_then = s_early | (adds && is_early ? source_bit : 64'd0);
// The result of the position before may still be on its way out of the slot.
wire [15:0] age = issued - s_ticket, outstanding = issued - done;
wire is_still_sent = replaces && !s_fresh && age < outstanding;

// ---- The time: what comes of a difference of times is a register, since the path of its carries is long

reg  [39:0] last_scan, last_nak;
reg         scan_is_due, nak_is_recent;
reg         is_aged, was_invited, had_loss; // the job, one clock ago
reg         was_just_sent; // the slot's result, one clock ago
always @(posedge clk) begin
    is_aged <= lived_us - job_heard[job] > AGEING_US;
    was_invited <= now_us - job_invited[job] < KEEPALIVE_US - SCAN_US;
    had_loss <= job_loss[job][40] && now_us - job_loss[job][39:0] <= DETECTION_US;
    was_just_sent <= now_us - s_finished <= JUST_SENT_US;
end
reg  [39:0] oldest_age;
reg  [5:0]  oldest;
reg         is_first;
wire [39:0] child_age = lived_us - child_heard;
wire [31:0] oldest_us = |oldest_age[39:32] ? 32'hffffffff : oldest_age[31:0];
reg  [63:0] silent, due;
reg  [31:0] silent_address; // of one that is silent alone; else 0

// ---- The group: one packet for all children, where it reaches them and most of those that hear it want it (7.4)

reg  [6:0] children_count, wanting_count;
reg        hears; // see `hears_then`
always @(posedge clk) begin
    children_count <= ones(own_mask);
    wanting_count <= ones(wants);
end
wire may_invite = group_address != 32'd0 && children_count > 7'd1 && {8'd0, children_count, 1'b0} > group_size;
wire most_want = {8'd0, wanting_count, 1'b0} > group_size && {wanting_count, 1'b0} > {1'b0, children_count};
wire result_to_group = may_invite && hears && (most_want || wanting_count == 7'd0 || !has_data || status != 8'd0);

// ---- CONFIG

wire [511:0] config_wire; // the beat in the order of the wire: the first byte is the highest
generate
    for (i = 0; i < 64; i = i + 1) begin : reversed
        assign config_wire[8*(63-i) +: 8] = ring_data[8*i +: 8];
    end
endgenerate
reg  [2:0]   beat;
reg  [191:0] config_held;
reg  [127:0] config_digest;
reg  [31:0]  config_slots, config_window, config_chunk;
reg  [7:0]   config_hops, config_lane, config_flags, config_route;
reg  [63:0]  config_mask;
reg  [3:0]   hop;
reg          config_is_wrong;
reg          config_is_counted; // its children are
wire [255:0] even_hop = {config_held, config_wire[511:448]}, odd_hop = config_wire[447:192];
wire even_is_wrong = even_hop[255:160] != MAPPED || even_hop[63:56] > 8'd63 || !even_hop[64 + {26'd0, even_hop[61:56]}];
wire odd_is_wrong = odd_hop[255:160] != MAPPED || odd_hop[63:56] > 8'd63 || !odd_hop[64 + {26'd0, odd_hop[61:56]}];
wire own_hop_is_wrong = even_hop[159:128] != own_address || even_hop[63:56] != p_source;
wire [7:0] body_hops = config_wire[511 - `FANIN_CONFIG_HOPS_OFFSET -: 8];
wire [31:0] body_slots = config_wire[511 - `FANIN_CONFIG_SLOTS_OFFSET -: 32];
wire [7:0] body_route = config_wire[511 - `FANIN_CONFIG_ROUTE_OFFSET -: 8];
wire [15:0] body_bytes = `FANIN_CONFIG_BYTES + {3'd0, body_hops, 5'd0};
wire [63:0] joined_then = own_joined | source_bit;
wire config_in_order = REPRODUCIBLE != 0 && |(config_flags & `FANIN_JOB_REPRODUCIBLE_RUN);
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
wire [31:0] config_lease = lease_of(config_in_order, counted);
wire has_lease = config_lease >= SMALLEST_LEASE;
always @(posedge clk) counted <= ones(config_is_counted ? config_mask & below_source : config_mask);
assign config_beat = beat;
assign reads_config = (state == CONFIG && accumulator_is_idle) || state == CONFIG_BODY || state == CONFIG_HOPS;

// ---- What is sent: the same to all of `todo`, or an answer

reg  [7:0]  m_opcode, m_status;
reg         by_group; // one packet, to the group
reg  [31:0] m_position, m_mid, m_sid, m_token;
reg  [15:0] m_seg, m_length;
reg  [63:0] m_node_bitmap, m_rank_bitmap, m_body;
wire to_child = state == EACH_PUSH;
wire is_result = m_opcode == `FANIN_OPCODE_RESULT;
wire with_data = is_result && has_data && status == 8'd0 && (by_group ? wants != 64'd0 : wants[own_bit]);

assign command_push = (state == ANSWER || state == EACH_PUSH) && !command_is_full;
assign c_mac = !to_child ? p_mac : by_group ? {GROUP_MAC, group_address[22:0]} : child_mac;
assign c_address = !to_child ? p_address : by_group ? group_address : child_address;
assign c_source = to_child ? {2'd0, own_bit} : p_source;
assign c_jid = to_child ? job_jid[job] : p_jid;
assign c_key = to_child ? job_key[job] : p_key;
assign c_opcode = m_opcode;
assign c_op = is_result ? op : 8'd0;
assign c_dtype = is_result ? dtype : 8'd0;
assign c_flags = is_result ? {1'b0, contributor_class, 4'd0, with_data} : 8'd0;
assign c_position = m_position;
assign c_mid = is_result ? mid : m_mid;
assign c_sid = is_result ? sid : m_sid;
assign c_seg = m_seg;
assign c_length = !is_result ? m_length : with_data ? length : 16'd0;
assign c_status = is_result ? status : m_status;
assign c_contributions = is_result ? contributions : 32'd0;
assign c_token = to_child && m_opcode == `FANIN_OPCODE_CONFIG_ACK ? child_boot[31:0] : m_token;
assign c_node_bitmap = !is_result ? m_node_bitmap : by_group ? own_mask : 64'd1 << own_bit;
assign c_rank_bitmap = m_rank_bitmap;
assign c_from_slot = with_data;
assign c_slot_beat = {job, slot, {CHUNK{1'b0}}};
assign c_body = m_body;

// ---- What happens in DECIDE, where other units take part in the same clock

wire goes_up = p_opcode == `FANIN_OPCODE_CONTRIBUTION || p_opcode == `FANIN_OPCODE_PROBE
    || p_opcode == `FANIN_OPCODE_LEAVE || p_opcode == `FANIN_OPCODE_QUERY;
wire goes_both = p_opcode == `FANIN_OPCODE_ABORT || p_opcode == `FANIN_OPCODE_NAK || p_opcode == `FANIN_OPCODE_KEEPALIVE;
wire asks = p_opcode == `FANIN_OPCODE_CONTRIBUTION || p_opcode == `FANIN_OPCODE_PROBE || p_opcode == `FANIN_OPCODE_QUERY;
wire is_leave = p_opcode == `FANIN_OPCODE_LEAVE;
wire asks_a_tombstone = asks || p_opcode == `FANIN_OPCODE_RESULT || p_opcode == `FANIN_OPCODE_ACK
    || p_opcode == `FANIN_OPCODE_KEEPALIVE;
wire is_unknown = !found || (own_state == REMEMBERED && (key_is_right || is_leave));
wire is_strange = source_joined ? child_address != p_address : !is_leave;
reg [4:0] own_drop; // p_drop, one clock later: its path is long
wire is_heard = state == DECIDE && own_drop == `DROP_NONE && p_opcode != `FANIN_OPCODE_CONFIG && !is_unknown && key_is_right
    && (own_state != TOMBSTONE || is_leave) && (goes_up || goes_both) && !is_strange && |(own_mask & source_bit);
wire is_positional = is_heard && !is_wrong && accepts;
wire contributes = is_positional && p_opcode == `FANIN_OPCODE_CONTRIBUTION && is_missing && !differs
    && !is_still_sent;
wire has_work = adds || divides;
wire may_work = accumulator_ready && (!divides || divisor_ready);
wire taken = contributes && (!has_work || may_work); // in this clock

reg gave; // the accumulator gives the payload back
reg is_counted; // who wants the result
wire folds = REPRODUCIBLE != 0 && state == FOLD_NEXT && early[own_bit];
assign computes = state == DECIDE || folds;
assign adds = folds || (brings && p_length != 16'd0);
assign stores = !folds && is_early;
assign recalls = folds;
assign compute_buffer = {job, p_seg[LEASE-1:0] | buffer_place};
wire divides_now = is_last_one && !has_early && p_op == `FANIN_OP_MEAN && p_class == `FANIN_CLASS_ALL && of_several
    && (had_data || brings) && length_then != 16'd0 && status_then == 8'd0; // 7.1-13
wire [63:0] todo_then = todo & ~(64'd1 << own_bit);
wire divides_recalled = todo_then == 64'd0 && op == `FANIN_OP_MEAN && |contributions[31:1] && status == 8'd0;
assign divides = folds ? divides_recalled : divides_now;
assign divisor = folds ? contributions : contributions_then;
assign divisor_is_float = is_float;
assign divisor_valid = (contributes || folds) && divides;
assign accumulate = ((contributes || folds) && has_work && (!divides || divisor_ready))
    || (state == RELEASE && !gave && header_beats != {(RING + 1){1'b0}});
assign compute_op = (folds ? has_sum : had_sum) ? p_op : `FANIN_OP_NONE;
assign compute_slot = {job, p_seg[LEASE-1:0]};
wire [15:0] beats_of_data = ((folds ? length : length_then) + 16'd63) >> 6;
assign compute_beats = beats_of_data[RING:0];
assign slot_write = taken || state == SAVE || state == ACTIVATE;
assign turns_write = taken || state == FOLD_NEXT || state == ACTIVATE;
wire goes_on = taken && has_work && !is_last_one && !some_have_left && !has_early; // the quick way
assign header_pop = goes_on
    || (state == RELEASE && (gave || header_beats == {(RING + 1){1'b0}} || accumulator_ready));
assign child_write = state == CONFIG_ADD;
wire heard_again = state == CONFIG_JOIN && !config_is_wrong && is_known && key_is_right && source_joined
    && child_address == p_address;
assign heard_write = (is_heard && source_joined) || state == CONFIG_ADD || heard_again;
assign sent_write = state == CONFIG_ADD || (state == EACH_PUSH && !command_is_full && !by_group);
assign is_idle = state == IDLE && !header_valid && !scan_is_due && seen_us == now_us;

reg [31:0] counters [0:`DROP_REASONS-1];
reg [4:0]  dropped; // why a packet was, one clock ago
generate
    for (i = 0; i < `DROP_REASONS; i = i + 1) begin : reasons
        assign drops[32*i +: 32] = counters[i];
    end
endgenerate

// ---- Steps that several states take

task drop;
    input [4:0] reason;
    begin
        dropped <= reason;
        state <= RELEASE;
    end
endtask

// To the sender of the packet, whoever it is; then RELEASE
task answer;
    input [7:0] opcode;
    input [7:0] answer_status;
    begin
        m_opcode <= opcode;
        m_status <= answer_status;
        state <= ANSWER;
        after <= RELEASE;
    end
endtask

task answer_that_it_ended;
    begin
        answer(`FANIN_OPCODE_ABORT, job_status[job]);
        m_node_bitmap <= job_bits[job];
        m_seg <= job_bits[job] == 64'd0 ? 16'd0 : job_above[job] + 16'd1;
        m_rank_bitmap <= job_lost[job];
    end
endtask

task refuse;
    input [7:0] reason;
    begin
        answer(`FANIN_OPCODE_CONFIG_ACK, reason);
        m_token <= p_token;
        m_length <= `FANIN_CONFIG_ACK_BYTES;
    end
endtask

// To children; then `then`
task tell;
    input [7:0]  opcode;
    input [63:0] bits;
    input [5:0]  then;
    begin
        m_opcode <= opcode;
        todo <= bits;
        state <= EACH;
        after <= then;
    end
endtask

// The job's state, as CONFIG_ACK and STATUS have it
task describe;
    input is_active;
    begin
        m_status <= is_active ? `FANIN_STATUS_SUCCESS : `FANIN_STATUS_PENDING;
        m_seg <= is_active ? 16'd0 : 16'd1;
        m_node_bitmap <= is_active ? 64'd0 : own_mask & ~(state == CONFIG_ADD ? joined_then : own_joined);
    end
endtask

// End the job, and tell the children
task abort;
    input [7:0]  reason;
    input [63:0] bits;
    input [15:0] above;
    input [63:0] lost;
    begin
        job_status[job] <= known(reason);
        job_bits[job] <= bits;
        job_above[job] <= above;
        job_lost[job] <= lost;
        state <= ABORT;
    end
endtask

task clear;
    begin
        by_group <= 1'b0;
        m_status <= 8'd0;
        m_position <= 32'd0;
        m_mid <= 32'd0;
        m_sid <= 32'd0;
        m_token <= 32'd0;
        m_seg <= 16'd0;
        m_length <= 16'd0;
        m_node_bitmap <= 64'd0;
        m_rank_bitmap <= 64'd0;
        m_body <= 64'd0;
    end
endtask

task place;
    begin
        m_position <= p_position;
        m_seg <= p_seg;
        m_mid <= p_mid;
        m_sid <= p_sid;
    end
endtask

task load_slot;
    begin
        slot <= p_seg[LEASE-1:0];
        position <= p_position;
        is_final <= s_final;
        missing <= s_missing;
        wants <= s_wants;
        status <= s_status;
        contributions <= s_contributions;
        has_data <= s_has_data;
        op <= s_op;
        dtype <= s_dtype;
        contributor_class <= s_class;
        mid <= s_mid;
        sid <= s_sid;
        length <= s_length;
        finished <= s_finished;
    end
endtask

integer k;
always @(posedge clk) begin
    if (command_push && c_from_slot) issued <= issued + 16'd1;
    if (slot_done) done <= done + 16'd1;
    if (is_heard) job_heard[job] <= lived_us;
    dropped <= `DROP_NONE;
    if (dropped != `DROP_NONE) counters[dropped] <= counters[dropped] + 32'd1;
    seen_us <= now_us;
    scan_is_due <= now_us - last_scan >= SCAN_US;
    if (now_us - last_nak >= NAK_US) nak_is_recent <= 1'b0;
    if (state == IDLE) idle_us <= now_us;
    if (now_us - idle_us <= KEEPALIVE_US) lived_us <= lived_us + (now_us - seen_us);

    case (state)
        IDLE: begin
            job <= hit[JOBS-1:0];
            found <= |hits;
            gave <= 1'b0;
            back <= RELEASE;
            clear;
            own_drop <= p_drop;
            if (scan_is_due) begin // before any packet: else whoever sends without a pause stops the time
                last_scan <= now_us;
                scan_is_due <= 1'b0;
                job <= {JOBS{1'b0}};
                back <= SCAN_NEXT;
                state <= SCAN_JOB;
            end else if (header_valid) state <= DECIDE;
        end

        // Section 5, from item 5 on
        DECIDE: begin
            if (own_drop != `DROP_NONE) drop(own_drop);
            else if (p_opcode == `FANIN_OPCODE_CONFIG) begin
                if (p_version != `FANIN_WIRE_VERSION) refuse(`FANIN_STATUS_VERSION_MISMATCH);
                else state <= CONFIG;
                beat <= 3'd0;
            end else if (is_unknown) begin
                if (is_leave) begin
                    answer(`FANIN_OPCODE_LEAVE_ACK, 8'd0);
                    if (p_status != 8'd0 && !found) after <= REMEMBER;
                end else if (asks || (p_opcode == `FANIN_OPCODE_KEEPALIVE && p_node_bitmap == 64'd0)) begin
                    if (nak_is_recent) drop(`DROP_NAK_LIMIT);
                    else begin
                        last_nak <= now_us;
                        nak_is_recent <= 1'b1;
                        answer(`FANIN_OPCODE_NAK, `FANIN_STATUS_NOT_CONFIGURED);
                    end
                end else drop(`DROP_UNKNOWN_JOB);
            end else if (!key_is_right) begin
                if (is_leave) answer(`FANIN_OPCODE_LEAVE_ACK, 8'd0);
                else drop(`DROP_KEY);
            end else if (own_state == TOMBSTONE && !is_leave) begin
                if (asks_a_tombstone) answer_that_it_ended;
                else drop(`DROP_ENDED);
            end else if (!goes_up && !goes_both) drop(`DROP_GOES_DOWN);
            else if (is_strange) drop(`DROP_SENDER);
            else if ((own_mask & source_bit) == 64'd0) drop(`DROP_BIT);
            else case (p_opcode)
                `FANIN_OPCODE_LEAVE: begin
                    answer(`FANIN_OPCODE_LEAVE_ACK, 8'd0);
                    after <= LEAVE;
                end
                `FANIN_OPCODE_QUERY: begin
                    answer(`FANIN_OPCODE_STATUS, 8'd0);
                    m_token <= p_token;
                    describe(own_state == ACTIVE);
                end
                `FANIN_OPCODE_ABORT:
                    abort(p_status == `FANIN_STATUS_SUCCESS || p_status == `FANIN_STATUS_PENDING ? `FANIN_STATUS_ABORTED
                        : p_status, p_node_bitmap, p_seg, p_status == `FANIN_STATUS_PEER_LOST ? p_rank_bitmap : 64'd0);
                `FANIN_OPCODE_NAK:
                    if (own_state == ACTIVE && !source_left)
                        abort(`FANIN_STATUS_PEER_LOST, source_bit, 16'd0, {32'd0, p_address});
                    else state <= RELEASE;
                `FANIN_OPCODE_KEEPALIVE: state <= RELEASE;
                default: begin // CONTRIBUTION and PROBE
                    place;
                    load_slot;
                    if (is_wrong) drop(`DROP_POSITION);
                    else if (!accepts) drop(slot_drop);
                    else if (p_opcode == `FANIN_OPCODE_PROBE) begin // 8-16 to 8-21
                        m_token <= p_token;
                        if (is_missing) begin
                            job_loss[job] <= {1'b1, now_us};
                            tell(`FANIN_OPCODE_NEED, source_bit, RELEASE);
                        end else begin
                            oldest_age <= 40'd0;
                            oldest <= 6'd0;
                            is_first <= 1'b1;
                            todo <= s_missing;
                            state <= s_final ? RESEND : OLDEST;
                        end
                    end else if (!is_missing) begin // 7.1-2
                        if (s_final) tell(`FANIN_OPCODE_RESULT, source_bit, SAVE);
                        else state <= RELEASE;
                    end else if (differs) abort(`FANIN_STATUS_OP_MISMATCH, source_bit, 16'd0, 64'd0);
                    else if (taken) begin
                        missing <= missing_then;
                        wants <= wants_then;
                        status <= status_then;
                        contributions <= contributions_then;
                        has_data <= had_data || brings;
                        op <= p_op;
                        dtype <= p_dtype;
                        contributor_class <= p_class;
                        mid <= p_mid;
                        sid <= p_sid;
                        length <= length_then;
                        gave <= has_work;
                        hears <= hears_then;
                        is_counted <= 1'b0;
                        has_sum <= has_sum_then;
                        early <= early_then;
                        todo <= missing_then | early_then;
                        if (some_have_left)
                            abort(`FANIN_STATUS_ABORTED, missing_then & own_left, 16'd0, 64'd0);
                        else if (has_early) state <= FOLD;
                        else if (is_last_one) state <= COMPLETE;
                        else state <= goes_on ? IDLE : RELEASE;
                    end
                end
            endcase
        end

        // The payload is given back, and the packet is done.
        RELEASE: if (header_pop) state <= IDLE;

        ANSWER: if (!command_is_full) state <= after;

        EACH: begin
            own_bit <= next;
            state <= todo == 64'd0 ? after : EACH_PUSH;
        end
        EACH_PUSH: if (!command_is_full) begin
            todo <= by_group ? 64'd0 : todo_then;
            state <= EACH;
        end

        // The record of the slot, with the number of the last command that reads its data
        SAVE: state <= RELEASE;

        // Data that came before their turn: the lowest child of those that wait and those that are missing is next.
        FOLD: begin
            own_bit <= next;
            state <= FOLD_NEXT;
        end
        FOLD_NEXT: if (!folds) state <= missing == 64'd0 ? COMPLETE : RELEASE;
        else if (may_work) begin
            early[own_bit] <= 1'b0;
            has_sum <= 1'b1;
            todo <= todo_then;
            state <= FOLD;
        end

        // All are in: 7.1-13, 7.1-20
        COMPLETE: if (!is_counted) is_counted <= 1'b1; else begin
            is_final <= 1'b1;
            finished <= now_us;
            if (contributor_class != `FANIN_CLASS_NONE && !has_data && status == 8'd0)
                abort(`FANIN_STATUS_OP_MISMATCH, 64'd0, 16'd0, 64'd0);
            else tell(`FANIN_OPCODE_RESULT, own_joined, SAVE);
            by_group <= result_to_group;
        end

        // A result that was asked for goes out again, unless it may still be on its way: 8-18
        RESEND: if (!had_loss && was_just_sent) state <= OLDEST;
            else begin
                job_loss[job] <= {1'b1, now_us};
                tell(`FANIN_OPCODE_RESULT, source_bit, SAVE);
            end

        // WAIT: which of the missing was silent longest
        OLDEST: begin
            own_bit <= next;
            if (todo != 64'd0) state <= OLDEST_LOOK;
            else begin
                m_length <= `FANIN_WAIT_BYTES;
                m_body <= {16'd0, 8'd1, 2'd0, oldest, big_endian(oldest_us)};
                m_node_bitmap <= missing;
                tell(`FANIN_OPCODE_WAIT, source_bit, RELEASE);
            end
        end
        OLDEST_LOOK: begin
            is_first <= 1'b0;
            if (is_first || child_age > oldest_age) begin
                oldest_age <= child_age;
                oldest <= own_bit;
            end
            todo <= next_rest;
            state <= OLDEST;
        end

        // The job is a tombstone now: section 11
        ABORT: begin
            job_state[job] <= TOMBSTONE;
            clear;
            m_status <= job_status[job];
            m_node_bitmap <= job_bits[job];
            m_seg <= job_bits[job] == 64'd0 ? 16'd0 : job_above[job] + 16'd1;
            m_rank_bitmap <= job_lost[job];
            tell(`FANIN_OPCODE_ABORT, own_joined & ~own_left, ENDED);
        end
        // A job that all have left is free; a key that was refused meanwhile stays refused (11-13).
        ENDED: begin
            if (all_left || back == SCAN_JOB) begin
                job_state[job] <= job_refused[job][32] ? REMEMBERED : FREE;
                job_key[job] <= job_refused[job][31:0];
                job_refused[job] <= 33'd0;
                job_status[job] <= `FANIN_STATUS_JID_IN_USE;
                job_bits[job] <= 64'd0;
                job_lost[job] <= 64'd0;
                job_joined[job] <= 64'd0;
                job_left[job] <= 64'd0;
                job_mask[job] <= 64'd0;
                job_heard[job] <= lived_us;
            end
            state <= back == SCAN_JOB ? SCAN_NEXT : back;
        end

        // Section 10.4
        LEAVE: begin
            clear;
            job_left[job] <= own_left | source_bit;
            walk <= {(LEASE + 1){1'b0}};
            if (own_state != TOMBSTONE && p_status != 8'd0 && !source_left)
                abort(p_status, p_node_bitmap == 64'd0 ? source_bit : p_node_bitmap,
                    p_node_bitmap == 64'd0 ? 16'd0 : p_seg,
                    p_status == `FANIN_STATUS_PEER_LOST ? p_rank_bitmap : 64'd0);
            else if ((own_mask & ~own_left & ~source_bit) == 64'd0) state <= ENDED;
            else if (own_state == ACTIVE) state <= LEAVE_WALK;
            else state <= RELEASE;
        end
        // An open position that needs the one that leaves
        LEAVE_WALK: state <= {{(31 - LEASE){1'b0}}, walk} == own_slots ? RELEASE : LEAVE_LOOK;
        LEAVE_LOOK: begin
            walk <= walk + 1'b1;
            if (!s_final && |(s_missing & source_bit)) abort(`FANIN_STATUS_ABORTED, source_bit, 16'd0, 64'd0);
            else state <= LEAVE_WALK;
        end
        // A LEAVE of an unknown job is remembered: 5-10
        REMEMBER: begin
            if (has_entry) begin
                job_state[entry] <= REMEMBERED;
                job_jid[entry] <= p_jid;
                job_key[entry] <= p_key;
                job_refused[entry] <= 33'd0;
                job_status[entry] <= known(p_status);
                job_bits[entry] <= p_node_bitmap;
                job_above[entry] <= p_seg;
                job_lost[entry] <= p_status == `FANIN_STATUS_PEER_LOST ? p_rank_bitmap : 64'd0;
                job_joined[entry] <= 64'd0;
                job_left[entry] <= 64'd0;
                job_mask[entry] <= 64'd0;
                job_heard[entry] <= lived_us;
            end
            state <= RELEASE;
        end

        // Section 10.1: the body, and the entries of the path two by two
        CONFIG: if (accumulator_is_idle) begin
            beat <= 3'd1;
            config_is_counted <= 1'b0;
            state <= CONFIG_BODY;
        end
        CONFIG_BODY: begin
            beat <= 3'd2;
            hop <= 4'd0;
            config_held <= config_wire[191:0];
            config_boot <= config_wire[511 - `FANIN_CONFIG_BOOT_ID_OFFSET -: 64];
            config_digest <= config_wire[511 - `FANIN_CONFIG_DIGEST_HIGH_OFFSET -: 128];
            config_slots <= body_slots;
            config_window <= config_wire[511 - `FANIN_CONFIG_WINDOW_OFFSET -: 32];
            config_chunk <= config_wire[511 - `FANIN_CONFIG_CHUNK_OFFSET -: 32];
            config_hops <= body_hops;
            config_lane <= config_wire[511 - `FANIN_CONFIG_LAST_LANE_OFFSET -: 8];
            config_flags <= config_wire[511 - `FANIN_CONFIG_FLAGS_OFFSET -: 8];
            config_route <= body_route;
            config_is_wrong <= (body_route != TREE && body_route != RING_ROUTE)
                || body_slots < 32'd2 || (body_slots & (body_slots - 32'd1)) != 32'd0
                || config_wire[511 - `FANIN_CONFIG_WINDOW_OFFSET -: 32] == 32'd0
                || config_wire[511 - `FANIN_CONFIG_CHUNK_OFFSET -: 32] == 32'd0
                || config_wire[511 - `FANIN_CONFIG_FLAGS_OFFSET -: 8] > 8'd7;
            if (body_hops == 8'd0 || body_hops > 8'd8 || p_length < body_bytes) drop(`DROP_CONFIG);
            else state <= CONFIG_HOPS;
        end
        CONFIG_HOPS: begin
            beat <= beat + 3'd1;
            hop <= hop + 4'd2;
            config_held <= config_wire[191:0];
            if (hop == 4'd0) config_mask <= even_hop[127:64];
            config_is_wrong <= config_is_wrong || even_is_wrong || (hop == 4'd0 && own_hop_is_wrong)
                || ({4'd0, hop} + 8'd1 < config_hops && odd_is_wrong);
            if ({4'd0, hop} + 8'd2 >= config_hops) state <= CONFIG_JOIN;
        end
        CONFIG_JOIN: if (!config_is_counted) config_is_counted <= 1'b1; else begin
            if (config_is_wrong || (!is_known && config_route != TREE)) drop(`DROP_CONFIG);
            else if (!is_known) begin
                if (config_lane != 8'd0) refuse(`FANIN_STATUS_TOO_FEW_LANES);
                else if (config_hops > 8'd1 || has_unsupported_flag) refuse(`FANIN_STATUS_NOT_SUPPORTED);
                else if (config_slots < SMALLEST_LEASE || config_chunk > LARGEST_CHUNK || !has_lease
                    || !has_entry) begin
                    refuse(`FANIN_STATUS_NO_RESOURCES);
                    m_body[31:0] <= has_entry && has_lease && config_chunk <= LARGEST_CHUNK ? big_endian(config_lease)
                        : 32'd0;
                end else begin
                    job <= entry;
                    job_state[entry] <= JOINING;
                    job_jid[entry] <= p_jid;
                    job_key[entry] <= p_key;
                    job_mask[entry] <= config_mask;
                    job_joined[entry] <= 64'd0;
                    job_left[entry] <= 64'd0;
                    job_slots[entry] <= config_lease;
                    job_in_order[entry] <= config_in_order;
                    job_window[entry] <= config_window;
                    job_chunk[entry] <= config_chunk;
                    job_digest[entry] <= config_digest;
                    job_loss[entry] <= 41'd0;
                    job_refused[entry] <= 33'd0;
                    state <= CONFIG_ADD;
                end
            end else if (!key_is_right) begin
                job_refused[job] <= {1'b1, p_key};
                refuse(`FANIN_STATUS_JID_IN_USE);
            end else if ((unjoined == 64'd0 && own_state != REMEMBERED && (own_mask & source_bit) == 64'd0)
                || (source_joined && child_address != p_address)) refuse(`FANIN_STATUS_JID_IN_USE);
            else if (own_state == TOMBSTONE || own_state == REMEMBERED) answer_that_it_ended;
            else begin
                job_heard[job] <= lived_us;
                if (config_digest != job_digest[job] || config_chunk != own_chunk || config_mask != own_mask
                    || config_route != TREE || has_unsupported_flag || config_in_order != in_order
                    || config_lane != 8'd0) begin
                    abort(`FANIN_STATUS_MEMBERS_MISMATCH, source_bit, 16'd0, 64'd0);
                    if (!source_joined) begin // it is told as well
                        answer(`FANIN_OPCODE_ABORT, `FANIN_STATUS_MEMBERS_MISMATCH);
                        m_seg <= 16'd1;
                        m_node_bitmap <= source_bit;
                        after <= ABORT;
                    end
                end else if (source_joined && child_boot != config_boot)
                    abort(`FANIN_STATUS_PEER_LOST, source_bit, 16'd0, {32'd0, p_address});
                else if (!source_joined) state <= CONFIG_ADD;
                else begin
                    m_length <= `FANIN_CONFIG_ACK_BYTES;
                    m_body <= {own_state == ACTIVE ? big_endian(own_window) : 32'd0, big_endian(own_slots)};
                    describe(own_state == ACTIVE);
                    tell(`FANIN_OPCODE_CONFIG_ACK, source_bit, RELEASE);
                end
            end
        end
        CONFIG_ADD: begin
            job_heard[job] <= lived_us;
            job_joined[job] <= joined_then;
            if (config_slots < own_slots) job_slots[job] <= config_slots;
            if (config_window < own_window) job_window[job] <= config_window;
            walk <= {(LEASE + 1){1'b0}};
            m_length <= `FANIN_CONFIG_ACK_BYTES;
            m_body <= {32'd0, big_endian(config_slots < own_slots ? config_slots : own_slots)};
            describe(1'b0);
            if ((own_mask & ~joined_then) == 64'd0) state <= ACTIVATE;
            else tell(`FANIN_OPCODE_CONFIG_ACK, source_bit, RELEASE);
        end
        // Section 10.2: each slot s has served position s - N (6-31).
        ACTIVATE: if (outstanding == 16'd0 && accumulator_is_idle) begin
            walk <= walk + 1'b1;
            if ({{(31 - LEASE){1'b0}}, walk} + 32'd1 == own_slots) begin
                if (own_window > own_slots >> 1) job_window[job] <= own_slots >> 1;
                state <= ACTIVATED;
            end
        end
        ACTIVATED: begin
            job_state[job] <= ACTIVE;
            m_body <= {big_endian(own_window), big_endian(own_slots)};
            describe(1'b1);
            tell(`FANIN_OPCODE_CONFIG_ACK, own_joined, may_invite ? INVITE : RELEASE);
        end
        // The children are told that there is a group, by the group: 7.4-7, 7.4-8
        INVITE: begin
            clear;
            job_invited[job] <= now_us;
            by_group <= 1'b1;
            m_node_bitmap <= own_mask;
            tell(`FANIN_OPCODE_KEEPALIVE, own_mask, back == RELEASE ? RELEASE : SCAN_DUE);
        end

        // Silence and age of each job: 10.5. What would be due before the next scan is sent now.
        SCAN_JOB: begin
            silent <= 64'd0;
            due <= 64'd0;
            todo <= own_state == JOINING || own_state == ACTIVE ? own_joined & ~own_left : 64'd0;
            state <= own_state == FREE ? SCAN_NEXT : SCAN_CHILD;
        end
        SCAN_CHILD: begin
            own_bit <= next;
            state <= todo == 64'd0 ? SCAN_END : SCAN_LOOK;
        end
        SCAN_LOOK: begin
            if (child_age > DETECTION_US) begin
                silent[own_bit] <= 1'b1;
                silent_address <= silent == 64'd0 ? child_address : 32'd0;
            end
            if (now_us - child_sent >= KEEPALIVE_US - SCAN_US) due[own_bit] <= 1'b1;
            todo <= next_rest;
            state <= SCAN_CHILD;
        end
        SCAN_END: begin
            if (is_aged) begin
                back <= SCAN_JOB; // whoever has not left
                state <= ENDED;
            end else if (silent != 64'd0) abort(`FANIN_STATUS_PEER_LOST, silent, 16'd0, {32'd0, silent_address});
            else if (own_state == ACTIVE && may_invite && !was_invited) state <= INVITE;
            else state <= SCAN_DUE;
        end
        SCAN_DUE: begin
            clear;
            if (own_state == ACTIVE && due != 64'd0) tell(`FANIN_OPCODE_KEEPALIVE, due, SCAN_NEXT);
            else state <= SCAN_NEXT;
        end
        SCAN_NEXT: begin
            job <= job + 1'b1;
            clear;
            back <= SCAN_NEXT;
            state <= job == {JOBS{1'b1}} ? IDLE : SCAN_JOB;
        end

        default: state <= IDLE;
    endcase

    if (rst) begin
        state <= IDLE;
        issued <= 16'd0;
        done <= 16'd0;
        nak_is_recent <= 1'b0;
        scan_is_due <= 1'b0;
        dropped <= `DROP_NONE;
        last_scan <= now_us;
        seen_us <= now_us;
        idle_us <= now_us;
        for (k = 0; k < 1 << JOBS; k = k + 1) job_state[k] <= FREE;
        for (k = 0; k < `DROP_REASONS; k = k + 1) counters[k] <= 32'd0;
    end
end

wire unused = &{1'b0, hit_rest, vacant_rest, remembered_rest, hit, first_vacant, first_remembered, is_signed,
    is_small, is_bf16, is_pair, size_log2, beats_of_data};

`ifdef PROPERTIES
`include "slot_properties.vh"
`endif

endmodule

`resetall
