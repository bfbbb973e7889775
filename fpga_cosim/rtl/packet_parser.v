// The fields of a frame, Ethernet to CETH, from its first two beats, and the reason for which it is dropped: items 1 to 4
// of section 5 of SPEC.md, in that order. Combinational.
//
// Byte 0 of a frame is the lowest of its first beat. What is not in the frame must be zeros.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"

module packet_parser (
    input  wire [1023:0] head,        // the first two beats
    input  wire [15:0]   frame_bytes, // of the whole frame
    input  wire          icrc_is_right,
    input  wire [31:0]   own_address,
    output reg  [4:0]    drop,
    output wire [47:0]   mac, // of the sender
    output wire [31:0]   address,
    output wire [7:0]    opcode,
    output wire [7:0]    version,
    output wire [7:0]    op,
    output wire [7:0]    dtype,
    output wire [7:0]    flags,
    output wire [31:0]   jid,
    output wire [31:0]   key,
    output wire [31:0]   position,
    output wire [31:0]   mid,
    output wire [31:0]   sid,
    output wire [15:0]   seg,
    output wire [15:0]   length,
    output wire [7:0]    status,
    output wire [7:0]    source,
    output wire [31:0]   contributions,
    output wire [31:0]   token,
    output wire [63:0]   node_bitmap,
    output wire [63:0]   rank_bitmap
);

localparam ETHERNET = 14, IP = 20, UDP = 8, BTH_AT = ETHERNET + IP + UDP, CETH_AT = BTH_AT + `FANIN_BTH_BYTES;
localparam HEADERS = CETH_AT + `FANIN_CETH_BYTES;
localparam SOURCE_AT = CETH_AT + `FANIN_CETH_SOURCE_OFFSET / 8;
localparam EVERY_VERSION = CETH_AT + 32; // bytes that mean the same in each version (10.6-1)

// In the order of the wire: the first byte is the highest.
wire [8*HEADERS-1:0] wire_order;
genvar i;
generate
    for (i = 0; i < HEADERS; i = i + 1) begin : reversed
        assign wire_order[8*(HEADERS-1-i) +: 8] = head[8*i +: 8];
    end
endgenerate
wire [8*`FANIN_CETH_BYTES-1:0] ceth = wire_order[8*`FANIN_CETH_BYTES-1:0];
wire [8*`FANIN_BTH_BYTES-1:0] bth = wire_order[8*`FANIN_CETH_BYTES +: 8*`FANIN_BTH_BYTES];
wire [8*UDP-1:0] udp = wire_order[8*(HEADERS-BTH_AT) +: 8*UDP];
wire [8*IP-1:0] ip = wire_order[8*(HEADERS-BTH_AT+UDP) +: 8*IP];

localparam CETH_TOP = 8 * `FANIN_CETH_BYTES - 1, BTH_TOP = 8 * `FANIN_BTH_BYTES - 1;
assign mac = wire_order[8*(HEADERS-12) +: 48];
assign address = ip[8*4 +: 32];
assign opcode = bth[BTH_TOP - `FANIN_BTH_OPCODE_OFFSET -: `FANIN_BTH_OPCODE_BITS];
assign version = ceth[CETH_TOP - `FANIN_CETH_VERSION_OFFSET -: `FANIN_CETH_VERSION_BITS];
assign op = ceth[CETH_TOP - `FANIN_CETH_OP_OFFSET -: `FANIN_CETH_OP_BITS];
assign dtype = ceth[CETH_TOP - `FANIN_CETH_DTYPE_OFFSET -: `FANIN_CETH_DTYPE_BITS];
assign flags = ceth[CETH_TOP - `FANIN_CETH_FLAGS_OFFSET -: `FANIN_CETH_FLAGS_BITS];
assign jid = ceth[CETH_TOP - `FANIN_CETH_JID_OFFSET -: `FANIN_CETH_JID_BITS];
assign key = ceth[CETH_TOP - `FANIN_CETH_KEY_OFFSET -: `FANIN_CETH_KEY_BITS];
assign position = ceth[CETH_TOP - `FANIN_CETH_POSITION_OFFSET -: `FANIN_CETH_POSITION_BITS];
assign mid = ceth[CETH_TOP - `FANIN_CETH_MID_OFFSET -: `FANIN_CETH_MID_BITS];
assign sid = ceth[CETH_TOP - `FANIN_CETH_SID_OFFSET -: `FANIN_CETH_SID_BITS];
assign seg = ceth[CETH_TOP - `FANIN_CETH_SEG_OFFSET -: `FANIN_CETH_SEG_BITS];
assign length = ceth[CETH_TOP - `FANIN_CETH_LENGTH_OFFSET -: `FANIN_CETH_LENGTH_BITS];
assign status = ceth[CETH_TOP - `FANIN_CETH_STATUS_OFFSET -: `FANIN_CETH_STATUS_BITS];
assign source = ceth[CETH_TOP - `FANIN_CETH_SOURCE_OFFSET -: `FANIN_CETH_SOURCE_BITS];
assign contributions = ceth[CETH_TOP - `FANIN_CETH_CONTRIBUTIONS_OFFSET -: `FANIN_CETH_CONTRIBUTIONS_BITS];
assign token = ceth[CETH_TOP - `FANIN_CETH_TOKEN_OFFSET -: `FANIN_CETH_TOKEN_BITS];
assign node_bitmap = ceth[CETH_TOP - `FANIN_CETH_NODE_BITMAP_OFFSET -: `FANIN_CETH_NODE_BITMAP_BITS];
assign rank_bitmap = ceth[CETH_TOP - `FANIN_CETH_RANK_BITMAP_OFFSET -: `FANIN_CETH_RANK_BITMAP_BITS];

wire [7:0] lane = ceth[CETH_TOP - `FANIN_CETH_LANE_OFFSET -: `FANIN_CETH_LANE_BITS];
wire [1:0] padcount = bth[BTH_TOP - `FANIN_BTH_PADCOUNT_OFFSET -: `FANIN_BTH_PADCOUNT_BITS];
wire [3:0] bth_version = bth[BTH_TOP - `FANIN_BTH_VERSION_OFFSET -: `FANIN_BTH_VERSION_BITS];

// The IPv4 header: no options, no fragment, its checksum, and lengths that agree with the frame's.
reg [19:0] checksum;
integer word;
always @* begin
    checksum = 20'd0;
    for (word = 0; word < 10; word = word + 1) checksum = checksum + {4'd0, ip[16*word +: 16]};
    checksum = {4'd0, checksum[15:0]} + {16'd0, checksum[19:16]};
end
wire is_ip = wire_order[8*(HEADERS-ETHERNET) +: 16] == 16'h0800 && ip[8*19 +: 8] == 8'h45 && ip[8*10 +: 8] == 8'd17
    && ip[8*12 +: 14] == 14'd0 && checksum == 20'hffff && ip[31:0] == own_address
    && {1'b0, ip[8*16 +: 16]} + ETHERNET[16:0] == {1'b0, frame_bytes};
wire is_ours = is_ip && udp[32 +: 16] == `FANIN_UDP_PORT && udp[16 +: 16] == ip[8*16 +: 16] - IP[15:0]
    && frame_bytes >= BTH_AT[15:0] + `FANIN_ICRC_BYTES;

wire [15:0] bytes = frame_bytes - `FANIN_ICRC_BYTES;
wire [16:0] said = HEADERS[16:0] + {1'b0, length} + {15'd0, padcount};
wire is_config_of_another = opcode == `FANIN_OPCODE_CONFIG && version != `FANIN_WIRE_VERSION;

always @* begin
    if (!is_ours) drop = `DROP_NOT_OURS;
    else if (!icrc_is_right) drop = `DROP_ICRC;
    else if (bytes < CETH_AT[15:0]) drop = `DROP_SHORT;
    else if (opcode < `FANIN_OPCODE_CONTRIBUTION) drop = `DROP_ORDINARY;
    else if (opcode > `FANIN_OPCODE_KEEPALIVE || (source > 8'd63 && bytes > SOURCE_AT[15:0])) drop = `DROP_OPCODE;
    else if (bth_version != 4'd0 || bytes < EVERY_VERSION[15:0]) drop = `DROP_VERSION;
    else if (is_config_of_another && lane == 8'd0) drop = `DROP_NONE;
    else if (version != `FANIN_WIRE_VERSION || bytes < HEADERS[15:0]) drop = `DROP_VERSION;
    else if ({1'b0, bytes} != said || lane != 8'd0) drop = `DROP_LENGTH;
    else drop = `DROP_NONE;
end

// The Ethernet address of the receiver, source ports, what is reserved, and the rest of the second beat
wire unused = &{1'b0, head[1023:8*HEADERS], wire_order[8*HEADERS-1 -: 48], ceth[207:200], bth[87:86], bth[79:0], udp[63:48],
    udp[15:0]};

endmodule

`resetall
