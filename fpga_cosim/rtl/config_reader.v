// Reads the payload of a CONFIG from the ring: its body, and the entries of the path two by two (SPEC.md, 10.1).
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "engine_states.vh"

module config_reader (
    input  wire         clk,
    input  wire         rst,
    input  wire         starts,
    input  wire         ring_is_free, // nothing else reads it
    output wire         reads,
    output reg  [2:0]   beat,
    input  wire [511:0] ring_data,    // one clock later
    // the packet
    input  wire [31:0]  own_address,
    input  wire [15:0]  length,
    input  wire [7:0]   source,
    // the end: the payload is too short, or all is read
    output wire         fails,
    output wire         is_done,
    // what was read
    output reg          is_wrong,
    output reg  [63:0]  boot,
    output reg  [127:0] digest,
    output reg  [31:0]  slots,
    output reg  [31:0]  window,
    output reg  [31:0]  chunk,
    output reg  [63:0]  mask,  // the children of the job, by the first entry
    output reg  [7:0]   hops,
    output reg  [7:0]   lane,
    output reg  [7:0]   flags,
    output reg  [7:0]   route
);

localparam [7:0] TREE = 8'd1, RING_ROUTE = 8'd2, MAX_HOPS = 8'd8, ALL_FLAGS = 8'd7;
localparam [95:0] MAPPED = 96'hffff; // before an IPv4 address

wire [511:0] wire_data; // the beat in the order of the wire: the first byte is the highest
genvar i;
generate
    for (i = 0; i < 64; i = i + 1) begin : reversed
        assign wire_data[8*(63-i) +: 8] = ring_data[8*i +: 8];
    end
endgenerate

wire [7:0]  body_hops = wire_data[511 - `FANIN_CONFIG_HOPS_OFFSET -: 8];
wire [31:0] body_slots = wire_data[511 - `FANIN_CONFIG_SLOTS_OFFSET -: 32];
wire [31:0] body_window = wire_data[511 - `FANIN_CONFIG_WINDOW_OFFSET -: 32];
wire [31:0] body_chunk = wire_data[511 - `FANIN_CONFIG_CHUNK_OFFSET -: 32];
wire [7:0]  body_route = wire_data[511 - `FANIN_CONFIG_ROUTE_OFFSET -: 8];
wire [7:0]  body_flags = wire_data[511 - `FANIN_CONFIG_FLAGS_OFFSET -: 8];
wire [15:0] body_bytes = `FANIN_CONFIG_BYTES + {3'd0, body_hops, 5'd0};

// An entry: the address, the children, and the bit of the one from which the path comes
reg  [1:0]   state;
reg  [191:0] held; // the end of the beat before
reg  [3:0]   hop;
wire [255:0] even_hop = {held, wire_data[511:448]}, odd_hop = wire_data[447:192];
wire even_is_wrong = even_hop[255:160] != MAPPED || even_hop[63:56] > 8'd63 || !even_hop[64 + {26'd0, even_hop[61:56]}];
wire odd_is_wrong = odd_hop[255:160] != MAPPED || odd_hop[63:56] > 8'd63 || !odd_hop[64 + {26'd0, odd_hop[61:56]}];
wire own_hop_is_wrong = even_hop[159:128] != own_address || even_hop[63:56] != source;

assign reads = (state == `READ_WAIT && ring_is_free) || state == `READ_BODY || state == `READ_HOPS;
assign fails = state == `READ_BODY && (body_hops == 8'd0 || body_hops > MAX_HOPS || length < body_bytes);
assign is_done = state == `READ_HOPS && {4'd0, hop} + 8'd2 >= hops;

always @(posedge clk) begin
    case (state)
        `READ_IDLE: begin
            beat <= 3'd0;
            if (starts) state <= `READ_WAIT;
        end
        `READ_WAIT: if (ring_is_free) begin
            beat <= 3'd1;
            state <= `READ_BODY;
        end
        `READ_BODY: begin
            beat <= 3'd2;
            hop <= 4'd0;
            held <= wire_data[191:0];
            boot <= wire_data[511 - `FANIN_CONFIG_BOOT_ID_OFFSET -: 64];
            digest <= wire_data[511 - `FANIN_CONFIG_DIGEST_HIGH_OFFSET -: 128];
            slots <= body_slots;
            window <= body_window;
            chunk <= body_chunk;
            hops <= body_hops;
            lane <= wire_data[511 - `FANIN_CONFIG_LAST_LANE_OFFSET -: 8];
            flags <= body_flags;
            route <= body_route;
            is_wrong <= (body_route != TREE && body_route != RING_ROUTE)
                || body_slots < 32'd2 || (body_slots & (body_slots - 32'd1)) != 32'd0
                || body_window == 32'd0 || body_chunk == 32'd0 || body_flags > ALL_FLAGS;
            state <= fails ? `READ_IDLE : `READ_HOPS;
        end
        default: begin
            beat <= beat + 3'd1;
            hop <= hop + 4'd2;
            held <= wire_data[191:0];
            if (hop == 4'd0) mask <= even_hop[127:64];
            is_wrong <= is_wrong || even_is_wrong || (hop == 4'd0 && own_hop_is_wrong)
                || ({4'd0, hop} + 8'd1 < hops && odd_is_wrong);
            if (is_done) state <= `READ_IDLE;
        end
    endcase
    if (rst) state <= `READ_IDLE;
end

endmodule

`resetall
