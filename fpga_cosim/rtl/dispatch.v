// Gives the turn to a scan that is due, or to the packet with the oldest header. By the rules of SPEC.md, section 5,
// from item 5 on, a packet is dropped, answered, or given to segment, membership or job_end. When its turn ends, its
// payload is given back.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"
`include "engine_states.vh"

module dispatch #(
    parameter [39:0] NAK_US = 40'd1000 // 5-12
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [39:0] now_us,
    output reg  [2:0]  state,
    // the oldest header
    input  wire        header_valid,
    output wire        header_pop,
    input  wire        has_payload,
    input  wire [4:0]  p_drop,
    input  wire [7:0]  p_opcode,
    input  wire [7:0]  p_version,
    input  wire [7:0]  p_status,
    input  wire [31:0] p_address,
    input  wire [15:0] p_seg,
    input  wire [63:0] p_node_bitmap,
    input  wire [63:0] p_rank_bitmap,
    // its job and its sender
    input  wire        found,
    input  wire [2:0]  job_state,
    input  wire        key_is_right,
    input  wire [63:0] mask,
    input  wire [63:0] joined,
    input  wire [63:0] left,
    input  wire [63:0] source_bit,
    input  wire [31:0] child_address,
    output wire        is_idle,   // the job is looked up
    output wire        is_heard,  // the packet is from a child of the job
    // who has the turn
    output wire        is_positional,
    output wire        joins,
    output wire        leaves,
    output wire        remembers,
    output wire        aborts,
    output wire [7:0]  end_status,
    output wire [63:0] end_bits,
    output wire [15:0] end_above,
    output wire [63:0] end_lost,
    input  wire        scan_is_due,
    output wire        scans,
    input  wire        scan_is_done,
    input  wire        others_are_done,
    output reg  [4:0]  drop,
    input  wire        membership_drops,
    // what segment says of a packet about a position, in the clock in which it comes
    input  wire [4:0]  segment_drop,
    input  wire        segment_waits,
    input  wire        segment_goes_on,
    input  wire        segment_works,
    input  wire        segment_gives, // the accumulator gives the payload back
    input  wire        accumulator_ready,
    output wire        gives_back,    // and computes nothing
    // an answer
    output reg  [7:0]  opcode,
    output wire [7:0]  refusal,
    input  wire        is_written
);

// ---- What the packet is

wire goes_up = p_opcode == `FANIN_OPCODE_CONTRIBUTION || p_opcode == `FANIN_OPCODE_PROBE
    || p_opcode == `FANIN_OPCODE_LEAVE || p_opcode == `FANIN_OPCODE_QUERY;
wire goes_both = p_opcode == `FANIN_OPCODE_ABORT || p_opcode == `FANIN_OPCODE_NAK
    || p_opcode == `FANIN_OPCODE_KEEPALIVE;
wire of_position = p_opcode == `FANIN_OPCODE_CONTRIBUTION || p_opcode == `FANIN_OPCODE_PROBE;
wire asks = of_position || p_opcode == `FANIN_OPCODE_QUERY;
wire is_leave = p_opcode == `FANIN_OPCODE_LEAVE;
wire asks_unknown = asks || (p_opcode == `FANIN_OPCODE_KEEPALIVE && p_node_bitmap == 64'd0);
wire asks_a_tombstone = asks || p_opcode == `FANIN_OPCODE_RESULT || p_opcode == `FANIN_OPCODE_ACK
    || p_opcode == `FANIN_OPCODE_KEEPALIVE;
wire is_unknown = !found || (job_state == `JOB_REMEMBERED && (key_is_right || is_leave));
wire source_joined = |(joined & source_bit), source_left = |(left & source_bit);
wire is_strange = source_joined ? child_address != p_address : !is_leave;
reg [4:0] own_drop; // p_drop, one clock later: its path is long

wire decides = state == `TURN_DECIDE;
wire is_config = decides && own_drop == `DROP_NONE && p_opcode == `FANIN_OPCODE_CONFIG;
wire of_unknown = decides && own_drop == `DROP_NONE && p_opcode != `FANIN_OPCODE_CONFIG && is_unknown;
wire of_known = decides && own_drop == `DROP_NONE && p_opcode != `FANIN_OPCODE_CONFIG && !is_unknown;
wire of_ended = of_known && key_is_right && job_state == `JOB_TOMBSTONE && !is_leave;
assign is_heard = of_known && key_is_right && (job_state != `JOB_TOMBSTONE || is_leave) && (goes_up || goes_both)
    && !is_strange && |(mask & source_bit);

// ---- Who has the turn

assign is_idle = state == `TURN_IDLE;
assign scans = is_idle && scan_is_due; // before any packet: else a sender without pauses stops the time
assign is_positional = is_heard && of_position;
assign joins = is_config && p_version == `FANIN_WIRE_VERSION;
assign leaves = is_heard && is_leave;
assign remembers = of_unknown && is_leave && p_status != 8'd0 && !found;

wire is_abort = is_heard && p_opcode == `FANIN_OPCODE_ABORT;
wire is_lost = is_heard && p_opcode == `FANIN_OPCODE_NAK && job_state == `JOB_ACTIVE && !source_left;
assign aborts = is_abort || is_lost;
assign end_status = is_lost ? `FANIN_STATUS_PEER_LOST : !is_abort ? 8'd0
    : p_status == `FANIN_STATUS_SUCCESS || p_status == `FANIN_STATUS_PENDING ? `FANIN_STATUS_ABORTED : p_status;
assign end_bits = is_lost ? source_bit : is_abort ? p_node_bitmap : 64'd0;
assign end_above = is_abort ? p_seg : 16'd0;
assign end_lost = is_lost ? {32'd0, p_address}
    : is_abort && p_status == `FANIN_STATUS_PEER_LOST ? p_rank_bitmap : 64'd0;

// ---- Answers, and reasons to drop

reg  [39:0] last_nak;
reg         nak_is_recent;
wire        naks = of_unknown && asks_unknown && !nak_is_recent;
assign refusal = is_config && !joins ? `FANIN_STATUS_VERSION_MISMATCH : 8'd0;

always @* begin
    opcode = 8'd0;
    if (is_config && !joins) opcode = `FANIN_OPCODE_CONFIG_ACK;
    else if ((of_unknown && is_leave) || (of_known && !key_is_right && is_leave) || leaves)
        opcode = `FANIN_OPCODE_LEAVE_ACK;
    else if (naks) opcode = `FANIN_OPCODE_NAK;
    else if (of_ended && asks_a_tombstone) opcode = `FANIN_OPCODE_ABORT;
    else if (is_heard && p_opcode == `FANIN_OPCODE_QUERY) opcode = `FANIN_OPCODE_STATUS;
end

always @* begin
    drop = `DROP_NONE;
    if (membership_drops) drop = `DROP_CONFIG;
    else if (!decides) drop = `DROP_NONE;
    else if (own_drop != `DROP_NONE) drop = own_drop;
    else if (is_config) drop = `DROP_NONE;
    else if (is_unknown) begin
        if (!is_leave && !naks) drop = asks_unknown ? `DROP_NAK_LIMIT : `DROP_UNKNOWN_JOB;
    end else if (!key_is_right) begin
        if (!is_leave) drop = `DROP_KEY;
    end else if (job_state == `JOB_TOMBSTONE && !is_leave) begin
        if (!asks_a_tombstone) drop = `DROP_ENDED;
    end else if (!goes_up && !goes_both) drop = `DROP_GOES_DOWN;
    else if (is_strange) drop = `DROP_SENDER;
    else if ((mask & source_bit) == 64'd0) drop = `DROP_BIT;
    else if (of_position) drop = segment_drop;
end

// ---- The turn

reg gave; // the accumulator gives the payload back
assign gives_back = state == `TURN_RELEASE && !gave && has_payload;
assign header_pop = (is_positional && segment_goes_on)
    || (state == `TURN_RELEASE && (gave || !has_payload || accumulator_ready));

always @(posedge clk) begin
    if (now_us - last_nak >= NAK_US) nak_is_recent <= 1'b0;
    if (naks) begin
        last_nak <= now_us;
        nak_is_recent <= 1'b1;
    end
    case (state)
        `TURN_IDLE: begin
            gave <= 1'b0;
            own_drop <= p_drop;
            if (scans) state <= `TURN_SCAN;
            else if (header_valid) state <= `TURN_DECIDE;
        end
        `TURN_DECIDE: begin
            gave <= is_positional && segment_gives;
            if (joins || leaves || remembers || aborts) state <= `TURN_BUSY;
            else if (opcode != 8'd0) state <= `TURN_ANSWER;
            else if (!is_positional || drop != `DROP_NONE) state <= `TURN_RELEASE;
            else if (segment_goes_on) state <= `TURN_IDLE;
            else if (segment_works) state <= `TURN_BUSY;
            else if (!segment_waits) state <= `TURN_RELEASE;
        end
        `TURN_ANSWER: if (is_written) state <= `TURN_RELEASE;
        `TURN_BUSY: if (others_are_done) state <= `TURN_RELEASE;
        `TURN_SCAN: if (scan_is_done) state <= `TURN_IDLE;
        default: if (header_pop) state <= `TURN_IDLE;
    endcase
    if (rst) begin
        state <= `TURN_IDLE;
        nak_is_recent <= 1'b0;
    end
end

endmodule

`resetall
