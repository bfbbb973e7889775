// Properties of the engine's slots, for all packets in all orders (bounded: `make formal`). engine.v includes this file
// where FORMAL is defined. They are about one slot of job 0, which slot the solver chooses, and hold a record of their
// own of it, made of what the engine does: what it writes, adds and sends.
//
// The run begins with an active job whose slots have served no position yet.

localparam [31:0] F_SLOTS = 32'd1 << LEASE;
wire [LEASE-1:0] f_slot = $anyconst;
reg f_first = 1'b1;

// The record: position, the children whose data are in it, whether it has served none, whether it has data
reg [31:0] f_position;
reg [63:0] f_bits;
reg        f_fresh, f_has_data, f_written = 1'b0;
reg        f_is_read; // the slot's record is what the memory gives now
reg        f_sends = 1'b0;
reg [15:0] f_ticket; // of the last command that reads the slot

wire f_here = job == {JOBS{1'b0}} && own_state == ACTIVE && p_seg == {{(16 - LEASE){1'b0}}, f_slot};
wire f_takes = state == DECIDE && slot_write && f_here;
wire f_adds = accumulate && computes && accumulator_ready && f_here;
wire f_replaces = p_position != f_position || f_fresh;
wire f_result = command_push && is_result && to_child && job == {JOBS{1'b0}} && slot == f_slot;
wire [63:0] f_bits_then = f_replaces ? source_bit : f_bits | source_bit;
wire [15:0] f_sent = done - f_ticket; // 0 or more: that command has read it

always @(posedge clk) begin
    f_first <= 1'b0;
    f_is_read <= at_job == {JOBS{1'b0}} && slot_place == f_slot;
    if (f_takes) begin
        f_position <= p_position;
        f_bits <= f_bits_then;
        f_fresh <= 1'b0;
        f_has_data <= (!f_replaces && f_has_data) || brings;
    end
    if (slot_write && job == {JOBS{1'b0}}) f_written <= f_written || slot_at == f_slot || walks;
    if (command_push && c_from_slot && job == {JOBS{1'b0}} && slot == f_slot) begin
        f_sends <= 1'b1;
        f_ticket <= issued + 16'd1;
    end
end

// ---- What is assumed of the beginning, and of those around the engine

reg f_waited = 1'b0;
reg [7:0] f_opcode, f_source, f_op, f_dtype, f_flags, f_status, f_version;
reg [31:0] f_p_position, f_jid, f_key, f_address;
reg [15:0] f_seg, f_length;
reg [4:0] f_drop;
always @(posedge clk) begin
    f_waited <= header_valid && !header_pop;
    {f_opcode, f_source, f_op, f_dtype, f_flags, f_status, f_version} <=
        {p_opcode, p_source, p_op, p_dtype, p_flags, p_status, p_version};
    {f_p_position, f_jid, f_key, f_address, f_seg, f_length, f_drop} <=
        {p_position, p_jid, p_key, p_address, p_seg, p_length, p_drop};
end

// The states that write these are cut out. A memory that nothing writes would have no value.
wire f_never = $anyseq;
always @(posedge clk) if (f_never) begin
    job_jid[job] <= 32'd0;
    job_slots[job] <= 32'd0;
    job_window[job] <= 32'd0;
    job_chunk[job] <= 32'd0;
    job_digest[job] <= 128'd0;
end

always @* begin
    assume (!rst && !f_never);
    assume (p_source < 8'd4);
    assume (!scan_is_due);
    assume (p_opcode == `FANIN_OPCODE_CONTRIBUTION || p_opcode == `FANIN_OPCODE_PROBE || p_opcode == `FANIN_OPCODE_QUERY);
    if (f_waited) begin // a header stays until it is taken
        assume (header_valid);
        assume ({f_opcode, f_source, f_op, f_dtype, f_flags, f_status, f_version} ==
            {p_opcode, p_source, p_op, p_dtype, p_flags, p_status, p_version});
        assume ({f_p_position, f_jid, f_key, f_address, f_seg, f_length, f_drop} ==
            {p_position, p_jid, p_key, p_address, p_seg, p_length, p_drop});
    end
    if (outstanding == 16'd0) assume (!slot_done);
    if (f_is_read && !f_written) begin // what ACTIVATE has written
        assume (s_position == {{(32 - LEASE){1'b0}}, f_slot} - F_SLOTS);
        assume (s_final && s_fresh && s_missing == 64'd0);
    end
    if (f_first) begin
        assume (state == IDLE && issued == 16'd0 && done == 16'd0);
        assume (job_state[0] == ACTIVE && job_state[1] == FREE);
        assume (job_slots[0] == F_SLOTS && job_left[0] == 64'd0 && job_joined[0] == job_mask[0]);
        assume (job_mask[0] != 64'd0 && job_mask[0][63:4] == 60'd0);
        assume (f_position == {{(32 - LEASE){1'b0}}, f_slot} - F_SLOTS && f_bits == 64'd0 && f_fresh && !f_has_data);
    end
end

// ---- The properties

always @(posedge clk) begin
    // No result before all children are in; and it is that of the position (7.1-13).
    if (f_result) assert (f_bits == job_mask[0] && c_position == f_position && !f_fresh);
    if (f_takes || f_adds) begin
        if (f_replaces) begin
            // A slot is overwritten only when it is FINAL, and only by its next position (6-36, 6-37),
            assert (f_fresh || f_bits == job_mask[0]);
            assert (p_position == f_position + F_SLOTS);
            // and not before its data have been sent.
            if (f_adds) assert (!f_sends || !f_sent[15]);
        end else begin
            // A duplicate adds nothing (7.1-2),
            assert ((f_bits & source_bit) == 64'd0);
            // and data are added to data, not written over them.
            if (f_adds) assert (!f_has_data || compute_op != `FANIN_OP_NONE);
        end
    end
    // What is kept of the slot is what has happened to it.
    if (f_takes) assert (missing_then == (job_mask[0] & ~f_bits_then));
    if (slot_write && state == SAVE && job == {JOBS{1'b0}} && slot == f_slot)
        assert (missing == (job_mask[0] & ~f_bits) && position == f_position);
end

// The states of membership and of time, which formal.py has cut out of this copy of the engine, are never reached.
always @* assert (state < LEAVE);
