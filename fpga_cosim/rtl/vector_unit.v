// One step of an operation on a whole beat: WIDTH bits of elements of one type, side by side (SPEC.md, 12-3 to 12-20,
// 12-24, 12-26 and 12-29 to 12-32). Operation 0 takes b as it is: so the first data are copied, bit for bit (12-3, 12-4).
// With `keeps` there is no b, and the result is a.
//
// A value is kept as it is computed, and f16 and bf16 are computed as f32 (12-17, 12-18): `a` and `result` then are twice
// as wide, `a_high` and `result_high` above them. Of 64 bits of data, which are four elements, the lower two are in the
// same 64 bits of `result`, the upper two in those of `result_high`. `rounded` is the value as it is sent.
//
// One beat a clock, in clocks with `advance`: `a` and `a_high` come 1 clock after op, dtype, keeps and b; `result` comes 8
// clocks after op, and `rounded` 10. Operation and type may change in each beat.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"

module vector_unit #(
    parameter WIDTH = 512 // a multiple of 64
) (
    input  wire             clk,
    input  wire             advance,
    input  wire [7:0]       op,
    input  wire [7:0]       dtype,
    input  wire             keeps,
    input  wire [WIDTH-1:0] b,
    input  wire [WIDTH-1:0] a, // one clock later
    input  wire [WIDTH-1:0] a_high,
    output wire [WIDTH-1:0] result,
    output wire [WIDTH-1:0] result_high,
    output wire [WIDTH-1:0] rounded
);

localparam FLOATS = 7; // clocks of float32_add and of float32_multiply
localparam [2:0] UNCHANGED = 3'd0, INTEGERS = 3'd1, EXTREMES = 3'd2, SUMS = 3'd3, PAIRS = 3'd4,
    INTEGER_PRODUCTS = 3'd5, FLOAT_PRODUCTS = 3'd6, KEPT = 3'd7; // whose result counts

// What the beat is: it goes along with its data, from stage to stage.
wire is_computed, is_float, is_signed, is_small, is_bf16, is_pair;
wire [1:0] size_log2;
computed_operation computed_operation_inst (
    .op(op), .dtype(dtype), .is_computed(is_computed), .is_float(is_float), .is_signed(is_signed), .is_small(is_small),
    .is_bf16(is_bf16), .is_pair(is_pair), .size_log2(size_log2)
);

reg  [7:0] op_1;
reg  [1:0] size_log2_1;
reg  [2:0] unit_1;
reg        is_signed_1, is_small_1, is_bf16_1, is_float_1;
reg  [2:0] unit_2, unit_3, unit_4, unit_5;
wire [2:0] unit_8, unit_10;
wire       is_small_8, is_bf16_8, is_small_10;

always @(posedge clk) if (advance) begin
    op_1 <= op;
    size_log2_1 <= size_log2;
    is_signed_1 <= is_signed;
    is_small_1 <= is_small;
    is_bf16_1 <= is_bf16;
    is_float_1 <= is_float;
    {unit_2, unit_3, unit_4, unit_5} <= {unit_1, unit_2, unit_3, unit_4};
    if (keeps) unit_1 <= KEPT;
    else if (op == `FANIN_OP_NONE) unit_1 <= UNCHANGED;
    else if (is_pair) unit_1 <= PAIRS;
    else case (op)
        `FANIN_OP_PROD: unit_1 <= is_float ? FLOAT_PRODUCTS : INTEGER_PRODUCTS;
        `FANIN_OP_SUM, `FANIN_OP_MEAN: unit_1 <= is_float ? SUMS : INTEGERS;
        default: unit_1 <= is_float ? EXTREMES : INTEGERS;
    endcase
end
delay #(.WIDTH(5), .CLOCKS(FLOATS)) kind (
    .clk(clk), .advance(advance), .data({unit_1, is_small_1, is_bf16_1}), .delayed({unit_8, is_small_8, is_bf16_8})
);
delay #(.WIDTH(4), .CLOCKS(2)) last_kind (
    .clk(clk), .advance(advance), .data({unit_8, is_small_8}), .delayed({unit_10, is_small_10})
);

genvar lane, part;
generate
    for (lane = 0; lane < WIDTH / 64; lane = lane + 1) begin : lanes
        wire [63:0]  own_b = b[64*lane +: 64];
        wire [127:0] widened, extremes_3, operand_3, sums_8, float_products_8, others_8;
        wire [63:0]  integers_4, products_5, pairs_3, narrowed_10, total_10, given_10;
        wire [127:0] a_1 = {a_high[64*lane +: 64], a[64*lane +: 64]};
        reg  [127:0] b_1, others_4, others_5, total_8; // the upper half is there for f16 and bf16
        reg  [63:0]  given_1; // b as it came

        // Stage 1: the data in the form in which they are computed
        always @(posedge clk) if (advance) begin
            b_1 <= {widened[127:64], is_small ? widened[63:0] : own_b};
            given_1 <= own_b;
        end

        // Stages 2 to 8; what takes less time is held back.
        integer_unit integer_unit_inst (
            .clk(clk), .advance(advance), .op(op_1), .size_log2(size_log2_1), .is_signed(is_signed_1), .a(a_1[63:0]),
            .b(b_1[63:0]), .result(integers_4)
        );
        integer_multiply integer_multiply_inst (
            .clk(clk), .advance(advance), .size_log2(size_log2_1), .a(a_1[63:0]), .b(b_1[63:0]), .product(products_5)
        );
        pair_extreme pair_extreme_inst (
            .clk(clk), .advance(advance), .is_maximum(op_1 == `FANIN_OP_MAXLOC), .is_float(is_float_1),
            .is_short(size_log2_1 == 2'd1), .a(a_1[63:0]), .b(b_1[63:0]), .extreme(pairs_3)
        );
        for (part = 0; part < 4; part = part + 1) begin : parts
            float16_widen float16_widen_inst (
                .is_bf16(is_bf16), .narrow(own_b[16*part +: 16]), .wide(widened[32*part +: 32])
            );
            float_extreme float_extreme_inst (
                .clk(clk), .advance(advance), .is_maximum(op_1 == `FANIN_OP_MAX), .a(a_1[32*part +: 32]),
                .b(b_1[32*part +: 32]), .extreme(extremes_3[32*part +: 32])
            );
            float32_add float32_add_inst (
                .clk(clk), .advance(advance), .a(a_1[32*part +: 32]), .b(b_1[32*part +: 32]), .sum(sums_8[32*part +: 32])
            );
            float32_multiply float32_multiply_inst (
                .clk(clk), .advance(advance), .a(a_1[32*part +: 32]), .b(b_1[32*part +: 32]),
                .product(float_products_8[32*part +: 32])
            );
            float16_narrow float16_narrow_inst (
                .clk(clk), .advance(advance), .is_bf16(is_bf16_8), .wide(total_8[32*part +: 32]),
                .narrow(narrowed_10[16*part +: 16])
            );
        end
        delay #(.WIDTH(128), .CLOCKS(2)) operand (
            .clk(clk), .advance(advance), .data(unit_1 == KEPT ? a_1 : b_1), .delayed(operand_3)
        );
        always @(posedge clk) if (advance) begin
            case (unit_3)
                PAIRS: others_4 <= {64'd0, pairs_3};
                EXTREMES: others_4 <= extremes_3;
                default: others_4 <= operand_3;
            endcase
            case (unit_4)
                INTEGERS: others_5 <= {64'd0, integers_4};
                default: others_5 <= others_4;
            endcase
        end
        wire [127:0] chosen_5 = unit_5 == INTEGER_PRODUCTS ? {64'd0, products_5} : others_5;
        delay #(.WIDTH(128), .CLOCKS(FLOATS - 4)) others (
            .clk(clk), .advance(advance), .data(chosen_5), .delayed(others_8)
        );
        delay #(.WIDTH(64), .CLOCKS(FLOATS + 2)) given (
            .clk(clk), .advance(advance), .data(given_1), .delayed(given_10)
        );
        always @* begin
            case (unit_8)
                SUMS: total_8 = sums_8;
                FLOAT_PRODUCTS: total_8 = float_products_8;
                default: total_8 = others_8;
            endcase
        end
        assign result[64*lane +: 64] = total_8[63:0];
        assign result_high[64*lane +: 64] = total_8[127:64];

        // Stages 9 and 10: the only data keep their bits, also those of a NaN.
        delay #(.WIDTH(64), .CLOCKS(2)) total (
            .clk(clk), .advance(advance), .data(total_8[63:0]), .delayed(total_10)
        );
        assign rounded[64*lane +: 64] = unit_10 == UNCHANGED ? given_10 : is_small_10 ? narrowed_10 : total_10;
    end
endgenerate

wire unused = is_computed; // the engine asks before data come here

endmodule

`resetall
