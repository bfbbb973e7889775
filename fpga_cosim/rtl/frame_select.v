// Separates the frames for the switch from all others that a MAC has received, each with its `tuser`.
//
// For the switch are UDP datagrams in whole IPv4 packets without options to its addresses and port, if it `is_on`. The
// first beat decides for the whole frame. Combinational: no clock between.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"

module frame_select #(
    parameter USER = 1
) (
    input  wire            clk,
    input  wire            rst,
    input  wire            is_on,
    input  wire [47:0]     own_mac,
    input  wire [31:0]     own_address,
    // from the MAC
    input  wire [511:0]    s_axis_tdata,
    input  wire [63:0]     s_axis_tkeep,
    input  wire            s_axis_tlast,
    input  wire            s_axis_tvalid,
    output wire            s_axis_tready,
    input  wire [USER-1:0] s_axis_tuser,
    // to the NIC
    output wire [511:0]    nic_axis_tdata,
    output wire [63:0]     nic_axis_tkeep,
    output wire            nic_axis_tlast,
    output wire            nic_axis_tvalid,
    input  wire            nic_axis_tready,
    output wire [USER-1:0] nic_axis_tuser,
    // to the switch
    output wire [511:0]    switch_axis_tdata,
    output wire [63:0]     switch_axis_tkeep,
    output wire            switch_axis_tlast,
    output wire            switch_axis_tvalid,
    input  wire            switch_axis_tready,
    output wire [USER-1:0] switch_axis_tuser
);

localparam MAC_AT = 0, TYPE_AT = 12, VERSION_AT = 14, FRAGMENT_AT = 20, PROTOCOL_AT = 23, ADDRESS_AT = 30, PORT_AT = 36;
localparam HEAD = PORT_AT + 2; // bytes that are looked at
localparam [15:0] TYPE_IPV4 = 16'h0800, PORT = `FANIN_UDP_PORT;
localparam [7:0]  VERSION_4_NO_OPTIONS = 8'h45, PROTOCOL_UDP = 8'd17;

// In the order of the wire: the first byte is the highest.
wire [8*HEAD-1:0] head;
genvar i;
generate
    for (i = 0; i < HEAD; i = i + 1) begin : reversed
        assign head[8*(HEAD-1-i) +: 8] = s_axis_tdata[8*i +: 8];
    end
endgenerate
wire [12:0] fragment_offset = head[8*(HEAD-FRAGMENT_AT-2) +: 13];
wire        more_fragments = head[8*(HEAD-FRAGMENT_AT-2) + 13];
wire is_for_switch = is_on && s_axis_tkeep[HEAD-1]
    && head[8*(HEAD-MAC_AT-6) +: 48] == own_mac
    && head[8*(HEAD-TYPE_AT-2) +: 16] == TYPE_IPV4
    && head[8*(HEAD-VERSION_AT-1) +: 8] == VERSION_4_NO_OPTIONS
    && fragment_offset == 13'd0 && !more_fragments
    && head[8*(HEAD-PROTOCOL_AT-1) +: 8] == PROTOCOL_UDP
    && head[8*(HEAD-ADDRESS_AT-4) +: 32] == own_address
    && head[8*(HEAD-PORT_AT-2) +: 16] == PORT;

reg is_decided, decision;
wire to_switch = is_decided ? decision : is_for_switch;

always @(posedge clk) begin
    if (s_axis_tvalid) begin
        is_decided <= !(s_axis_tlast && s_axis_tready);
        decision <= to_switch;
    end
    if (rst) is_decided <= 1'b0;
end

assign nic_axis_tvalid = s_axis_tvalid && !to_switch;
assign switch_axis_tvalid = s_axis_tvalid && to_switch;
assign s_axis_tready = to_switch ? switch_axis_tready : nic_axis_tready;
assign {nic_axis_tdata, nic_axis_tkeep, nic_axis_tlast, nic_axis_tuser}
    = {s_axis_tdata, s_axis_tkeep, s_axis_tlast, s_axis_tuser};
assign {switch_axis_tdata, switch_axis_tkeep, switch_axis_tlast, switch_axis_tuser}
    = {s_axis_tdata, s_axis_tkeep, s_axis_tlast, s_axis_tuser};

endmodule

`resetall
