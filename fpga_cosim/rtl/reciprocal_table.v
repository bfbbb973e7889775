// The reciprocal of a number of ranks: MEAN multiplies by it, and gets the quotients of a division (SPEC.md, 12-25).
//
// With 2**(shift-1) <= d < 2**shift, 2**64 + `reciprocal` is (2**(64+shift) - 1) / d, rounded down. Its upper bits are
// (2**(N+shift) - 1) / d, rounded down, for each N below 64, too; and one more is 2**(N+shift) / d, rounded up. For
// floats, d is `divisor` as f32.
//
// `valid` stays high, with the same divisor of 2 or more, until `ready`, and falls before the next one. The reciprocals
// of 2**ENTRIES divisors are kept, by their low bits: a kept divisor is ready 3 clocks later, another one 37.
//
// Record 0106 (docs/decisions) says why MEAN multiplies, and by how many bits.
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
    output reg  [5:0]  shift
);

localparam [2:0] IDLE = 3'd0, READ = 3'd1, LOOK = 3'd2, BEGIN = 3'd3, DIVIDE = 3'd4, KEEP = 3'd5, READY = 3'd6;

reg [2:0]  state;
reg [4:0]  step;
reg [32:0] asked; // the divisor, and above it whether it is rounded
reg [32:0] d;
reg [(1<<ENTRIES)-1:0] known;

// The divisor as f32: 24 bits from the first one on, rounded to nearest even.
reg  [3:0]  excess; // bits more than 24: 0 to 8
wire [32:0] dropped = ~({33{1'b1}} << excess);
wire        is_odd = excess != 4'd0 && asked[{2'd0, excess}];
wire [32:0] nearest = ({1'b0, asked[31:0]} + (dropped >> 1) + {32'd0, is_odd}) & ~dropped;
integer i;

// The first one of d: all bits from it on, and its place
reg  [32:0] below;
wire [32:0] first = below & ~(below >> 1);
reg  [5:0]  bits;
integer k;
always @* begin
    below = d | (d >> 1);
    below = below | (below >> 2);
    below = below | (below >> 4);
    below = below | (below >> 8);
    below = below | (below >> 16);
    below = below | (below >> 32);
    bits = 6'd0;
    for (k = 0; k < 33; k = k + 1) begin
        if (first[k]) bits = bits | (k[5:0] + 6'd1);
    end
end

// Two bits of the quotient a clock. All bits of the dividend are ones.
reg  [32:0] remainder; // less than d
reg  [34:0] triple;    // of d
wire [34:0] four = {remainder, 2'b11};
wire [35:0] less_one = {1'b0, four} - {3'd0, d};
wire [35:0] less_two = {1'b0, four} - {2'd0, d, 1'b0};
wire [35:0] less_three = {1'b0, four} - {1'b0, triple};
wire [1:0]  digit = !less_three[35] ? 2'd3 : !less_two[35] ? 2'd2 : {1'b0, !less_one[35]};

wire [32:0] kept_asked;
wire [63:0] kept;
wire [5:0]  kept_shift;
ram #(.WIDTH(33 + 6 + 64), .ADDRESS(ENTRIES)) entries (
    .clk(clk), .write_enable(state == KEEP), .write_address(asked[ENTRIES-1:0]), .write_data({asked, shift, reciprocal}),
    .read_enable(1'b1), .read_address(asked[ENTRIES-1:0]), .read_data({kept_asked, kept_shift, kept})
);
assign ready = state == READY;

always @(posedge clk) begin
    case (state)
        IDLE: begin
            asked <= {is_float && divisor[31:24] != 8'd0, divisor};
            if (valid) state <= READ;
        end
        READ: begin
            excess <= 4'd0;
            for (i = 0; i < 8; i = i + 1) begin
                if (asked[32] && asked[24 + i]) excess <= i[3:0] + 4'd1;
            end
            state <= LOOK;
        end
        LOOK: begin
            d <= nearest;
            {shift, reciprocal} <= {kept_shift, kept};
            state <= known[asked[ENTRIES-1:0]] && kept_asked == asked ? READY : BEGIN;
        end
        BEGIN: begin
            step <= 5'd0;
            shift <= bits;
            remainder <= below & ~d; // the first one of the quotient is that of 2**64
            triple <= {2'd0, d} + {1'b0, d, 1'b0};
            state <= DIVIDE;
        end
        DIVIDE: begin
            step <= step + 5'd1;
            case (digit)
                2'd3: remainder <= less_three[32:0];
                2'd2: remainder <= less_two[32:0];
                2'd1: remainder <= less_one[32:0];
                default: remainder <= four[32:0];
            endcase
            reciprocal <= {reciprocal[61:0], digit};
            if (step == 5'd31) state <= KEEP;
        end
        KEEP: begin
            known[asked[ENTRIES-1:0]] <= 1'b1;
            state <= READY;
        end
        default: if (!valid) state <= IDLE;
    endcase
    if (rst) begin
        state <= IDLE;
        known <= {(1 << ENTRIES){1'b0}};
    end
end

wire unused = &{1'b0, less_one[34:33], less_two[34:33], less_three[34:33]}; // zeros of a digit that fits

endmodule

`resetall
