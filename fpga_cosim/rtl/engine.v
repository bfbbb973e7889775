// The switch's decisions, packet by packet: jobs, children, slots (SPEC.md, sections 5 to 8, 10 and 11). Headers come
// in, commands for the accumulator and for packets go out. The switch is the top of its tree.
//
//   dispatch        whose turn it is: a scan, or a packet and the machine that works on it
//   segment         packets about positions, with contribution_rule, slot_rule and group_rule
//   membership      CONFIG (with config_reader) and LEAVE
//   job_end         a job becomes a tombstone, and is freed
//   scan            what happens because time passes
//   command_writer  the packets that all of these send
//   job_table, child_table, slot_table  what is known of jobs, children and slots
//
// One machine works at a time (engine_states.vh). What a machine asks of command_writer, job_end and the tables is 0
// when it does not work, so requests are joined by OR.
//
// A job has one entry of 2**JOBS, with its own lease of 2**LEASE slots and 2**CHUNK beats in a slot. The records of its
// children and slots lie in block RAM. A contribution that does not complete its position takes 2 clocks, one that does
// 7, and 2 for each child; a mean also waits for the reciprocal of its divisor. In a reproducible job pending data are
// stored. Where data wait, a contribution takes 3 clocks more, and 2 for each data that are recalled. Data follow while
// the next headers are looked at: a command for a result goes out before its data are there, and the queue behind it
// holds it back (switch_core.v). Membership takes some 10 to 100 clocks. Time is `now_us`, microseconds from any
// beginning.
//
// Record 0106 (docs/decisions) says why packets are decided upon one by one.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"
`include "engine_states.vh"

module engine #(
    parameter JOBS = 4,  // 2**JOBS jobs
    parameter LEASE = 5, // of 2**LEASE slots
    parameter CHUNK = 4, // of 2**CHUNK beats
    parameter RING = 7,  // 2**RING beats of payloads wait at most
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
    // dropped packets: one counter of 32 bits for each reason
    output wire [32*`DROP_REASONS-1:0] drops,
    output wire          is_idle
);

localparam RECORD = 32 + 1 + 1 + 64 + 64 + 8 + 32 + 1 + 8 + 8 + 2 + 32 + 32 + 16 + 40 + 16 + 1; // segment.v
localparam [7:0] LAST_STATUS = `FANIN_STATUS_PATH_MTU;

// ---- The packet: its status as this device knows it (11-6), and its sender

wire [7:0]  status = p_status > LAST_STATUS ? `FANIN_STATUS_ABORTED : p_status;
wire [63:0] source_bit = 64'd1 << p_source[5:0], below_source = ~(~64'd0 << p_source[5:0]);

// ---- Whose turn it is

wire [2:0]  turn;
wire        turn_is_idle, is_heard, is_positional, joins, leaves, remembers, packet_aborts;
wire        scan_is_due, scans, scan_is_done;
wire        segment_waits, segment_goes_on, segment_works, segment_is_done, segment_gives, gives_back;
wire        membership_drops, membership_is_done, end_is_done, is_written, is_walked;
wire [4:0]  drop, segment_drop;
wire [7:0]  answer_opcode, segment_opcode, membership_opcode, end_opcode, scan_opcode;
wire [7:0]  turn_refusal, membership_refusal;
wire [7:0]  packet_end_status, segment_end_status, membership_end_status;
wire [63:0] packet_end_bits, segment_end_bits, membership_end_bits, scan_end_bits;
wire [15:0] packet_end_above, membership_end_above;
wire [63:0] packet_end_lost, membership_end_lost, scan_end_lost;

// the job
wire [JOBS-1:0] job, at_job;
wire        found, has_entry, key_is_right, in_order, is_aged, was_invited, had_loss;
wire [2:0]  own_state;
wire [31:0] own_jid, own_key, own_slots, own_window, own_chunk;
wire [63:0] own_mask, own_joined, own_left, own_bits, own_lost;
wire [127:0] own_digest;
wire [7:0]  own_status;
wire [15:0] own_above;
wire        is_active = own_state == `JOB_ACTIVE;
wire        segment_aborts, segment_loses, membership_aborts, membership_ends, membership_empties;
wire        scan_aborts, scan_ages, scan_is_aged, to_next, scan_invites, buries, frees;
wire        forms, adds_child, halves, activates, membership_invites, refuses_key, departs, remembers_end, job_is_heard;

// the child
wire        source_joined = |(own_joined & source_bit);
wire [47:0] child_mac;
wire [31:0] child_address;
wire [63:0] child_boot, todo;
wire [5:0]  child_buffer, own_buffer, own_bit;
wire [39:0] lived_us, silence, since_sent;
wire        is_last, child_is_heard, child_is_sent;
wire        segment_loads, segment_looks, segment_uses_own, segment_skips, membership_loads;
wire        scan_loads, scan_looks, scan_skips;
wire        writer_looks, writer_uses_own, writer_skips, writer_ends;
wire [63:0] segment_bits, membership_bits, end_told, scan_bits;
assign is_walked = todo == 64'd0;

// the slot
wire [RECORD-1:0] record, s_record;
wire        s_final, slot_write, turns_write, walks, opens;
wire [63:0] s_missing;
wire [64:0] turns_then, s_turns;
wire [LEASE-1:0] walk;

// the position that is worked on
wire [63:0] missing, wants;
wire        hears, has_data, may_invite, result_to_group;
wire [7:0]  slot_status, op, dtype;
wire [1:0]  contributor_class;
wire [31:0] contributions, mid, sid, oldest_us;
wire [15:0] length, issued, done;
wire [5:0]  oldest;
wire        segment_accumulates, segment_to_group, membership_to_group, scan_to_group, membership_answers;

// a CONFIG
wire        config_fails, config_is_read, config_is_wrong, config_in_order;
wire [63:0] config_boot, config_mask;
wire [127:0] config_digest;
wire [31:0] config_slots, config_window, config_chunk, config_lease, offered_slots;
wire [7:0]  config_hops, config_lane, config_flags, config_route;

// machines
wire [3:0]  segment_state, membership_state, scan_state;
wire [1:0]  writer_state, end_state;
wire        scan_is_quiet;

dispatch #(.NAK_US(NAK_US)) dispatch_inst (
    .clk(clk), .rst(rst), .now_us(now_us), .state(turn), .header_valid(header_valid), .header_pop(header_pop),
    .has_payload(header_beats != {(RING + 1){1'b0}}), .p_drop(p_drop), .p_opcode(p_opcode), .p_version(p_version),
    .p_status(status), .p_address(p_address), .p_seg(p_seg), .p_node_bitmap(p_node_bitmap),
    .p_rank_bitmap(p_rank_bitmap), .found(found), .job_state(own_state), .key_is_right(key_is_right), .mask(own_mask),
    .joined(own_joined), .left(own_left), .source_bit(source_bit), .child_address(child_address),
    .is_idle(turn_is_idle), .is_heard(is_heard), .is_positional(is_positional), .joins(joins), .leaves(leaves),
    .remembers(remembers), .aborts(packet_aborts), .end_status(packet_end_status), .end_bits(packet_end_bits),
    .end_above(packet_end_above), .end_lost(packet_end_lost), .scan_is_due(scan_is_due), .scans(scans),
    .scan_is_done(scan_is_done),
    .others_are_done(segment_is_done || membership_is_done || membership_drops || end_is_done), .drop(drop),
    .membership_drops(membership_drops), .segment_drop(segment_drop), .segment_waits(segment_waits),
    .segment_goes_on(segment_goes_on), .segment_works(segment_works), .segment_gives(segment_gives),
    .accumulator_ready(accumulator_ready), .gives_back(gives_back), .opcode(answer_opcode), .refusal(turn_refusal),
    .is_written(is_written)
);
drop_counters drop_counters_inst (.clk(clk), .rst(rst), .drop(drop), .drops(drops));
assign is_idle = turn_is_idle && !header_valid && scan_is_quiet;

// ---- The machines

segment #(
    .JOBS(JOBS), .LEASE(LEASE), .RING(RING), .RECORD(RECORD), .REPRODUCIBLE(REPRODUCIBLE), .JUST_SENT_US(JUST_SENT_US)
) segment_inst (
    .clk(clk), .rst(rst), .now_us(now_us), .is_positional(is_positional), .source_bit(source_bit),
    .below_source(below_source), .p_opcode(p_opcode), .p_op(p_op), .p_dtype(p_dtype), .p_flags(p_flags),
    .p_position(p_position), .p_mid(p_mid), .p_sid(p_sid), .p_seg(p_seg), .p_length(p_length), .p_status(status),
    .p_contributions(p_contributions), .child_buffer(child_buffer), .drop(segment_drop), .waits(segment_waits),
    .goes_on(segment_goes_on), .works(segment_works), .is_done(segment_is_done), .gives(segment_gives),
    .state(segment_state), .job(job), .is_active(is_active), .in_order(in_order), .mask(own_mask), .joined(own_joined),
    .left(own_left), .slots(own_slots), .chunk(own_chunk), .had_loss(had_loss), .loses(segment_loses),
    .aborts(segment_aborts), .end_status(segment_end_status), .end_bits(segment_end_bits), .s_record(s_record),
    .s_turns(s_turns), .writes(slot_write), .record(record), .writes_turns(turns_write), .turns(turns_then),
    .s_final(s_final), .s_missing(s_missing), .loads(segment_loads), .bits(segment_bits), .looks(segment_looks),
    .uses_own(segment_uses_own),
    .skips(segment_skips), .todo(todo), .own_bit(own_bit), .is_last(is_last), .silence(silence),
    .accumulator_ready(accumulator_ready), .divisor_ready(divisor_ready), .accumulate(segment_accumulates),
    .adds(adds), .stores(stores), .recalls(recalls), .divides(divides), .divisor_valid(divisor_valid),
    .divisor(divisor), .divisor_is_float(divisor_is_float), .compute_slot(compute_slot),
    .compute_buffer(compute_buffer), .compute_op(compute_op), .compute_beats(compute_beats), .issued(issued),
    .done(done), .result_to_group(result_to_group), .is_written(is_written), .opcode(segment_opcode),
    .to_group(segment_to_group), .missing(missing), .wants(wants), .hears(hears), .has_data(has_data),
    .status(slot_status), .contributions(contributions), .op(op), .dtype(dtype), .contributor_class(contributor_class),
    .mid(mid), .sid(sid), .length(length), .oldest(oldest), .oldest_us(oldest_us)
);
assign accumulate = segment_accumulates || gives_back;
assign computes = !gives_back;

group_rule group_rule_inst (
    .clk(clk), .group_address(group_address), .group_size(group_size), .mask(own_mask), .wants(wants), .hears(hears),
    .has_data(has_data), .status(slot_status), .may_invite(may_invite), .result_to_group(result_to_group)
);

config_reader config_reader_inst (
    .clk(clk), .rst(rst), .starts(joins), .ring_is_free(accumulator_is_idle), .reads(reads_config), .beat(config_beat),
    .ring_data(ring_data), .own_address(own_address), .length(p_length), .source(p_source), .fails(config_fails),
    .is_done(config_is_read), .is_wrong(config_is_wrong), .boot(config_boot), .digest(config_digest),
    .slots(config_slots), .window(config_window), .chunk(config_chunk), .mask(config_mask), .hops(config_hops),
    .lane(config_lane), .flags(config_flags), .route(config_route)
);

membership #(.LEASE(LEASE), .CHUNK(CHUNK), .REPRODUCIBLE(REPRODUCIBLE)) membership_inst (
    .clk(clk), .rst(rst), .joins(joins), .leaves(leaves), .remembers(remembers), .drops(membership_drops),
    .is_done(membership_is_done), .state(membership_state), .p_address(p_address), .p_seg(p_seg), .p_status(status),
    .p_node_bitmap(p_node_bitmap), .p_rank_bitmap(p_rank_bitmap), .source_bit(source_bit),
    .below_source(below_source), .config_fails(config_fails), .config_is_read(config_is_read),
    .config_is_wrong(config_is_wrong), .config_boot(config_boot), .config_digest(config_digest),
    .config_slots(config_slots), .config_chunk(config_chunk), .config_mask(config_mask), .config_hops(config_hops),
    .config_lane(config_lane), .config_flags(config_flags), .config_route(config_route),
    .config_in_order(config_in_order), .config_lease(config_lease), .found(found), .has_entry(has_entry),
    .key_is_right(key_is_right), .job_state(own_state), .mask(own_mask), .joined(own_joined), .left(own_left),
    .slots(own_slots), .chunk(own_chunk), .digest(own_digest), .in_order(in_order), .forms(forms), .adds(adds_child),
    .halves(halves), .activates(activates), .invites(membership_invites), .refuses_key(refuses_key), .departs(departs),
    .remembers_end(remembers_end), .child_address(child_address), .child_boot(child_boot), .is_heard(child_is_heard),
    .job_is_heard(job_is_heard), .buffer(own_buffer), .s_final(s_final), .s_missing(s_missing),
    .nothing_is_sent(issued == done), .accumulator_is_idle(accumulator_is_idle), .walks(walks), .opens(opens),
    .walk(walk), .aborts(membership_aborts), .ends(membership_ends), .empties(membership_empties),
    .end_status(membership_end_status), .end_bits(membership_end_bits), .end_above(membership_end_above),
    .end_lost(membership_end_lost), .may_invite(may_invite), .is_written(is_written), .answers(membership_answers),
    .opcode(membership_opcode), .refusal(membership_refusal), .offered_slots(offered_slots),
    .to_group(membership_to_group), .loads(membership_loads), .bits(membership_bits)
);

job_end job_end_inst (
    .clk(clk), .rst(rst), .aborts(packet_aborts || segment_aborts || membership_ends || scan_aborts),
    .empties(membership_empties || scan_ages), .is_aged(scan_is_aged), .mask(own_mask), .joined(own_joined),
    .left(own_left), .buries(buries), .frees(frees), .is_done(end_is_done), .state(end_state), .opcode(end_opcode),
    .bits(end_told), .is_written(is_written)
);

scan #(
    .JOBS(JOBS), .DETECTION_US(DETECTION_US), .KEEPALIVE_US(KEEPALIVE_US), .SCAN_US(SCAN_US)
) scan_inst (
    .clk(clk), .rst(rst), .now_us(now_us), .engine_is_idle(turn_is_idle), .lived_us(lived_us), .is_quiet(scan_is_quiet),
    .is_due(scan_is_due), .starts(scans), .is_done(scan_is_done), .state(scan_state), .job(job), .job_state(own_state),
    .joined(own_joined), .left(own_left), .job_is_aged(is_aged), .was_invited(was_invited), .may_invite(may_invite),
    .to_next(to_next), .invites(scan_invites), .ages(scan_ages), .is_aged(scan_is_aged), .aborts(scan_aborts),
    .end_bits(scan_end_bits), .end_lost(scan_end_lost), .job_has_ended(end_is_done), .loads(scan_loads),
    .bits(scan_bits), .looks(scan_looks), .skips(scan_skips), .is_walked(is_walked), .own_bit(own_bit),
    .child_address(child_address), .silence(silence), .since_sent(since_sent), .opcode(scan_opcode),
    .to_group(scan_to_group), .mask(own_mask), .is_written(is_written)
);

command_writer #(.JOBS(JOBS), .LEASE(LEASE), .CHUNK(CHUNK)) command_writer_inst (
    .clk(clk), .rst(rst), .answers(answer_opcode != 8'd0 || membership_answers),
    .opcode(answer_opcode | segment_opcode | membership_opcode | end_opcode | scan_opcode),
    .to_group(segment_to_group || membership_to_group || scan_to_group), .refusal(turn_refusal | membership_refusal),
    .is_written(is_written), .state(writer_state), .is_walked(is_walked), .own_bit(own_bit), .looks(writer_looks),
    .uses_own(writer_uses_own), .skips(writer_skips), .ends(writer_ends), .is_sent(child_is_sent), .p_mac(p_mac),
    .p_address(p_address), .p_opcode(p_opcode), .p_jid(p_jid), .p_key(p_key), .p_position(p_position), .p_mid(p_mid),
    .p_sid(p_sid), .p_seg(p_seg), .p_source(p_source), .p_token(p_token), .child_mac(child_mac),
    .child_address(child_address), .child_token(child_boot[31:0]), .group_address(group_address), .job(job),
    .is_active(is_active), .jid(own_jid), .key(own_key), .mask(own_mask), .joined(own_joined), .slots(own_slots),
    .window(own_window), .offered_slots(offered_slots), .end_status(own_status), .end_bits(own_bits),
    .end_above(own_above), .end_lost(own_lost), .missing(missing), .wants(wants), .has_data(has_data),
    .status(slot_status), .contributions(contributions), .op(op), .dtype(dtype), .contributor_class(contributor_class),
    .mid(mid), .sid(sid), .length(length), .oldest(oldest), .oldest_us(oldest_us), .is_full(command_is_full),
    .slot_done(slot_done), .push(command_push), .issued(issued), .done(done), .c_mac(c_mac), .c_address(c_address),
    .c_opcode(c_opcode), .c_op(c_op), .c_dtype(c_dtype), .c_flags(c_flags), .c_jid(c_jid), .c_key(c_key),
    .c_position(c_position), .c_mid(c_mid), .c_sid(c_sid), .c_seg(c_seg), .c_length(c_length), .c_status(c_status),
    .c_source(c_source), .c_contributions(c_contributions), .c_token(c_token), .c_node_bitmap(c_node_bitmap),
    .c_rank_bitmap(c_rank_bitmap), .c_from_slot(c_from_slot), .c_slot_beat(c_slot_beat), .c_body(c_body)
);

// ---- The tables

job_table #(
    .JOBS(JOBS), .REPRODUCIBLE(REPRODUCIBLE), .DETECTION_US(DETECTION_US), .KEEPALIVE_US(KEEPALIVE_US),
    .AGEING_US(AGEING_US), .SCAN_US(SCAN_US)
) job_table_inst (
    .clk(clk), .rst(rst), .now_us(now_us), .lived_us(lived_us), .jid(p_jid), .key(p_key), .source_bit(source_bit),
    .looks_up(turn_is_idle), .to_first(scans), .to_next(to_next), .at_job(at_job), .job(job), .found(found),
    .has_entry(has_entry), .state(own_state), .own_jid(own_jid), .own_key(own_key), .key_is_right(key_is_right),
    .mask(own_mask), .joined(own_joined), .left(own_left), .slots(own_slots), .window(own_window), .chunk(own_chunk),
    .digest(own_digest), .in_order(in_order), .status(own_status), .bits(own_bits), .above(own_above),
    .lost(own_lost), .is_aged(is_aged), .was_invited(was_invited), .had_loss(had_loss), .forms(forms),
    .config_mask(config_mask), .config_lease(config_lease), .config_slots(config_slots),
    .config_window(config_window), .config_chunk(config_chunk), .config_digest(config_digest),
    .config_in_order(config_in_order), .joins(adds_child), .leaves(departs), .is_heard(is_heard || job_is_heard),
    .halves(halves), .activates(activates), .refuses(refuses_key), .loses(segment_loses),
    .invites(membership_invites || scan_invites),
    .aborts(packet_aborts || segment_aborts || membership_aborts || scan_aborts),
    .end_status(packet_end_status | segment_end_status | membership_end_status
        | (scan_aborts ? `FANIN_STATUS_PEER_LOST : 8'd0)),
    .end_bits(packet_end_bits | segment_end_bits | membership_end_bits | scan_end_bits),
    .end_above(packet_end_above | membership_end_above),
    .end_lost(packet_end_lost | membership_end_lost | scan_end_lost), .remembers(remembers_end), .buries(buries),
    .frees(frees)
);

child_table #(.JOBS(JOBS)) child_table_inst (
    .clk(clk), .now_us(now_us), .lived_us(lived_us), .job(at_job), .source(p_source[5:0]),
    .loads(segment_loads || membership_loads || buries || scan_loads),
    .bits(segment_bits | membership_bits | end_told | scan_bits), .looks(segment_looks || writer_looks || scan_looks),
    .uses_own(segment_uses_own || writer_uses_own), .skips(segment_skips || writer_skips || scan_skips),
    .ends(writer_ends), .todo(todo), .own_bit(own_bit), .is_last(is_last), .joins(adds_child), .mac(p_mac),
    .address(p_address), .boot(config_boot), .buffer(own_buffer),
    .is_heard((is_heard && source_joined) || child_is_heard), .is_sent(child_is_sent), .child_mac(child_mac),
    .child_address(child_address), .child_boot(child_boot), .child_buffer(child_buffer), .silence(silence),
    .since_sent(since_sent)
);

slot_table #(
    .JOBS(JOBS), .LEASE(LEASE), .RECORD(RECORD), .REPRODUCIBLE(REPRODUCIBLE)
) slot_table_inst (
    .clk(clk), .job(at_job), .slots(own_slots), .slot(p_seg[LEASE-1:0]), .walks(walks), .walk(walk), .opens(opens),
    .writes(slot_write), .record(record), .writes_turns(turns_write), .turns(turns_then), .s_record(s_record),
    .s_turns(s_turns)
);

`ifdef PROPERTIES
`include "slot_properties.vh"
`endif

wire unused = &{1'b0, turn, segment_state, membership_state, scan_state, writer_state, end_state};

endmodule

`resetall
