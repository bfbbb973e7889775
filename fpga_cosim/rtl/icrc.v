// The ICRC of a RoCEv2 packet (SPEC.md, section 3) over the beats of its Ethernet frame. What a router may change counts
// as ones; the 8 bytes of ones before the IPv4 header take the place of the last 8 bytes of the Ethernet header.
//
// One beat of 64 bytes a clock, also of frames one behind the other. `crc` is right LATENCY = 3 clocks with `advance`
// after the last beat, in the byte order of the packet: its lowest byte goes first. Over a frame with its ICRC it is
// 0x2144df1c.
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
    input  wire         is_last,
    input  wire [6:0]   bytes, // of the beat that count, 1 to 64
    input  wire [511:0] data,
    output reg  [31:0]  crc
);

localparam [31:0] POLYNOMIAL = 32'hedb88320;

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

wire [31:0] part, moved, start;
reg  [31:0] part_1, state;
reg         valid_1, first_1, last_1, last_2;
reg  [5:0]  undo_1, undo_2; // bytes of zeros in the last beat
wire [31:0] undone [0:6];

genvar j, step;
generate
    for (j = 0; j < 32; j = j + 1) begin : bits
        localparam [511:0] MASK = beat_mask(j[4:0]);
        localparam [31:0] SIX_BYTES = undo_mask(j[4:0], 48);
        assign part[j] = ^(covered & MASK);
        assign moved[j] = ^((first_1 ? start : state) & MASK[31:0]);
        assign start[j] = ^SIX_BYTES; // all ones after six bytes of zeros
    end
    for (step = 0; step < 6; step = step + 1) begin : steps
        for (j = 0; j < 32; j = j + 1) begin : bits
            localparam [31:0] MASK = undo_mask(j[4:0], 8 << step);
            assign undone[step + 1][j] = undo_2[step] ? ^(undone[step] & MASK) : undone[step][j];
        end
    end
endgenerate
assign undone[0] = state;

always @(posedge clk) if (advance) begin
    part_1 <= part;
    first_1 <= is_first;
    last_1 <= is_last;
    valid_1 <= is_valid;
    undo_1 <= 6'd0 - bytes[5:0];
    if (valid_1) state <= moved ^ part_1;
    last_2 <= valid_1 && last_1;
    undo_2 <= undo_1;
    if (last_2) crc <= ~undone[6];
end

endmodule

`resetall
