// A switch that aggregates: Ethernet frames in, Ethernet frames out (docs/fpga.md has a diagram). It is the top of its
// trees, and has one lane. `group_address` is its multicast group, `group_size` the number of listeners: see engine.v.
// Addresses are those of the device; `now_us` counts microseconds from any beginning. `is_idle`: nothing is under way.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"

module switch_core #(
    parameter JOBS = 4,  // 2**JOBS jobs
    parameter LEASE = 5, // of 2**LEASE slots
    parameter CHUNK = 4, // of 2**CHUNK beats: 1 KiB
    parameter RING = CHUNK + 3, // 2**RING beats of payloads wait at most: eight payloads
    parameter REPRODUCIBLE = 1 // whether a job may demand the order of the bits (12-6)
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [47:0]  own_mac,
    input  wire [31:0]  own_address,
    input  wire [31:0]  group_address,
    input  wire [15:0]  group_size,
    input  wire [39:0]  now_us,
    input  wire [511:0] s_axis_tdata,
    input  wire [63:0]  s_axis_tkeep,
    input  wire         s_axis_tlast,
    input  wire         s_axis_tvalid,
    output wire         s_axis_tready,
    output wire [511:0] m_axis_tdata,
    output wire [63:0]  m_axis_tkeep,
    output wire         m_axis_tlast,
    output wire         m_axis_tvalid,
    input  wire         m_axis_tready,
    output wire [32*`DROP_REASONS-1:0] drops,
    output wire         is_idle
);

localparam ADDRESS = JOBS + LEASE + CHUNK;
localparam COMMANDS = 4; // 2**COMMANDS packets wait at most to be sent
localparam SETTLE = 14; // from a result's command until its first beat can be read; the others follow

wire          header_valid, header_pop, icrc_is_right, receiver_is_idle;
wire [1023:0] header;
wire [15:0]   frame_bytes;
wire [RING:0] header_beats, release_beats;
wire [RING-1:0] ring_address;
wire [511:0]  ring_data;

frame_receiver #(.RING(RING), .MAX_BEATS((1 << CHUNK) + 1)) receiver (
    .clk(clk), .rst(rst), .s_axis_tdata(s_axis_tdata), .s_axis_tkeep(s_axis_tkeep), .s_axis_tlast(s_axis_tlast),
    .s_axis_tvalid(s_axis_tvalid), .s_axis_tready(s_axis_tready), .header_valid(header_valid), .header(header),
    .header_frame_bytes(frame_bytes), .header_beats(header_beats), .header_icrc_is_right(icrc_is_right),
    .header_pop(header_pop), .ring_address(ring_address), .ring_data(ring_data), .release_beats(release_beats),
    .is_idle(receiver_is_idle)
);

wire [4:0]  p_drop;
wire [47:0] p_mac;
wire [31:0] p_address, p_jid, p_key, p_position, p_mid, p_sid, p_contributions, p_token;
wire [7:0]  p_opcode, p_version, p_op, p_dtype, p_flags, p_status, p_source;
wire [15:0] p_seg, p_length;
wire [63:0] p_node_bitmap, p_rank_bitmap;

packet_parser parser (
    .head(header), .frame_bytes(frame_bytes), .icrc_is_right(icrc_is_right), .own_address(own_address), .drop(p_drop),
    .mac(p_mac), .address(p_address), .opcode(p_opcode), .version(p_version), .op(p_op), .dtype(p_dtype), .flags(p_flags),
    .jid(p_jid), .key(p_key), .position(p_position), .mid(p_mid), .sid(p_sid), .seg(p_seg), .length(p_length),
    .status(p_status), .source(p_source), .contributions(p_contributions), .token(p_token),
    .node_bitmap(p_node_bitmap), .rank_bitmap(p_rank_bitmap)
);

wire          reads_config, accumulate, accumulator_ready, accumulator_is_idle, computes;
wire          adds, stores, recalls, divides, divisor_ready, divisor_valid, divisor_is_float;
wire [2:0]    config_beat;
wire [7:0]    compute_op;
wire [31:0]   divisor;
wire [63:0]   reciprocal;
wire [5:0]    shift;
wire [JOBS+LEASE-1:0] compute_slot, compute_buffer;
wire [RING:0] compute_beats;
wire          command_push, commands_full, commands_empty, command_settled, command_pop, slot_done;
wire          engine_is_idle, sender_is_idle;
wire [47:0]   c_mac;
wire [31:0]   c_address, c_jid, c_key, c_position, c_mid, c_sid, c_contributions, c_token;
wire [7:0]    c_opcode, c_op, c_dtype, c_flags, c_status, c_source;
wire [15:0]   c_seg, c_length;
wire [63:0]   c_node_bitmap, c_rank_bitmap, c_body;
wire          c_from_slot;
wire [ADDRESS-1:0] c_slot_beat;

engine #(
    .JOBS(JOBS), .LEASE(LEASE), .CHUNK(CHUNK), .RING(RING), .REPRODUCIBLE(REPRODUCIBLE)
) engine_inst (
    .clk(clk), .rst(rst), .now_us(now_us), .own_address(own_address), .group_address(group_address),
    .group_size(group_size), .header_valid(header_valid), .header_pop(header_pop), .header_beats(header_beats),
    .p_drop(p_drop), .p_mac(p_mac), .p_address(p_address), .p_opcode(p_opcode), .p_version(p_version), .p_op(p_op),
    .p_dtype(p_dtype), .p_flags(p_flags), .p_jid(p_jid), .p_key(p_key), .p_position(p_position), .p_mid(p_mid),
    .p_sid(p_sid), .p_seg(p_seg), .p_length(p_length), .p_status(p_status), .p_source(p_source),
    .p_contributions(p_contributions), .p_token(p_token), .p_node_bitmap(p_node_bitmap), .p_rank_bitmap(p_rank_bitmap),
    .reads_config(reads_config), .config_beat(config_beat), .ring_data(ring_data), .accumulate(accumulate),
    .accumulator_ready(accumulator_ready), .accumulator_is_idle(accumulator_is_idle), .computes(computes), .adds(adds),
    .stores(stores), .recalls(recalls), .compute_buffer(compute_buffer), .divides(divides),
    .divisor_valid(divisor_valid), .divisor(divisor), .divisor_is_float(divisor_is_float),
    .divisor_ready(divisor_ready), .compute_op(compute_op), .compute_slot(compute_slot), .compute_beats(compute_beats),
    .command_push(command_push), .command_is_full(commands_full), .slot_done(slot_done), .c_mac(c_mac),
    .c_address(c_address), .c_opcode(c_opcode), .c_op(c_op), .c_dtype(c_dtype), .c_flags(c_flags), .c_jid(c_jid),
    .c_key(c_key), .c_position(c_position), .c_mid(c_mid), .c_sid(c_sid), .c_seg(c_seg), .c_length(c_length),
    .c_status(c_status), .c_source(c_source), .c_contributions(c_contributions), .c_token(c_token),
    .c_node_bitmap(c_node_bitmap), .c_rank_bitmap(c_rank_bitmap), .c_from_slot(c_from_slot), .c_slot_beat(c_slot_beat),
    .c_body(c_body), .drops(drops), .is_idle(engine_is_idle)
);

reciprocal_table reciprocal_table_inst (
    .clk(clk), .rst(rst), .valid(divisor_valid), .divisor(divisor), .is_float(divisor_is_float), .ready(divisor_ready),
    .reciprocal(reciprocal), .shift(shift)
);

wire [RING-1:0]    compute_ring, ring_head;
wire [ADDRESS-1:0] read_address, write_address, rounded_address, send_address;
wire               write_enable, rounded_enable, send_read;
wire [ADDRESS-1:0] pending_read, pending_written;
wire               pending_write;
wire [511:0]       pending_data, pending_write_data;
wire [511:0]       read_data, read_data_high, write_data, write_data_high, rounded_data, send_data;
assign ring_address = reads_config ? ring_head + {{(RING - 3){1'b0}}, config_beat} : compute_ring;

accumulator #(.RING(RING), .CHUNK(CHUNK), .ADDRESS(ADDRESS)) accumulator_inst (
    .clk(clk), .rst(rst), .command_valid(accumulate), .command_ready(accumulator_ready), .computes(computes),
    .adds(adds), .divides(divides), .stores(stores), .recalls(recalls), .buffer(compute_buffer),
    .reciprocal(reciprocal), .shift(shift), .op(compute_op), .dtype(p_dtype), .slot(compute_slot),
    .slot_beats(compute_beats), .ring_beats(recalls ? {(RING + 1){1'b0}} : header_beats), .ring_address(compute_ring),
    .ring_data(ring_data), .release_beats(release_beats), .pending_read_address(pending_read), .pending_data(pending_data),
    .pending_write_enable(pending_write), .pending_write_address(pending_written), .pending_write_data(pending_write_data),
    .read_address(read_address),
    .read_data(read_data), .read_data_high(read_data_high), .write_enable(write_enable), .write_address(write_address),
    .write_data(write_data), .write_data_high(write_data_high), .send_enable(rounded_enable),
    .send_address(rounded_address), .send_data(rounded_data), .is_idle(accumulator_is_idle), .ring_head(ring_head)
);

// The data of the slots: as the accumulator computes them, where f16 and bf16 are f32, and as the sender sends them.
ram #(.WIDTH(512), .ADDRESS(ADDRESS)) slots_to_compute (
    .clk(clk), .write_enable(write_enable), .write_address(write_address), .write_data(write_data),
    .read_enable(1'b1), .read_address(read_address), .read_data(read_data)
);
ram #(.WIDTH(512), .ADDRESS(ADDRESS)) slots_to_compute_high (
    .clk(clk), .write_enable(write_enable), .write_address(write_address), .write_data(write_data_high),
    .read_enable(1'b1), .read_address(read_address), .read_data(read_data_high)
);
ram #(.WIDTH(512), .ADDRESS(ADDRESS)) slots_to_send (
    .clk(clk), .write_enable(rounded_enable), .write_address(rounded_address), .write_data(rounded_data),
    .read_enable(send_read), .read_address(send_address), .read_data(send_data)
);

// Contributions that came before their turn, as they came
generate
    if (REPRODUCIBLE != 0) begin : in_turn
        ram #(.WIDTH(512), .ADDRESS(ADDRESS)) buffers (
            .clk(clk), .write_enable(pending_write), .write_address(pending_written), .write_data(pending_write_data),
            .read_enable(1'b1), .read_address(pending_read), .read_data(pending_data)
        );
    end else begin : at_once
        assign pending_data = 512'd0;
        wire unused = &{1'b0, pending_read, pending_written, pending_write, pending_write_data};
    end
endgenerate

localparam COMMAND = 48 + 32 * 8 + 8 * 6 + 16 * 2 + 64 * 3 + 1 + ADDRESS;
wire [COMMAND-1:0] command;
settling_fifo #(.WIDTH(COMMAND), .ADDRESS(COMMANDS), .SETTLE(SETTLE)) commands (
    .clk(clk), .rst(rst), .push(command_push), .data({c_mac, c_address, c_jid, c_key, c_position, c_mid, c_sid,
        c_contributions, c_token, c_opcode, c_op, c_dtype, c_flags, c_status, c_source, c_seg, c_length, c_node_bitmap,
        c_rank_bitmap, c_body, c_from_slot, c_slot_beat}),
    .pop(command_pop), .first(command), .is_settled(command_settled), .is_empty(commands_empty),
    .is_full(commands_full)
);
wire [47:0] f_mac;
wire [31:0] f_address, f_jid, f_key, f_position, f_mid, f_sid, f_contributions, f_token;
wire [7:0]  f_opcode, f_op, f_dtype, f_flags, f_status, f_source;
wire [15:0] f_seg, f_length;
wire [63:0] f_node_bitmap, f_rank_bitmap, f_body;
wire        f_from_slot;
wire [ADDRESS-1:0] f_slot_beat;
assign {f_mac, f_address, f_jid, f_key, f_position, f_mid, f_sid, f_contributions, f_token, f_opcode, f_op, f_dtype,
    f_flags, f_status, f_source, f_seg, f_length, f_node_bitmap, f_rank_bitmap, f_body, f_from_slot, f_slot_beat} = command;

frame_sender #(.ADDRESS(ADDRESS)) sender (
    .clk(clk), .rst(rst), .own_mac(own_mac), .own_address(own_address), .command_valid(command_settled),
    .command_pop(command_pop), .mac(f_mac), .address(f_address), .opcode(f_opcode), .op(f_op), .dtype(f_dtype),
    .flags(f_flags), .jid(f_jid), .key(f_key), .position(f_position), .mid(f_mid), .sid(f_sid), .seg(f_seg),
    .length(f_length), .status(f_status), .source(f_source), .contributions(f_contributions), .token(f_token),
    .node_bitmap(f_node_bitmap), .rank_bitmap(f_rank_bitmap), .from_slot(f_from_slot), .slot_beat(f_slot_beat),
    .body(f_body), .slot_read(send_read), .slot_address(send_address), .slot_data(send_data), .slot_done(slot_done),
    .m_axis_tdata(m_axis_tdata), .m_axis_tkeep(m_axis_tkeep), .m_axis_tlast(m_axis_tlast),
    .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready), .is_idle(sender_is_idle)
);

assign is_idle = receiver_is_idle && engine_is_idle && accumulator_is_idle && commands_empty && sender_is_idle;

endmodule

`resetall
