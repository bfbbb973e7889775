// A queue of frames from one clock to another, in 2**ADDRESS beats. A frame comes out when all of it is in, without a
// gap. A frame with `s_bad` in its last beat is dropped. DROPS: 1: without room the stream never waits, and the whole
// frame is dropped, as after a MAC. 0: the stream waits; a frame must fit. `s_overflow` and `s_bad_frame`: a frame was
// dropped, for lack of room or as a bad one.
//
// A reset of one side empties the queue, on both sides. A frame that has begun to come out ends with the next beat, so
// that a frame follows, if a wrong one; of a frame that has begun to go in, nothing remains. A reset must last eight
// clocks of the slower side.
//
// Record 0106 (docs/decisions) says why whole frames, and why no Gray code.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module frame_fifo #(
    parameter ADDRESS = 9,
    parameter DROPS = 1
) (
    input  wire         s_clk,
    input  wire         s_rst,
    input  wire [511:0] s_axis_tdata,
    input  wire [63:0]  s_axis_tkeep,
    input  wire         s_axis_tlast,
    input  wire         s_axis_tvalid,
    output wire         s_axis_tready,
    input  wire         s_bad,
    output reg          s_overflow,
    output reg          s_bad_frame,
    input  wire         m_clk,
    input  wire         m_rst,
    output reg  [511:0] m_axis_tdata,
    output reg  [63:0]  m_axis_tkeep,
    output reg          m_axis_tlast,
    output reg          m_axis_tvalid,
    input  wire         m_axis_tready
);

reg [576:0] memory [0:(1<<ADDRESS)-1];

// Each side is in reset when the other is.
(* ASYNC_REG = "TRUE" *) reg [1:0] m_rst_seen; // of s_clk
(* ASYNC_REG = "TRUE" *) reg [1:0] s_rst_seen; // of m_clk
always @(posedge s_clk) m_rst_seen <= {m_rst_seen[0], m_rst};
always @(posedge m_clk) s_rst_seen <= {s_rst_seen[0], s_rst};
wire s_reset = s_rst || m_rst_seen[1];
wire m_reset = m_rst || s_rst_seen[1];

reg  [ADDRESS:0] write, committed; // the next beat; the end of the last whole frame
reg  [ADDRESS:0] read;
wire [ADDRESS:0] freed, limit;     // `read` as s_clk sees it, `committed` as m_clk does

clock_crossing #(.WIDTH(ADDRESS + 1)) committed_crossing (
    .s_clk(s_clk), .s_rst(s_reset), .s_value(committed), .m_clk(m_clk), .m_rst(m_reset), .m_value(limit)
);
clock_crossing #(.WIDTH(ADDRESS + 1)) read_crossing (
    .s_clk(m_clk), .s_rst(m_reset), .s_value(read), .m_clk(s_clk), .m_rst(s_reset), .m_value(freed)
);

// In
reg  is_inside, is_incomplete; // a frame has begun; and lacks a beat
wire [ADDRESS:0] filled = write - freed;
wire no_room = s_reset || filled[ADDRESS];
wire take = s_axis_tvalid && s_axis_tready;
wire is_lost = is_incomplete || no_room;
wire is_inside_then = take ? !s_axis_tlast : is_inside;
assign s_axis_tready = DROPS != 0 || !no_room;

always @(posedge s_clk) begin
    s_overflow <= take && s_axis_tlast && is_lost;
    s_bad_frame <= take && s_axis_tlast && !is_lost && s_bad;
    is_inside <= is_inside_then;
    if (take) begin
        is_incomplete <= is_lost && !s_axis_tlast;
        if (!is_lost) memory[write[ADDRESS-1:0]] <= {s_axis_tlast, s_axis_tkeep, s_axis_tdata};
        if (is_lost || (s_axis_tlast && s_bad)) write <= committed;
        else begin
            write <= write + 1'b1;
            if (s_axis_tlast) committed <= write + 1'b1;
        end
    end
    if (s_reset) begin
        write <= {(ADDRESS + 1){1'b0}};
        committed <= {(ADDRESS + 1){1'b0}};
        is_incomplete <= is_inside_then;
    end
    if (s_rst) begin
        is_inside <= 1'b0;
        is_incomplete <= 1'b0;
        s_overflow <= 1'b0;
        s_bad_frame <= 1'b0;
    end
end

// Out
reg  has_begun; // a beat of a frame has been taken, and its last has not
wire gives = m_axis_tvalid && m_axis_tready;
wire has_begun_then = gives ? !m_axis_tlast : has_begun;
wire advances = gives || !m_axis_tvalid;
wire waits = m_axis_tvalid && !m_axis_tready;

always @(posedge m_clk) begin
    has_begun <= has_begun_then;
    if (advances) begin
        m_axis_tvalid <= read != limit;
        {m_axis_tlast, m_axis_tkeep, m_axis_tdata} <= memory[read[ADDRESS-1:0]];
        if (read != limit) read <= read + 1'b1;
    end
    if (m_reset) begin
        read <= {(ADDRESS + 1){1'b0}};
        m_axis_tvalid <= has_begun_then || waits;
        m_axis_tlast <= 1'b1;
    end
    if (m_rst) begin
        has_begun <= 1'b0;
        m_axis_tvalid <= 1'b0;
    end
end

endmodule

`resetall
