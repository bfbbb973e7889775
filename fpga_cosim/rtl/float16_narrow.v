// f32 rounded to f16 or bf16, to nearest even. Any NaN becomes the canonical one (SPEC.md, 12-15 and 12-18).
//
// One number a clock; it comes 2 clocks with `advance` later.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float16_narrow (
    input  wire        clk,
    input  wire        advance,
    input  wire        is_bf16,
    input  wire [31:0] wide,
    output reg  [15:0] narrow
);

wire [7:0] exponent = wide[30:23];
wire is_nan = &exponent && wide[22:0] != 23'd0;

// A subnormal f16 has an exponent of 101 to 112 here: the number is shifted to its place, with all that falls out of it.
wire [48:0] shifted = {1'b1, wide[22:0], 25'd0} >> ~exponent[4:0];

// Stage 1: what is kept, and whether it is rounded up
reg        sign_1, rounds_1;
reg [14:0] kept_1;
always @(posedge clk) if (advance) begin
    sign_1 <= wide[31] && !is_nan;
    if (is_bf16) begin
        kept_1 <= is_nan ? 15'h7fc0 : wide[30:16];
        rounds_1 <= !is_nan && wide[15] && (wide[14:0] != 15'd0 || wide[16]);
    end else if (exponent >= 8'd143) begin
        kept_1 <= is_nan ? 15'h7e00 : 15'h7c00;
        rounds_1 <= 1'b0;
    end else if (exponent >= 8'd113) begin // the biases: 127 - 15 = 112
        kept_1 <= {exponent[4:0] - 5'd16, wide[22:13]};
        rounds_1 <= wide[12] && (wide[11:0] != 12'd0 || wide[13]);
    end else begin
        kept_1 <= exponent >= 8'd101 ? {5'd0, shifted[33:24]} : 15'd0;
        rounds_1 <= exponent >= 8'd101 && shifted[23] && (shifted[22:0] != 23'd0 || shifted[24]);
    end
end

// Stage 2: a carry goes into the exponent, and on to infinity.
always @(posedge clk) if (advance) narrow <= {sign_1, kept_1 + {14'd0, rounds_1}};

wire unused = &{1'b0, shifted[48:34]}; // zeros: a subnormal is shifted by 15 or more

endmodule

`resetall
