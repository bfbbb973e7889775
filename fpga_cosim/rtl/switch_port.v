// The switch between a NIC and its MAC: both share the port. Frames for the switch leave the stream that the MAC
// receives, frames of the switch join the stream that the MAC sends, and everything else passes.
//
//   MAC ==> frame_select =======================================================> NIC      rx_clk
//                `==> frame_fifo ==> switch_core ==> frame_fifo ==.                         clk, in between
//   MAC <=======================================================  frame_merge <== NIC      tx_clk
//
// A MAC does not wait, so frames for the switch are dropped when their queue is full: the protocol recovers them.
// Frames of the switch wait for their turn. Bit 0 of the MAC's `rx_tuser` marks a bad frame in its last beat.
//
// Turned off (switch_registers.v), the switch gets no more frames, finishes its work, and goes into reset. PERIOD_NUM /
// PERIOD_DENOM are the nanoseconds of `clk`.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "drop_reasons.vh"

module switch_port #(
    parameter RX_USER = 1,
    parameter TX_USER = 1,
    parameter REGISTER_ADDRESS = 16, // bits of an address of AXI-Lite
    parameter PERIOD_NUM = 4,
    parameter PERIOD_DENOM = 1,
    parameter QUEUE = 9, // 2**QUEUE beats wait before the switch: 32 KiB
    parameter JOBS = 4,  // see switch_core.v
    parameter LEASE = 5,
    parameter CHUNK = 4,
    parameter REPRODUCIBLE = 1
) (
    input  wire               clk,
    input  wire               rst,
    // from the MAC
    input  wire               rx_clk,
    input  wire               rx_rst,
    input  wire [511:0]       s_axis_rx_tdata,
    input  wire [63:0]        s_axis_rx_tkeep,
    input  wire               s_axis_rx_tlast,
    input  wire               s_axis_rx_tvalid,
    output wire               s_axis_rx_tready,
    input  wire [RX_USER-1:0] s_axis_rx_tuser,
    // to the NIC
    output wire [511:0]       m_axis_rx_tdata,
    output wire [63:0]        m_axis_rx_tkeep,
    output wire               m_axis_rx_tlast,
    output wire               m_axis_rx_tvalid,
    input  wire               m_axis_rx_tready,
    output wire [RX_USER-1:0] m_axis_rx_tuser,
    // from the NIC
    input  wire               tx_clk,
    input  wire               tx_rst,
    input  wire [511:0]       s_axis_tx_tdata,
    input  wire [63:0]        s_axis_tx_tkeep,
    input  wire               s_axis_tx_tlast,
    input  wire               s_axis_tx_tvalid,
    output wire               s_axis_tx_tready,
    input  wire [TX_USER-1:0] s_axis_tx_tuser,
    // to the MAC
    output wire [511:0]       m_axis_tx_tdata,
    output wire [63:0]        m_axis_tx_tkeep,
    output wire               m_axis_tx_tlast,
    output wire               m_axis_tx_tvalid,
    input  wire               m_axis_tx_tready,
    output wire [TX_USER-1:0] m_axis_tx_tuser,
    // the host
    input  wire [REGISTER_ADDRESS-1:0] s_axil_awaddr,
    input  wire               s_axil_awvalid,
    output wire               s_axil_awready,
    input  wire [31:0]        s_axil_wdata,
    input  wire [3:0]         s_axil_wstrb,
    input  wire               s_axil_wvalid,
    output wire               s_axil_wready,
    output wire [1:0]         s_axil_bresp,
    output wire               s_axil_bvalid,
    input  wire               s_axil_bready,
    input  wire [REGISTER_ADDRESS-1:0] s_axil_araddr,
    input  wire               s_axil_arvalid,
    output wire               s_axil_arready,
    output wire [31:0]        s_axil_rdata,
    output wire [1:0]         s_axil_rresp,
    output wire               s_axil_rvalid,
    input  wire               s_axil_rready
);

wire        is_on;
reg         runs;
wire [47:0] own_mac;
wire [31:0] own_address, group_address;
wire [15:0] group_size;

// Received, in rx_clk
wire        rx_is_on;
wire [47:0] rx_own_mac;
wire [31:0] rx_own_address;
clock_crossing #(.WIDTH(81)) settings_crossing (
    .s_clk(clk), .s_rst(rst), .s_value({is_on, own_mac, own_address}),
    .m_clk(rx_clk), .m_rst(rx_rst), .m_value({rx_is_on, rx_own_mac, rx_own_address})
);

wire [511:0] chosen_tdata;
wire [63:0]  chosen_tkeep;
wire         chosen_tlast, chosen_tvalid, chosen_tready;
wire [RX_USER-1:0] chosen_tuser;
frame_select #(.USER(RX_USER)) frame_select_inst (
    .clk(rx_clk), .rst(rx_rst), .is_on(rx_is_on), .own_mac(rx_own_mac), .own_address(rx_own_address),
    .s_axis_tdata(s_axis_rx_tdata), .s_axis_tkeep(s_axis_rx_tkeep), .s_axis_tlast(s_axis_rx_tlast),
    .s_axis_tvalid(s_axis_rx_tvalid), .s_axis_tready(s_axis_rx_tready), .s_axis_tuser(s_axis_rx_tuser),
    .nic_axis_tdata(m_axis_rx_tdata), .nic_axis_tkeep(m_axis_rx_tkeep), .nic_axis_tlast(m_axis_rx_tlast),
    .nic_axis_tvalid(m_axis_rx_tvalid), .nic_axis_tready(m_axis_rx_tready), .nic_axis_tuser(m_axis_rx_tuser),
    .switch_axis_tdata(chosen_tdata), .switch_axis_tkeep(chosen_tkeep), .switch_axis_tlast(chosen_tlast),
    .switch_axis_tvalid(chosen_tvalid), .switch_axis_tready(chosen_tready), .switch_axis_tuser(chosen_tuser)
);

wire [511:0] in_tdata;
wire [63:0]  in_tkeep;
wire         in_tlast, in_tvalid, in_tready, overflow, bad_frame;
frame_fifo #(.ADDRESS(QUEUE), .DROPS(1)) before_switch (
    .s_clk(rx_clk), .s_rst(rx_rst), .s_axis_tdata(chosen_tdata), .s_axis_tkeep(chosen_tkeep),
    .s_axis_tlast(chosen_tlast), .s_axis_tvalid(chosen_tvalid), .s_axis_tready(chosen_tready), .s_bad(chosen_tuser[0]),
    .s_overflow(overflow), .s_bad_frame(bad_frame), .m_clk(clk), .m_rst(rst), .m_axis_tdata(in_tdata),
    .m_axis_tkeep(in_tkeep), .m_axis_tlast(in_tlast), .m_axis_tvalid(in_tvalid), .m_axis_tready(in_tready)
);

reg  [31:0] rx_overflows, rx_bad_frames;
wire [31:0] overflows, bad_frames;
always @(posedge rx_clk) begin
    rx_overflows <= rx_overflows + {31'd0, overflow};
    rx_bad_frames <= rx_bad_frames + {31'd0, bad_frame};
    if (rx_rst) begin
        rx_overflows <= 32'd0;
        rx_bad_frames <= 32'd0;
    end
end
clock_crossing #(.WIDTH(64)) counters_crossing (
    .s_clk(rx_clk), .s_rst(rx_rst), .s_value({rx_overflows, rx_bad_frames}),
    .m_clk(clk), .m_rst(rst), .m_value({overflows, bad_frames})
);

// The switch, in clk. What still waits when it goes into reset is dropped.
wire         core_tready, out_tready, out_tvalid, out_tlast, is_idle;
wire [511:0] out_tdata;
wire [63:0]  out_tkeep;
wire [32*`DROP_REASONS-1:0] drops;
reg  [39:0]  now_us;
reg  [31:0]  phase; // of a microsecond, in units of 1 / PERIOD_DENOM ns
reg  [31:0]  received, sent;
localparam [31:0] CLOCK = PERIOD_NUM, MICROSECOND = 1000 * PERIOD_DENOM;

assign in_tready = core_tready || !runs;

always @(posedge clk) begin
    runs <= runs ? is_on || !is_idle || in_tvalid : is_on && (!in_tvalid || in_tlast); // it begins with a whole frame
    received <= received + {31'd0, in_tvalid && in_tready && in_tlast};
    sent <= sent + {31'd0, out_tvalid && out_tready && out_tlast};
    if (phase + CLOCK >= MICROSECOND) begin
        phase <= phase + CLOCK - MICROSECOND;
        now_us <= now_us + 40'd1;
    end else phase <= phase + CLOCK;
    if (rst) begin
        runs <= 1'b0;
        received <= 32'd0;
        sent <= 32'd0;
        phase <= 32'd0;
        now_us <= 40'd0;
    end
end

switch_core #(.JOBS(JOBS), .LEASE(LEASE), .CHUNK(CHUNK), .REPRODUCIBLE(REPRODUCIBLE)) switch_core_inst (
    .clk(clk), .rst(!runs), .own_mac(own_mac), .own_address(own_address), .group_address(group_address),
    .group_size(group_size), .now_us(now_us), .s_axis_tdata(in_tdata), .s_axis_tkeep(in_tkeep),
    .s_axis_tlast(in_tlast), .s_axis_tvalid(in_tvalid), .s_axis_tready(core_tready), .m_axis_tdata(out_tdata),
    .m_axis_tkeep(out_tkeep), .m_axis_tlast(out_tlast), .m_axis_tvalid(out_tvalid), .m_axis_tready(out_tready),
    .drops(drops), .is_idle(is_idle)
);

switch_registers #(.ADDRESS(REGISTER_ADDRESS)) switch_registers_inst (
    .clk(clk), .rst(rst), .s_axil_awaddr(s_axil_awaddr), .s_axil_awvalid(s_axil_awvalid),
    .s_axil_awready(s_axil_awready), .s_axil_wdata(s_axil_wdata), .s_axil_wstrb(s_axil_wstrb),
    .s_axil_wvalid(s_axil_wvalid), .s_axil_wready(s_axil_wready), .s_axil_bresp(s_axil_bresp),
    .s_axil_bvalid(s_axil_bvalid), .s_axil_bready(s_axil_bready), .s_axil_araddr(s_axil_araddr),
    .s_axil_arvalid(s_axil_arvalid), .s_axil_arready(s_axil_arready), .s_axil_rdata(s_axil_rdata),
    .s_axil_rresp(s_axil_rresp), .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready), .is_on(is_on),
    .runs(runs), .own_mac(own_mac), .own_address(own_address), .group_address(group_address), .group_size(group_size),
    .received(received), .sent(sent), .overflows(overflows), .bad_frames(bad_frames), .drops(drops)
);

// Sent, in tx_clk
wire [511:0] ready_tdata;
wire [63:0]  ready_tkeep;
wire         ready_tlast, ready_tvalid, ready_tready, is_cut, never_bad;
frame_fifo #(.ADDRESS(CHUNK + 3), .DROPS(0)) behind_switch (
    .s_clk(clk), .s_rst(rst), .s_axis_tdata(out_tdata), .s_axis_tkeep(out_tkeep), .s_axis_tlast(out_tlast),
    .s_axis_tvalid(out_tvalid), .s_axis_tready(out_tready), .s_bad(1'b0),
    .s_overflow(is_cut), .s_bad_frame(never_bad), .m_clk(tx_clk), .m_rst(tx_rst), .m_axis_tdata(ready_tdata),
    .m_axis_tkeep(ready_tkeep), .m_axis_tlast(ready_tlast), .m_axis_tvalid(ready_tvalid), .m_axis_tready(ready_tready)
);

frame_merge #(.USER(TX_USER)) frame_merge_inst (
    .clk(tx_clk), .rst(tx_rst), .nic_axis_tdata(s_axis_tx_tdata), .nic_axis_tkeep(s_axis_tx_tkeep),
    .nic_axis_tlast(s_axis_tx_tlast), .nic_axis_tvalid(s_axis_tx_tvalid), .nic_axis_tready(s_axis_tx_tready),
    .nic_axis_tuser(s_axis_tx_tuser), .switch_axis_tdata(ready_tdata), .switch_axis_tkeep(ready_tkeep),
    .switch_axis_tlast(ready_tlast), .switch_axis_tvalid(ready_tvalid), .switch_axis_tready(ready_tready),
    .m_axis_tdata(m_axis_tx_tdata), .m_axis_tkeep(m_axis_tx_tkeep), .m_axis_tlast(m_axis_tx_tlast),
    .m_axis_tvalid(m_axis_tx_tvalid), .m_axis_tready(m_axis_tx_tready), .m_axis_tuser(m_axis_tx_tuser)
);

wire unused = &{1'b0, chosen_tuser, is_cut, never_bad};

endmodule

`resetall
