// The passing of time (SPEC.md, 10.5): each SCAN_US all jobs are checked. One that is too old is freed, one with a
// silent child ends, and children to which nothing was sent get a KEEPALIVE, or an invitation to the group: also if due
// before the next scan. Silence and age count `lived_us`: microseconds in which the engine could look at packets
// (10.5-7).
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "engine_states.vh"

module scan #(
    parameter JOBS = 4,
    parameter [39:0] DETECTION_US = 40'd5000000,
    parameter [39:0] KEEPALIVE_US = 40'd500000,
    parameter [39:0] SCAN_US = 40'd50000
) (
    input  wire            clk,
    input  wire            rst,
    input  wire [39:0]     now_us,
    input  wire            engine_is_idle,
    output reg  [39:0]     lived_us,
    output wire            is_quiet, // no scan is due, and the time that has passed is counted
    // the turn: of a scan, which `starts` when it is due
    output reg             is_due,
    input  wire            starts,
    output wire            is_done,
    output reg  [3:0]      state,
    // the job
    input  wire [JOBS-1:0] job,
    input  wire [2:0]      job_state,
    input  wire [63:0]     joined,
    input  wire [63:0]     left,
    input  wire            job_is_aged,
    input  wire            was_invited,
    input  wire            may_invite,
    output wire            to_next,
    output wire            invites,
    output wire            ages,
    output wire            is_aged,
    output wire            aborts,
    output wire [63:0]     end_bits,
    output wire [63:0]     end_lost,
    input  wire            job_has_ended,
    // the walk through its children, and packets for them
    output wire            loads,
    output wire [63:0]     bits,
    output wire            looks,
    output wire            skips,
    input  wire            is_walked,
    input  wire [5:0]      own_bit,
    input  wire [31:0]     child_address,
    input  wire [39:0]     silence,
    input  wire [39:0]     since_sent,
    output wire [7:0]      opcode,
    output wire            to_group,
    input  wire [63:0]     mask,
    input  wire            is_written
);

reg [39:0] last_scan, seen_us, idle_us;
reg [63:0] silent, due;
reg [31:0] silent_address; // of one that is silent alone; else 0

assign is_quiet = !is_due && seen_us == now_us;
wire is_active = job_state == `JOB_ACTIVE;
wire tells_due = state == `SCAN_DUE && is_active && due != 64'd0;

assign ages = state == `SCAN_END && job_is_aged;
assign is_aged = state == `SCAN_AGED;
assign aborts = state == `SCAN_END && !job_is_aged && silent != 64'd0;
assign end_bits = aborts ? silent : 64'd0;
assign end_lost = aborts ? {32'd0, silent_address} : 64'd0;
assign invites = state == `SCAN_INVITE;
assign opcode = invites || tells_due ? `FANIN_OPCODE_KEEPALIVE : 8'd0;
assign to_group = invites;
assign loads = state == `SCAN_JOB || opcode != 8'd0;
assign bits = invites ? mask : tells_due ? due
    : state == `SCAN_JOB && (job_state == `JOB_JOINING || is_active) ? joined & ~left : 64'd0;
assign looks = state == `SCAN_CHILD;
assign skips = state == `SCAN_LOOK;
assign to_next = state == `SCAN_NEXT;
assign is_done = to_next && job == {JOBS{1'b1}};

always @(posedge clk) begin
    seen_us <= now_us;
    is_due <= now_us - last_scan >= SCAN_US;
    if (engine_is_idle) idle_us <= now_us;
    if (now_us - idle_us <= KEEPALIVE_US) lived_us <= lived_us + (now_us - seen_us);

    case (state)
        `SCAN_IDLE: if (starts) begin
            last_scan <= now_us;
            is_due <= 1'b0;
            state <= `SCAN_JOB;
        end
        `SCAN_JOB: begin
            silent <= 64'd0;
            due <= 64'd0;
            state <= job_state == `JOB_FREE ? `SCAN_NEXT : `SCAN_CHILD;
        end
        `SCAN_CHILD: state <= is_walked ? `SCAN_END : `SCAN_LOOK;
        `SCAN_LOOK: begin
            if (silence > DETECTION_US) begin
                silent[own_bit] <= 1'b1;
                silent_address <= silent == 64'd0 ? child_address : 32'd0;
            end
            if (since_sent >= KEEPALIVE_US - SCAN_US) due[own_bit] <= 1'b1;
            state <= `SCAN_CHILD;
        end
        `SCAN_END:
            if (ages) state <= `SCAN_AGED;
            else if (aborts) state <= `SCAN_ABORTED;
            else if (is_active && may_invite && !was_invited) state <= `SCAN_INVITE;
            else state <= `SCAN_DUE;
        `SCAN_AGED, `SCAN_ABORTED: if (job_has_ended) state <= `SCAN_NEXT;
        `SCAN_INVITE: state <= `SCAN_INVITED;
        `SCAN_INVITED: if (is_written) state <= `SCAN_DUE;
        `SCAN_DUE: state <= tells_due ? `SCAN_TELL : `SCAN_NEXT;
        `SCAN_TELL: if (is_written) state <= `SCAN_NEXT;
        default: state <= is_done ? `SCAN_IDLE : `SCAN_JOB;
    endcase

    if (rst) begin
        state <= `SCAN_IDLE;
        is_due <= 1'b0;
        last_scan <= now_us;
        seen_us <= now_us;
        idle_us <= now_us;
    end
end

endmodule

`resetall
