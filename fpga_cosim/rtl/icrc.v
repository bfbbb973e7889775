// The ICRC of a RoCEv2 packet (SPEC.md, section 3) over the beats of its Ethernet frame. What a router may change counts
// as ones; the 8 bytes of ones before the IPv4 header take the place of the last 8 bytes of the Ethernet header.
//
// One beat of 64 bytes a clock, also of frames one behind the other. LATENCY = 9 clocks with `advance` after a beat, `crc`
// is that of the frame up to this beat, in the byte order of the packet: its lowest byte goes first. Over a frame with
// its ICRC it is 0x2144df1c.
//
// The CRC is linear: the bits of a beat are summed by one tree of exclusive ors. A last beat that is not full is filled
// up with zeros, and the zeros are taken back, in steps of 32, 16, ... 1 bytes.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module icrc (
    input  wire         clk,
    input  wire         advance,
    input  wire         is_valid, // a beat; else nothing changes
    input  wire         is_first,
    input  wire [6:0]   bytes, // of the beat that count, 1 to 64
    input  wire [511:0] data,
    output wire [31:0]  crc
);

localparam [31:0] POLYNOMIAL = 32'hedb88320;
localparam STEPS = 6;

// The bits of a beat of which bit `out` of the CRC is the sum.
function [511:0] beat_mask;
    input [4:0] out;
    reg [31:0] effect; // of one bit, so many bits before the end
    integer k;
    begin
        effect = 32'd1;
        for (k = 511; k >= 0; k = k - 1) begin
            effect = {1'b0, effect[31:1]} ^ (effect[0] ? POLYNOMIAL : 32'd0);
            beat_mask[k] = effect[out];
        end
    end
endfunction

// The bits of a CRC of which bit `out` is the sum when so many bits of zeros are taken back.
function [31:0] undo_mask;
    input [4:0] out;
    input integer bits;
    reg [31:0] effect;
    integer k;
    begin
        effect = 32'd1;
        for (k = 0; k < bits + 32; k = k + 1) begin
            if (k >= bits) undo_mask[k - bits] = effect[out];
            effect = {effect[30:0], 1'b0} ^ (effect[31] ? {POLYNOMIAL[30:0], 1'b1} : 32'd0);
        end
    end
endfunction

reg [511:0] covered;
integer i;

always @* begin
    covered = data;
    if (is_first) begin
        covered[0 +: 48] = 48'd0; // bytes 0 to 5 do not count: see START
        covered[8*6 +: 64] = {64{1'b1}};
        covered[8*15 +: 8] = 8'hff; // type of service
        covered[8*22 +: 8] = 8'hff; // time to live
        covered[8*24 +: 16] = 16'hffff; // checksum of IPv4
        covered[8*40 +: 16] = 16'hffff; // checksum of UDP
        covered[8*46 +: 8] = 8'hff; // fecn, becn, resv6 of the BTH
    end
    for (i = 0; i < 64; i = i + 1) begin
        if (bytes <= i[6:0]) covered[8*i +: 8] = 8'd0;
    end
end

// The sum of the bits of a beat; then the CRC with the beats before it; then the zeros are taken back, step by step.
reg  [511:0] covered_1;
wire [31:0] part, moved, start;
reg  [31:0] part_2;
reg         valid_1, valid_2, first_1, first_2;
reg  [5:0]  undo_1, undo_2;     // bytes of zeros in the last beat
reg  [31:0] held [0:STEPS];     // the CRC before each step, and behind the last
reg  [5:0]  undo [0:STEPS-1];
wire [31:0] undone [0:STEPS-1]; // the CRC behind each step
integer k;

genvar j, step;
generate
    for (j = 0; j < 32; j = j + 1) begin : bits
        localparam [511:0] MASK = beat_mask(j[4:0]);
        localparam [31:0] SIX_BYTES = undo_mask(j[4:0], 48);
        assign part[j] = ^(covered_1 & MASK);
        assign moved[j] = ^((first_2 ? start : held[0]) & MASK[31:0]);
        assign start[j] = ^SIX_BYTES; // all ones after six bytes of zeros
    end
    for (step = 0; step < STEPS; step = step + 1) begin : steps
        for (j = 0; j < 32; j = j + 1) begin : bits
            localparam [31:0] MASK = undo_mask(j[4:0], 8 << step);
            assign undone[step][j] = undo[step][step] ? ^(held[step] & MASK) : held[step][j];
        end
    end
endgenerate

always @(posedge clk) if (advance) begin
    covered_1 <= covered;
    part_2 <= part;
    {valid_1, valid_2} <= {is_valid, valid_1};
    {first_1, first_2} <= {is_first, first_1};
    {undo_1, undo_2} <= {6'd0 - bytes[5:0], undo_1};
    if (valid_2) held[0] <= moved ^ part_2;
    undo[0] <= undo_2;
    for (k = 0; k < STEPS; k = k + 1) held[k+1] <= undone[k];
    for (k = 1; k < STEPS; k = k + 1) undo[k] <= undo[k-1];
end
assign crc = ~held[STEPS];

endmodule

`resetall
