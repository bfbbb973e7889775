// Joins the frames of NIC and switch for a MAC to send: in turns, if both wait. Combinational: no clock between. The
// NIC's frames keep their `tuser`; that of the switch's is 0.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module frame_merge #(
    parameter USER = 1
) (
    input  wire            clk,
    input  wire            rst,
    // from the NIC
    input  wire [511:0]    nic_axis_tdata,
    input  wire [63:0]     nic_axis_tkeep,
    input  wire            nic_axis_tlast,
    input  wire            nic_axis_tvalid,
    output wire            nic_axis_tready,
    input  wire [USER-1:0] nic_axis_tuser,
    // from the switch
    input  wire [511:0]    switch_axis_tdata,
    input  wire [63:0]     switch_axis_tkeep,
    input  wire            switch_axis_tlast,
    input  wire            switch_axis_tvalid,
    output wire            switch_axis_tready,
    // to the MAC
    output wire [511:0]    m_axis_tdata,
    output wire [63:0]     m_axis_tkeep,
    output wire            m_axis_tlast,
    output wire            m_axis_tvalid,
    input  wire            m_axis_tready,
    output wire [USER-1:0] m_axis_tuser
);

reg is_decided; // a frame is under way
reg was_switch; // who has it, or had the last: 1: the switch
wire of_switch = is_decided ? was_switch : switch_axis_tvalid && !(nic_axis_tvalid && was_switch);

always @(posedge clk) begin
    if (m_axis_tvalid) begin
        is_decided <= !(m_axis_tlast && m_axis_tready);
        was_switch <= of_switch;
    end
    if (rst) begin
        is_decided <= 1'b0;
        was_switch <= 1'b0;
    end
end

assign m_axis_tvalid = of_switch ? switch_axis_tvalid : nic_axis_tvalid;
assign {m_axis_tdata, m_axis_tkeep, m_axis_tlast, m_axis_tuser} = of_switch
    ? {switch_axis_tdata, switch_axis_tkeep, switch_axis_tlast, {USER{1'b0}}}
    : {nic_axis_tdata, nic_axis_tkeep, nic_axis_tlast, nic_axis_tuser};
assign nic_axis_tready = !of_switch && m_axis_tready;
assign switch_axis_tready = of_switch && m_axis_tready;

endmodule

`resetall
