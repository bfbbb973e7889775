// The reciprocal of a number of ranks: MEAN multiplies by it, and gets the quotients of a division (SPEC.md, 12-25).
//
// With 2**(shift-1) < d <= 2**shift, the quotient 2**(64+shift) / d, rounded up, is 2**64 + `reciprocal`. For each whole n
// below 2**64, n / d rounded down is n * (2**64 + reciprocal) / 2**(64+shift) rounded down: Granlund and Montgomery,
// "Division by Invariant Integers using Multiplication", 1994, theorem 4.2. For floats, d is `divisor` as f32.
//
// `valid` stays high, with the same divisor of 2 or more, until `ready`, and falls before the next one. A divisor that
// came before is ready 3 clocks later, another one 36: the reciprocals of 2**ENTRIES divisors are kept, by their low bits.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module reciprocal_table #(
    parameter ENTRIES = 6
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        valid,
    input  wire [31:0] divisor,
    input  wire        is_float,
    output wire        ready,
    output reg  [63:0] reciprocal,
    output wire [5:0]  shift
);

localparam [2:0] IDLE = 3'd0, READ = 3'd1, LOOK = 3'd2, DIVIDE = 3'd3, ROUND = 3'd4, READY = 3'd5;

reg [2:0]  state;
reg [4:0]  step;
reg [32:0] d, remainder; // what is left of 2**shift * 2**step, less than d
reg [(1<<ENTRIES)-1:0] known;

// The divisor as f32: 24 bits from the first one on, rounded to nearest even.
reg [5:0]  bits; // how many it has, from the first one on
reg [3:0]  excess;
reg [32:0] below, as_float;
integer i;
always @* begin
    bits = 6'd0;
    for (i = 0; i < 32; i = i + 1) begin
        if (divisor[i]) bits = i[5:0] + 6'd1;
    end
    excess = bits > 6'd24 ? bits[3:0] - 4'd8 : 4'd0; // 1 to 8
    below = (33'd1 << excess) >> 1;
    as_float = {1'b0, divisor} + (below == 33'd0 ? 33'd0 : below - {32'd0, !divisor[{1'b0, excess}]});
    as_float = (as_float >> excess) << excess;
end

reg [5:0] places; // of d - 1
integer k;
always @* begin
    places = 6'd1;
    for (k = 1; k < 33; k = k + 1) begin
        if (d > 33'd1 << k) places = k[5:0] + 6'd1;
    end
end
assign shift = places;

// Two bits of the quotient a clock
wire [33:0] once = {remainder, 1'b0};
wire        first = once >= {1'b0, d};
wire [32:0] left = first ? once[32:0] - d : once[32:0];
wire [33:0] twice = {left, 1'b0};
wire        second = twice >= {1'b0, d};

wire [32:0] kept_d;
wire [63:0] kept;
ram #(.WIDTH(97), .ADDRESS(ENTRIES)) entries (
    .clk(clk), .write_enable(state == ROUND), .write_address(d[ENTRIES-1:0]),
    .write_data({d, reciprocal + {63'd0, remainder != 33'd0}}),
    .read_enable(1'b1), .read_address(d[ENTRIES-1:0]), .read_data({kept_d, kept})
);
assign ready = state == READY;

always @(posedge clk) begin
    case (state)
        IDLE: begin
            d <= is_float ? as_float : {1'b0, divisor};
            if (valid) state <= READ;
        end
        READ: state <= LOOK;
        LOOK: begin
            step <= 5'd0;
            remainder <= (33'd1 << shift) - d; // the first one of the quotient is that of 2**64
            reciprocal <= kept;
            state <= known[d[ENTRIES-1:0]] && kept_d == d ? READY : DIVIDE;
        end
        DIVIDE: begin
            step <= step + 5'd1;
            remainder <= second ? twice[32:0] - d : twice[32:0];
            reciprocal <= {reciprocal[61:0], first, second};
            if (step == 5'd31) state <= ROUND;
        end
        ROUND: begin
            reciprocal <= reciprocal + {63'd0, remainder != 33'd0};
            known[d[ENTRIES-1:0]] <= 1'b1;
            state <= READY;
        end
        default: if (!valid) state <= IDLE;
    endcase
    if (rst) begin
        state <= IDLE;
        known <= {(1 << ENTRIES){1'b0}};
    end
end

endmodule

`resetall
