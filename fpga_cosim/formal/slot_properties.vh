// Properties of one slot of job 0, for all packets in all orders; engine.v includes this file where PROPERTIES is defined.
// They hold a record of their own of the slot (`f_*`), made of what the engine writes, adds and sends.
//
// `f_broken` has a bit for each rule that does not hold in this clock, `f_breached` for each rule that those around the
// engine do not keep. The simulation looks at both (tb/engine/test_slot_properties.py). The solver (`make formal`) chooses
// slot and packets: it assumes that nothing is breached, and shows that nothing is broken.
//
// Record 0106 (docs/decisions) says why by induction.

localparam RULES = 12, CONTRACTS = 3;
localparam MAX_UNSENT = 16'd32; // commands that read a slot: in the queue, and with the sender

`ifdef FORMAL
(* anyconst *) wire [LEASE-1:0] f_slot;
`else
localparam [LEASE-1:0] f_slot = {LEASE{1'b0}};
`endif

// ---- The record

reg [31:0] f_position;
reg [63:0] f_bits, f_wants; // children whose contributions are in; all of them in a slot that has served no position
reg        f_fresh, f_has_data;
reg [63:0] f_pending; // children whose data wait for their turn,
reg        f_has_sum; // and whether there is a sum of others
reg [15:0] f_unsent; // commands that read a slot and are not done,
reg [15:0] f_ahead;  // those of them up to the last one that reads this slot

// What the packet brings and wants, and the record that was read (segment.v)
wire f_brings = |(p_flags & `FANIN_FLAG_HAS_DATA) && status == 8'd0;
wire f_wants_it = |(p_flags & `FANIN_FLAG_WANTS_RESULT);
wire [31:0] r_position, r_contributions, r_mid, r_sid;
wire        r_final, r_fresh, r_has_data, r_hears;
wire [63:0] r_missing, r_wants;
wire [7:0]  r_status, r_op, r_dtype;
wire [1:0]  r_class;
wire [15:0] r_length, r_ticket;
wire [39:0] r_finished;
assign {r_hears, r_ticket, r_finished, r_length, r_sid, r_mid, r_class, r_dtype, r_op, r_has_data, r_contributions, r_status,
    r_wants, r_missing, r_fresh, r_final, r_position} = s_record;

wire f_own = job == {JOBS{1'b0}};
wire f_exists = {{(32 - LEASE){1'b0}}, f_slot} < own_slots;
wire f_meets = turn == `TURN_DECIDE && f_own && is_active && f_exists && p_seg[LEASE-1:0] == f_slot;
wire f_opens = opens && f_own && walk == f_slot;
wire f_takes = slot_write && segment_state != `SEGMENT_SAVE && f_own && p_seg[LEASE-1:0] == f_slot;
wire f_works_on = accumulate && computes && accumulator_ready && compute_slot == {{JOBS{1'b0}}, f_slot};
wire f_stores = f_works_on && adds && stores;
wire f_recalls = f_works_on && recalls;
wire f_adds = f_works_on && !f_stores && !f_recalls;
wire f_result = command_push && c_opcode == `FANIN_OPCODE_RESULT && f_own && c_seg == {{(16 - LEASE){1'b0}}, f_slot};
wire f_reads = command_push && c_from_slot && c_slot_beat == {{JOBS{1'b0}}, f_slot, {CHUNK{1'b0}}};

wire f_is_next = p_position != f_position || f_fresh;
wire f_is_final = f_bits == own_mask;
wire [15:0] f_unsent_then = f_unsent + {15'd0, command_push && c_from_slot} - {15'd0, slot_done};

always @(posedge clk) begin
    if (f_opens) begin
        f_position <= {{(32 - LEASE){1'b0}}, f_slot} - own_slots;
        f_bits <= own_mask;
        f_wants <= 64'd0;
        f_fresh <= 1'b1;
        f_has_data <= 1'b0;
        f_pending <= 64'd0;
        f_has_sum <= 1'b0;
    end else if (f_takes) begin
        f_position <= p_position;
        f_bits <= (f_is_next ? 64'd0 : f_bits) | source_bit;
        f_wants <= (f_is_next ? 64'd0 : f_wants) | (f_wants_it ? source_bit : 64'd0);
        f_fresh <= 1'b0;
        f_has_data <= (!f_is_next && f_has_data) || f_brings;
        f_pending <= (f_is_next ? 64'd0 : f_pending) | (f_stores ? source_bit : 64'd0);
        f_has_sum <= (!f_is_next && f_has_sum) || (f_brings && !stores);
    end else if (f_recalls) begin
        f_pending <= f_pending & ~(64'd1 << own_bit);
        f_has_sum <= 1'b1;
    end
    f_unsent <= f_unsent_then;
    if (f_reads) f_ahead <= f_unsent_then;
    else if (slot_done && f_ahead != 16'd0) f_ahead <= f_ahead - 16'd1;
    if (rst) begin
        f_unsent <= 16'd0;
        f_ahead <= 16'd0;
    end
end

// ---- What those around the engine keep

localparam HEADER = RING + 1 + 5 + 48 + 32 * 8 + 8 * 7 + 16 * 2 + 64 * 2;
wire [HEADER-1:0] f_header = {header_beats, p_drop, p_mac, p_address, p_jid, p_key, p_position, p_mid, p_sid,
    p_contributions, p_token, p_opcode, p_version, p_op, p_dtype, p_flags, p_status, p_source, p_seg, p_length,
    p_node_bitmap, p_rank_bitmap};
reg [HEADER-1:0] f_header_before;
reg              f_waits;
always @(posedge clk) begin
    f_header_before <= f_header;
    f_waits <= header_valid && !header_pop && !rst;
end
wire [CONTRACTS-1:0] f_breached = {
    f_waits && !(header_valid && f_header == f_header_before), // a header stays until it is taken
    slot_done && f_unsent == 16'd0,                            // only a command that was given is done
    f_unsent > MAX_UNSENT                                     // few wait
};

// ---- The rules

wire [15:0] f_ticket = r_ticket - done; // how many commands must be done before the slot may take its next position
wire f_record_is_right = r_position == f_position && r_fresh == f_fresh && r_final == f_is_final
    && r_missing == (own_mask & ~f_bits) && r_wants == f_wants
    && r_has_data == f_has_data && s_turns == {f_has_sum, f_pending} && !(f_fresh && f_ahead != 16'd0)
    && (f_ahead == 16'd0 || (f_ticket >= f_ahead && f_ticket <= f_unsent))
    && (f_position & (own_slots - 32'd1)) == {{(32 - LEASE){1'b0}}, f_slot};

// No result before all are in, and it is that of the position (7.1-13),
wire f_is_premature = f_result && !(f_is_final && !f_fresh && c_position == f_position);
// with data only of those who brought some.
wire f_is_empty = f_reads && !(f_result && f_has_data);
// A slot is overwritten only when it is FINAL, by its next position (6-36, 6-37),
wire f_is_overwritten = (f_takes || f_adds) && f_is_next && !(f_is_final && p_position == f_position + own_slots);
// with the data of that alone, and when those of the position before have been sent.
wire f_is_mixed = (f_takes || f_adds) && f_is_next
    && !(f_ahead == 16'd0 && (!f_adds || compute_op == `FANIN_OP_NONE));
// A duplicate adds nothing (7.1-2), nor does a stranger,
wire f_is_repeated = (f_takes || f_adds) && !f_is_next && |(source_bit & (f_bits | ~own_mask));
// and nothing is added that is not recorded.
wire f_is_unrecorded = (f_adds || f_stores) && !(f_takes && is_active);
// What a child brings is added or stored.
wire f_is_missed = f_takes && f_brings && p_length != 16'd0 && !(f_adds || f_stores);
// Data are added to data, and copied where there are none.
wire f_is_lost = (f_recalls || (f_adds && !f_is_next)) && compute_op != (f_has_sum ? p_op : `FANIN_OP_NONE);
// In a job in the order of the bits data are added when no child with a lower bit is missing or waits (12-6),
wire [63:0] f_before = f_is_next ? own_mask : (own_mask & ~f_bits) | f_pending;
wire [63:0] f_recalled_bit = 64'd1 << own_bit;
wire f_is_disordered = in_order && (
    (f_adds && adds && p_flags[`FANIN_CLASS_SHIFT +: 2] == `FANIN_CLASS_ALL && |(f_before & (source_bit - 64'd1)))
    || (f_recalls && |((f_before & (f_recalled_bit - 64'd1)) | (f_recalled_bit & ~f_pending))));
// and a result has the data of all.
wire f_is_partial = f_result && f_pending != 64'd0;
// What a packet finds recorded of the slot is what has happened to it: a duplicate leaves all as it was.
wire f_is_changed = f_meets && !f_record_is_right;
// A job begins with slots that have served no position, and have no reader.
wire f_is_used = activates && f_own && f_exists && !(f_fresh && f_ahead == 16'd0);

wire [RULES-1:0] f_broken = {f_is_premature, f_is_empty, f_is_overwritten, f_is_mixed, f_is_repeated, f_is_unrecorded,
    f_is_missed, f_is_lost, f_is_disordered, f_is_partial, f_is_changed, f_is_used};

`ifndef FORMAL

reg [RULES-1:0]     f_was_broken; // since the reset
reg [CONTRACTS-1:0] f_was_breached;
always @(posedge clk) begin
    f_was_broken <= rst ? {RULES{1'b0}} : f_was_broken | f_broken;
    f_was_breached <= rst ? {CONTRACTS{1'b0}} : f_was_breached | f_breached;
end
wire f_unused = &{1'b0, f_was_broken, f_was_breached, r_contributions, r_mid, r_sid, r_status, r_op, r_dtype, r_class,
    r_length, r_finished, r_hears};

`else

// ---- The memory of slots: what is read of this slot is what was written last; what is read of others may be anything.

reg              f_is_read;
reg [RECORD-1:0] f_kept, f_given;
reg [64:0]       f_kept_turns, f_given_turns;
wire f_is_place = {job, p_seg[LEASE-1:0]} == {{JOBS{1'b0}}, f_slot}; // no slot is opened or walked through
always @(posedge clk) begin
    f_is_read <= f_is_place;
    f_given <= f_kept;
    if (slot_write && f_is_place) f_kept <= record;
    f_given_turns <= f_kept_turns;
    if (turns_write && f_is_place) f_kept_turns <= turns_then;
end
always @* if (f_is_read) assume (s_turns == f_given_turns);
always @* if (f_is_read) assume (s_record == f_given);

// ---- What holds between the clocks of a packet's turn, so that a proof needs to look at few clocks: it is by induction.

wire [31:0] k_position, k_contributions, k_mid, k_sid;
wire        k_final, k_fresh, k_has_data, k_hears;
wire [63:0] k_missing, k_wants;
wire [7:0]  k_status, k_op, k_dtype;
wire [1:0]  k_class;
wire [15:0] k_length, k_ticket, f_kept_ahead = k_ticket - done;
wire [39:0] k_finished;
assign {k_hears, k_ticket, k_finished, k_length, k_sid, k_mid, k_class, k_dtype, k_op, k_has_data, k_contributions, k_status,
    k_wants, k_missing, k_fresh, k_final, k_position} = f_kept;
wire f_kept_is_right = k_position == f_position && k_fresh == f_fresh && k_final == f_is_final
    && k_missing == (own_mask & ~f_bits) && k_wants == f_wants && k_has_data == f_has_data
    && (f_ahead == 16'd0 || (f_kept_ahead >= f_ahead && f_kept_ahead <= f_unsent));

// One machine works at a time, and the others wait for it as engine_states.vh says.
wire f_tells = writer_state == `WRITE_EACH || writer_state == `WRITE_PUSH;
wire f_folds = segment_state == `SEGMENT_FOLD || segment_state == `SEGMENT_FOLD_NEXT;
wire f_has_ended = end_state == `END_TELL || end_state == `END_FREE;
wire f_is_outside = membership_state != `MEMBER_IDLE || scan_state != `SCAN_IDLE || turn == `TURN_SCAN;
wire f_one_works = !f_is_outside && turn <= `TURN_RELEASE && segment_state <= `SEGMENT_SAVE
    && (turn == `TURN_BUSY) == (segment_state != `SEGMENT_IDLE || end_state != `END_IDLE)
    && (segment_state == `SEGMENT_IDLE || end_state == `END_IDLE)
    && (turn == `TURN_ANSWER) == (writer_state == `WRITE_ANSWER)
    && f_tells == (segment_state == `SEGMENT_TELL || segment_state == `SEGMENT_RESULT || end_state == `END_TELL)
    && (writer_state == `WRITE_IDLE || (c_opcode == `FANIN_OPCODE_RESULT) == (segment_state == `SEGMENT_RESULT));

wire f_finishes = segment_state == `SEGMENT_COUNT || segment_state == `SEGMENT_COMPLETE
    || segment_state == `SEGMENT_RESULT || segment_state == `SEGMENT_SAVE || (f_folds && missing == 64'd0);
wire f_looks = f_finishes || segment_state == `SEGMENT_RESEND;
wire f_works = f_looks && p_seg[LEASE-1:0] == f_slot;
wire f_works_right = p_position == f_position && missing == 64'd0 && wants == f_wants && has_data == f_has_data
    && f_is_final && !f_fresh && (f_folds || f_pending == 64'd0);
wire [63:0] f_own_bit = 64'd1 << own_bit;
wire f_folds_right = p_position == f_position && missing == (own_mask & ~f_bits) && !f_fresh
    && turns_then == {f_has_sum, f_pending} && todo == (f_pending | missing)
    && (segment_state == `SEGMENT_FOLD || todo == 64'd0
        || (|(todo & f_own_bit) && (todo & (f_own_bit - 64'd1)) == 64'd0));
wire [63:0] f_missing = own_mask & ~f_bits, f_due = ~f_missing & (f_missing - 64'd1); // all before the first missing
wire f_steps = own_slots == 32'd4 && f_one_works
    && f_unsent == issued - done && f_ahead <= f_unsent
    && (f_position & (own_slots - 32'd1)) == {{(32 - LEASE){1'b0}}, f_slot}
    && (turn == `TURN_IDLE || f_waits)
    && (turn != `TURN_DECIDE || (f_is_read == f_is_place && f_given == f_kept && f_given_turns == f_kept_turns))
    && (!f_looks || (is_active && p_seg == {{(16 - LEASE){1'b0}}, p_seg[LEASE-1:0]}))
    && (!f_folds || (is_active && in_order))
    && (!is_active || end_state == `END_ABORT || (!f_has_ended && (f_bits & ~own_mask) == 64'd0
        && !(f_fresh && (f_ahead != 16'd0 || !f_is_final)) && (in_order || f_pending == 64'd0)
        && (f_pending & ~f_bits) == 64'd0
        && (f_folds && f_is_place ? f_folds_right
            : f_kept_turns == {f_has_sum, f_pending} && (f_pending & f_due) == 64'd0)
        && (!f_works || f_works_right) && ((f_works && f_finishes) || f_kept_is_right)));

// It begins between two packets. It is limited to an active job of four slots, and to contributions and probes; no
// silence is looked for.
reg f_begins = 1'b1;
always @(posedge clk) f_begins <= 1'b0;

always @* begin
    assume (!rst && !scan_is_due && f_breached == {CONTRACTS{1'b0}});
    assume (p_opcode == `FANIN_OPCODE_CONTRIBUTION || p_opcode == `FANIN_OPCODE_PROBE);
    if (f_begins) assume (turn == `TURN_IDLE && !f_waits && is_active && f_steps);

    premature: assert (!f_is_premature);
    empty: assert (!f_is_empty);
    overwritten: assert (!f_is_overwritten);
    mixed: assert (!f_is_mixed);
    repeated: assert (!f_is_repeated);
    unrecorded: assert (!f_is_unrecorded);
    missed: assert (!f_is_missed);
    lost: assert (!f_is_lost);
    disordered: assert (!f_is_disordered);
    partial: assert (!f_is_partial);
    changed: assert (!f_is_changed);
    used: assert (!f_is_used);
`ifndef FAULT
    steps: assert (f_steps);
`endif
    outside: assert (!f_is_outside); // membership and silence are not reached
end

// ---- Each rule is put to the test within the search.

reg f_duplicate, f_held, f_completes;
wire f_repeats = f_meets && is_heard && p_opcode == `FANIN_OPCODE_CONTRIBUTION
    && p_position == f_position && !f_fresh && |(f_bits & source_bit);
wire f_two_children = |(own_mask & (own_mask - 64'd1));
reg [1:0] f_packets = 2'd0; // packets since the beginning, at most 3
initial {f_duplicate, f_held, f_completes} = 3'd0;
always @(posedge clk) begin
    if (header_pop && f_packets != 2'd3) f_packets <= f_packets + 2'd1;
    f_duplicate <= f_duplicate || f_repeats;
    f_held <= f_held || (f_meets && f_is_next && f_ahead != 16'd0 && is_heard && f_brings);
    f_completes <= f_completes || (f_takes && ((f_is_next ? own_mask : f_missing) & ~source_bit) == 64'd0);
end
always @* begin
    cover (f_result && f_two_children && f_completes);           // a result, to a child of two, in the turn of the last one
    cover (f_reads && f_completes);
    cover (f_takes && f_is_next && !f_fresh);                    // the next position in a FINAL slot,
    cover (f_adds && f_is_next && f_held);                       // with data, after those before had to be sent
    cover (f_adds && !f_is_next && f_has_data);                  // data added to data
    cover (f_meets && f_duplicate && f_packets == 2'd1 && !f_is_final); // after a duplicate for an open slot,
    cover (f_result && f_duplicate && f_packets == 2'd0);        // a duplicate for a FINAL one
    cover (f_stores && f_pending != 64'd0);                        // data before their turn beside others,
    cover (f_recalls && missing != 64'd0);                       // recalled while some are missing,
    cover (f_recalls && f_completes);                            // and in the turn of the last one
    cover (f_meets && f_completes && f_packets == 2'd1);         // a slot looked at again after its result was sent
end

`endif
