// The switch's settings and counters on AXI-Lite: register_map.vh. A write of a part of a word, to a register that can
// only be read, or to a setting while the switch runs changes nothing and is answered with SLVERR.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"
`include "register_map.vh"

module switch_registers #(
    parameter ADDRESS = 16 // bits of an address; registers are in its lowest 256 bytes
) (
    input  wire               clk,
    input  wire               rst,
    input  wire [ADDRESS-1:0] s_axil_awaddr,
    input  wire               s_axil_awvalid,
    output wire               s_axil_awready,
    input  wire [31:0]        s_axil_wdata,
    input  wire [3:0]         s_axil_wstrb,
    input  wire               s_axil_wvalid,
    output wire               s_axil_wready,
    output reg  [1:0]         s_axil_bresp,
    output reg                s_axil_bvalid,
    input  wire               s_axil_bready,
    input  wire [ADDRESS-1:0] s_axil_araddr,
    input  wire               s_axil_arvalid,
    output wire               s_axil_arready,
    output reg  [31:0]        s_axil_rdata,
    output wire [1:0]         s_axil_rresp,
    output reg                s_axil_rvalid,
    input  wire               s_axil_rready,
    output reg                is_on,
    input  wire               runs,
    output reg  [47:0]        own_mac,
    output reg  [31:0]        own_address,
    output reg  [31:0]        group_address,
    output reg  [15:0]        group_size,
    input  wire [31:0]        received,
    input  wire [31:0]        sent,
    input  wire [31:0]        overflows,
    input  wire [31:0]        bad_frames,
    input  wire [32*`DROP_REASONS-1:0] drops
);

localparam [1:0] OKAY = 2'b00, SLVERR = 2'b10;

// Writes: address and data together.
wire write = s_axil_awvalid && s_axil_wvalid && (!s_axil_bvalid || s_axil_bready);
wire write_is_here = s_axil_awaddr >> 8 == 0 && s_axil_wstrb == 4'b1111;
wire may_set = !is_on && !runs;
assign s_axil_awready = write;
assign s_axil_wready = write;

always @(posedge clk) begin
    if (s_axil_bready) s_axil_bvalid <= 1'b0;
    if (write) begin
        s_axil_bvalid <= 1'b1;
        s_axil_bresp <= SLVERR;
        if (write_is_here && s_axil_awaddr[7:0] == `REGISTER_CONTROL) begin
            s_axil_bresp <= OKAY;
            is_on <= s_axil_wdata[0];
        end
        if (write_is_here && may_set) case (s_axil_awaddr[7:0])
            `REGISTER_MAC_HIGH: begin s_axil_bresp <= OKAY; own_mac[47:32] <= s_axil_wdata[15:0]; end
            `REGISTER_MAC_LOW: begin s_axil_bresp <= OKAY; own_mac[31:0] <= s_axil_wdata; end
            `REGISTER_ADDRESS: begin s_axil_bresp <= OKAY; own_address <= s_axil_wdata; end
            `REGISTER_GROUP: begin s_axil_bresp <= OKAY; group_address <= s_axil_wdata; end
            `REGISTER_GROUP_SIZE: begin s_axil_bresp <= OKAY; group_size <= s_axil_wdata[15:0]; end
            default: ;
        endcase
    end
    if (rst) begin
        s_axil_bvalid <= 1'b0;
        is_on <= 1'b0;
        own_mac <= 48'd0;
        own_address <= 32'd0;
        group_address <= 32'd0;
        group_size <= 16'd0;
    end
end

// Reads
reg [31:0] value;
integer reason;
always @* begin
    value = 32'd0;
    if (s_axil_araddr >> 8 == 0) begin
        case (s_axil_araddr[7:0])
            `REGISTER_IDENTITY: value = `REGISTER_IDENTITY_VALUE;
            `REGISTER_VERSION: value = `FANIN_WIRE_VERSION;
            `REGISTER_CONTROL: value = {31'd0, is_on};
            `REGISTER_STATUS: value = {31'd0, runs};
            `REGISTER_MAC_HIGH: value = {16'd0, own_mac[47:32]};
            `REGISTER_MAC_LOW: value = own_mac[31:0];
            `REGISTER_ADDRESS: value = own_address;
            `REGISTER_GROUP: value = group_address;
            `REGISTER_GROUP_SIZE: value = {16'd0, group_size};
            `REGISTER_RECEIVED: value = received;
            `REGISTER_SENT: value = sent;
            `REGISTER_OVERFLOWS: value = overflows;
            `REGISTER_BAD_FRAMES: value = bad_frames;
            default: ;
        endcase
        for (reason = 0; reason < `DROP_REASONS; reason = reason + 1)
            if (s_axil_araddr[7:0] == `REGISTER_DROPS + 4 * reason[7:0]) value = drops[32*reason +: 32];
    end
end

assign s_axil_arready = !s_axil_rvalid || s_axil_rready;
assign s_axil_rresp = OKAY;
always @(posedge clk) begin
    if (s_axil_arready) begin
        s_axil_rvalid <= s_axil_arvalid;
        s_axil_rdata <= value;
    end
    if (rst) s_axil_rvalid <= 1'b0;
end

endmodule

`resetall
