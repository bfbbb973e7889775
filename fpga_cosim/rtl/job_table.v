// The jobs of the switch, their state, and the events that change it (SPEC.md, 10.3). They lie in registers, since all
// are compared with the packet at once. `job` has the turn: that of the packet that is looked up, or the next one of a
// scan. Its events come as one bit for each kind.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "engine_states.vh"

module job_table #(
    parameter JOBS = 4,
    parameter REPRODUCIBLE = 1,
    parameter [39:0] DETECTION_US = 40'd5000000,
    parameter [39:0] KEEPALIVE_US = 40'd500000,
    parameter [39:0] AGEING_US = 40'd60000000,
    parameter [39:0] SCAN_US = 40'd50000
) (
    input  wire            clk,
    input  wire            rst,
    input  wire [39:0]     now_us,
    input  wire [39:0]     lived_us, // see scan.v
    // the packet
    input  wire [31:0]     jid,
    input  wire [31:0]     key,
    input  wire [63:0]     source_bit,
    // whose turn it is
    input  wire            looks_up, // the job of the packet
    input  wire            to_first,
    input  wire            to_next,
    output wire [JOBS-1:0] at_job,   // the job, and while it is looked up the one that is found
    output reg  [JOBS-1:0] job,
    output reg             found,
    output wire            has_entry, // for a job that is not there yet
    // what is known of it
    output wire [2:0]      state,
    output wire [31:0]     own_jid,
    output wire [31:0]     own_key,
    output wire            key_is_right,
    output wire [63:0]     mask,
    output wire [63:0]     joined,
    output wire [63:0]     left,
    output wire [31:0]     slots,
    output wire [31:0]     window,
    output wire [31:0]     chunk,
    output wire [127:0]    digest,
    output wire            in_order, // it folds in the order of the bits: 12-6
    output wire [7:0]      status,   // why it ended,
    output wire [63:0]     bits,     // members that the end is about,
    output wire [15:0]     above,    // whose children they are,
    output wire [63:0]     lost,     // and the lost device's address
    output reg             is_aged,  // the job, one clock ago
    output reg             was_invited,
    output reg             had_loss,
    // what happens to it
    input  wire            forms,    // with the numbers of a CONFIG
    input  wire [63:0]     config_mask,
    input  wire [31:0]     config_lease,
    input  wire [31:0]     config_slots,
    input  wire [31:0]     config_window,
    input  wire [31:0]     config_chunk,
    input  wire [127:0]    config_digest,
    input  wire            config_in_order,
    input  wire            joins,    // the sender
    input  wire            leaves,
    input  wire            is_heard,
    input  wire            halves,   // the window, if it is more than half of the slots
    input  wire            activates,
    input  wire            refuses,  // the key
    input  wire            loses,    // a packet
    input  wire            invites,
    input  wire            aborts,   // with a reason:
    input  wire [7:0]      end_status,
    input  wire [63:0]     end_bits,
    input  wire [15:0]     end_above,
    input  wire [63:0]     end_lost,
    input  wire            remembers, // the end of a job that is not known, with its reason
    input  wire            buries,
    input  wire            frees
);

localparam [32:0] NONE_REFUSED = 33'd0;

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
reg [40:0]  job_loss [0:(1<<JOBS)-1];    // the highest bit: whether there was one
reg [7:0]   job_status [0:(1<<JOBS)-1];
reg [63:0]  job_bits [0:(1<<JOBS)-1];
reg [15:0]  job_above [0:(1<<JOBS)-1];
reg [63:0]  job_lost [0:(1<<JOBS)-1];
reg [32:0]  job_refused [0:(1<<JOBS)-1]; // the highest bit: whether a key was refused
reg [(1<<JOBS)-1:0] job_in_order;

wire [(1<<JOBS)-1:0] hits, vacant, remembered;
genvar i;
generate
    for (i = 0; i < 1 << JOBS; i = i + 1) begin : jobs
        assign hits[i] = job_state[i] != `JOB_FREE && job_jid[i] == jid;
        assign vacant[i] = job_state[i] == `JOB_FREE;
        assign remembered[i] = job_state[i] == `JOB_REMEMBERED;
    end
endgenerate

wire [63:0] hit_rest, vacant_rest, remembered_rest;
wire [5:0]  hit, first_vacant, first_remembered;
lowest_bit lowest_hit (.bitmap({{(64 - (1 << JOBS)){1'b0}}, hits}), .lowest(hit), .rest(hit_rest));
lowest_bit lowest_vacant (.bitmap({{(64 - (1 << JOBS)){1'b0}}, vacant}), .lowest(first_vacant), .rest(vacant_rest));
lowest_bit lowest_remembered (
    .bitmap({{(64 - (1 << JOBS)){1'b0}}, remembered}), .lowest(first_remembered), .rest(remembered_rest)
);
wire [JOBS-1:0] entry = found ? job : |vacant ? first_vacant[JOBS-1:0] : first_remembered[JOBS-1:0];
assign has_entry = found || |vacant || |remembered;
assign at_job = looks_up ? hit[JOBS-1:0] : job;

assign state = job_state[job];
assign own_jid = job_jid[job];
assign own_key = job_key[job];
assign key_is_right = own_key == key;
assign mask = job_mask[job];
assign joined = job_joined[job];
assign left = job_left[job];
assign slots = job_slots[job];
assign window = job_window[job];
assign chunk = job_chunk[job];
assign digest = job_digest[job];
assign in_order = REPRODUCIBLE != 0 && job_in_order[job];
assign status = job_status[job];
assign bits = job_bits[job];
assign above = job_above[job];
assign lost = job_lost[job];

// What comes of a difference of times is a register, since the path of its carries is long.
always @(posedge clk) begin
    is_aged <= lived_us - job_heard[job] > AGEING_US;
    was_invited <= now_us - job_invited[job] < KEEPALIVE_US - SCAN_US;
    had_loss <= job_loss[job][40] && now_us - job_loss[job][39:0] <= DETECTION_US;
end

// ---- What happens: each kind of event writes some fields of `job`, or of the entry of a new one. A field has one
// write port, so that it can be a memory.

wire remembers_it = remembers && has_entry; // a LEAVE of an unknown job: 5-10
wire is_new = forms || remembers_it, is_cleared = is_new || frees;
wire [JOBS-1:0] at = is_new ? entry : job;
wire has_fewer_slots = joins && config_slots < slots, has_less_window = joins && config_window < window;
wire has_half_window = halves && window > slots >> 1;

integer k;
always @(posedge clk) begin
    if (looks_up) begin
        job <= to_first ? {JOBS{1'b0}} : hit[JOBS-1:0];
        found <= |hits;
    end else if (to_next) job <= job + 1'b1;
    else if (forms) job <= entry;

    if (is_new || activates || buries || frees)
        job_state[at] <= forms ? `JOB_JOINING : activates ? `JOB_ACTIVE : buries ? `JOB_TOMBSTONE
            : remembers_it || job_refused[job][32] ? `JOB_REMEMBERED : `JOB_FREE; // a refused key stays refused (11-13)
    if (is_new) job_jid[at] <= jid;
    if (is_cleared) job_key[at] <= frees ? job_refused[job][31:0] : key;
    if (is_cleared || refuses) job_refused[at] <= refuses ? {1'b1, key} : NONE_REFUSED;
    if (is_cleared) job_mask[at] <= forms ? config_mask : 64'd0;
    if (is_cleared || joins) job_joined[at] <= joins ? joined | source_bit : 64'd0;
    if (is_cleared || leaves) job_left[at] <= leaves ? left | source_bit : 64'd0;
    if (forms || has_fewer_slots) job_slots[at] <= forms ? config_lease : config_slots;
    if (forms || has_less_window || has_half_window) job_window[at] <= halves ? slots >> 1 : config_window;
    if (forms) job_chunk[at] <= config_chunk;
    if (forms) job_digest[at] <= config_digest;
    if (forms) job_in_order[at] <= config_in_order;
    if (is_heard || remembers_it || frees) job_heard[at] <= lived_us;
    if (invites) job_invited[at] <= now_us;
    if (forms || loses) job_loss[at] <= {loses, now_us};
    if (aborts || remembers_it || frees) begin
        job_status[at] <= frees ? `FANIN_STATUS_JID_IN_USE : end_status;
        job_bits[at] <= frees ? 64'd0 : end_bits;
        job_above[at] <= end_above;
        job_lost[at] <= frees ? 64'd0 : end_lost;
    end

    if (rst) for (k = 0; k < 1 << JOBS; k = k + 1) job_state[k] <= `JOB_FREE;
end

wire unused = &{1'b0, hit_rest, vacant_rest, remembered_rest, hit, first_vacant, first_remembered};

endmodule

`resetall
