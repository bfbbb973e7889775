// Writes the commands for packets: one to the sender of the packet under way, to each child of a walk, or to the group.
// The fields follow from the opcode, the job, and the packet that is answered. `opcode` asks for packets in one clock;
// `is_written` is the clock of the last command.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "engine_states.vh"

module command_writer #(
    parameter JOBS = 4,
    parameter LEASE = 5,
    parameter CHUNK = 4
) (
    input  wire            clk,
    input  wire            rst,
    // what to send
    input  wire            answers,  // the sender of the packet; else those of the walk
    input  wire [7:0]      opcode,   // 0: nothing
    input  wire            to_group,
    input  wire [7:0]      refusal,  // of a CONFIG; 0: it is not refused
    output wire            is_written,
    output reg  [1:0]      state,
    // the walk
    input  wire            is_walked,
    input  wire [5:0]      own_bit,
    output wire            looks,
    output wire            uses_own,
    output wire            skips,
    output wire            ends,
    output wire            is_sent,  // to a child by its own address
    // the packet
    input  wire [47:0]     p_mac,
    input  wire [31:0]     p_address,
    input  wire [7:0]      p_opcode,
    input  wire [31:0]     p_jid,
    input  wire [31:0]     p_key,
    input  wire [31:0]     p_position,
    input  wire [31:0]     p_mid,
    input  wire [31:0]     p_sid,
    input  wire [15:0]     p_seg,
    input  wire [7:0]      p_source,
    input  wire [31:0]     p_token,
    // the child
    input  wire [47:0]     child_mac,
    input  wire [31:0]     child_address,
    input  wire [31:0]     child_token,
    // the group
    input  wire [31:0]     group_address,
    // the job
    input  wire [JOBS-1:0] job,
    input  wire            is_active,
    input  wire [31:0]     jid,
    input  wire [31:0]     key,
    input  wire [63:0]     mask,
    input  wire [63:0]     joined,
    input  wire [31:0]     slots,
    input  wire [31:0]     window,
    input  wire [31:0]     offered_slots, // to a CONFIG that is refused
    input  wire [7:0]      end_status,
    input  wire [63:0]     end_bits,
    input  wire [15:0]     end_above,
    input  wire [63:0]     end_lost,
    // the position
    input  wire [63:0]     missing,
    input  wire [63:0]     wants,
    input  wire            has_data,
    input  wire [7:0]      status,
    input  wire [31:0]     contributions,
    input  wire [7:0]      op,
    input  wire [7:0]      dtype,
    input  wire [1:0]      contributor_class,
    input  wire [31:0]     mid,
    input  wire [31:0]     sid,
    input  wire [15:0]     length,
    input  wire [5:0]      oldest,
    input  wire [31:0]     oldest_us,
    // a command
    input  wire            is_full,
    input  wire            slot_done,
    output wire            push,
    output reg  [15:0]     issued, // commands that read a slot; those that need it no more
    output reg  [15:0]     done,
    output wire [47:0]     c_mac,
    output wire [31:0]     c_address,
    output reg  [7:0]      c_opcode,
    output wire [7:0]      c_op,
    output wire [7:0]      c_dtype,
    output wire [7:0]      c_flags,
    output wire [31:0]     c_jid,
    output wire [31:0]     c_key,
    output wire [31:0]     c_position,
    output wire [31:0]     c_mid,
    output wire [31:0]     c_sid,
    output wire [15:0]     c_seg,
    output wire [15:0]     c_length,
    output wire [7:0]      c_status,
    output wire [7:0]      c_source,
    output wire [31:0]     c_contributions,
    output wire [31:0]     c_token,
    output wire [63:0]     c_node_bitmap,
    output wire [63:0]     c_rank_bitmap,
    output wire            c_from_slot,
    output wire [JOBS+LEASE+CHUNK-1:0] c_slot_beat,
    output wire [63:0]     c_body
);

localparam [24:0] GROUP_MAC = {24'h01005e, 1'b0}; // before the lower bits of a multicast address (RFC 1112)

// A number as the bytes of a body, the first byte lowest
function [31:0] big_endian;
    input [31:0] number;
    big_endian = {number[7:0], number[15:8], number[23:16], number[31:24]};
endfunction

reg       by_group; // one packet, to the group
reg [7:0] refused;
wire to_child = state == `WRITE_PUSH;

assign looks = state == `WRITE_EACH;
assign uses_own = to_child;
assign push = (state == `WRITE_ANSWER || to_child) && !is_full;
assign skips = to_child && push;
assign ends = skips && by_group;
assign is_sent = skips && !by_group;
assign is_written = (state == `WRITE_ANSWER && push) || (looks && is_walked);

always @(posedge clk) begin
    if (push && c_from_slot) issued <= issued + 16'd1;
    if (slot_done) done <= done + 16'd1;
    case (state)
        `WRITE_IDLE: if (opcode != 8'd0) begin
            c_opcode <= opcode;
            by_group <= to_group;
            refused <= refusal;
            state <= answers ? `WRITE_ANSWER : `WRITE_EACH;
        end
        `WRITE_ANSWER: if (push) state <= `WRITE_IDLE;
        `WRITE_EACH: state <= is_walked ? `WRITE_IDLE : `WRITE_PUSH;
        default: if (push) state <= `WRITE_EACH;
    endcase
    if (rst) begin
        state <= `WRITE_IDLE;
        issued <= 16'd0;
        done <= 16'd0;
    end
end

// ---- What a packet says

wire is_result = c_opcode == `FANIN_OPCODE_RESULT;
wire is_wait = c_opcode == `FANIN_OPCODE_WAIT;
wire is_abort = c_opcode == `FANIN_OPCODE_ABORT;
wire is_refusal = refused != 8'd0;
wire is_config_ack = c_opcode == `FANIN_OPCODE_CONFIG_ACK;
wire of_position = is_result || is_wait || c_opcode == `FANIN_OPCODE_NEED;
wire of_job = (is_config_ack && !is_refusal) || c_opcode == `FANIN_OPCODE_STATUS; // its state
wire is_asked = (is_result && p_opcode == `FANIN_OPCODE_PROBE) || (of_position && !is_result) || is_refusal
    || c_opcode == `FANIN_OPCODE_STATUS;
wire with_data = is_result && has_data && status == 8'd0 && (by_group ? wants != 64'd0 : wants[own_bit]);

assign c_mac = !to_child ? p_mac : by_group ? {GROUP_MAC, group_address[22:0]} : child_mac;
assign c_address = !to_child ? p_address : by_group ? group_address : child_address;
assign c_source = to_child ? {2'd0, own_bit} : p_source;
assign c_jid = to_child ? jid : p_jid;
assign c_key = to_child ? key : p_key;
assign c_op = is_result ? op : 8'd0;
assign c_dtype = is_result ? dtype : 8'd0;
assign c_flags = is_result ? {1'b0, contributor_class, 4'd0, with_data} : 8'd0;
assign c_position = of_position ? p_position : 32'd0;
assign c_mid = is_result ? mid : of_position ? p_mid : 32'd0;
assign c_sid = is_result ? sid : of_position ? p_sid : 32'd0;
assign c_seg = of_position ? p_seg : of_job ? {15'd0, !is_active}
    : is_abort && end_bits != 64'd0 ? end_above + 16'd1 : 16'd0;
assign c_length = with_data ? length : is_wait ? `FANIN_WAIT_BYTES : is_config_ack ? `FANIN_CONFIG_ACK_BYTES : 16'd0;
assign c_status = is_result ? status : is_abort ? end_status
    : of_job ? (is_active ? `FANIN_STATUS_SUCCESS : `FANIN_STATUS_PENDING)
    : c_opcode == `FANIN_OPCODE_NAK ? `FANIN_STATUS_NOT_CONFIGURED : refused;
assign c_contributions = is_result ? contributions : 32'd0;
assign c_token = to_child && is_config_ack ? child_token : is_asked ? p_token : 32'd0;
assign c_node_bitmap = is_result ? (by_group ? mask : 64'd1 << own_bit) : is_wait ? missing : is_abort ? end_bits
    : of_job ? (is_active ? 64'd0 : mask & ~joined) : by_group ? mask : 64'd0;
assign c_rank_bitmap = is_abort ? end_lost : 64'd0;
assign c_from_slot = with_data;
assign c_slot_beat = {job, p_seg[LEASE-1:0], {CHUNK{1'b0}}};
assign c_body = is_wait ? {16'd0, 8'd1, 2'd0, oldest, big_endian(oldest_us)}
    : !is_config_ack ? 64'd0 : is_refusal ? {32'd0, big_endian(offered_slots)}
    : {is_active ? big_endian(window) : 32'd0, big_endian(slots)};

endmodule

`resetall
