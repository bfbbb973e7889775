// Whether the vector unit computes an operation with a type (SPEC.md, 5-21 and 12-1), and how it reads the elements.
// This is the table of what this switch computes: its profile (fpga_cosim/profile.toml) says the same. Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"

module computed_operation (
    input  wire [7:0] op,
    input  wire [7:0] dtype,
    output reg        is_computed,
    output reg        is_float,
    output reg        is_signed,
    output reg        is_small, // f16 or bf16, which are computed as f32
    output reg        is_bf16,
    output reg        is_pair, // of a value, which is_float and size_log2 are about, and an index
    output reg  [1:0] size_log2 // of an element, in bytes
);

reg is_integer, is_bool;

always @* begin
    is_integer = 1'b1;
    is_bool = 1'b0;
    is_float = 1'b0;
    is_signed = 1'b0;
    is_small = 1'b0;
    is_bf16 = 1'b0;
    is_pair = 1'b0;
    size_log2 = 2'd0;
    case (dtype)
        `FANIN_DTYPE_I8: is_signed = 1'b1;
        `FANIN_DTYPE_I16: begin is_signed = 1'b1; size_log2 = 2'd1; end
        `FANIN_DTYPE_I32: begin is_signed = 1'b1; size_log2 = 2'd2; end
        `FANIN_DTYPE_I64: begin is_signed = 1'b1; size_log2 = 2'd3; end
        `FANIN_DTYPE_U8: size_log2 = 2'd0;
        `FANIN_DTYPE_U16: size_log2 = 2'd1;
        `FANIN_DTYPE_U32: size_log2 = 2'd2;
        `FANIN_DTYPE_U64: size_log2 = 2'd3;
        `FANIN_DTYPE_F32: begin is_integer = 1'b0; is_float = 1'b1; size_log2 = 2'd2; end
        `FANIN_DTYPE_F16: begin is_integer = 1'b0; is_float = 1'b1; is_small = 1'b1; size_log2 = 2'd1; end
        `FANIN_DTYPE_BF16: begin
            is_integer = 1'b0; is_float = 1'b1; is_small = 1'b1; is_bf16 = 1'b1; size_log2 = 2'd1;
        end
        `FANIN_DTYPE_BOOL: begin is_integer = 1'b0; is_bool = 1'b1; end
        `FANIN_DTYPE_F32_I32: begin is_integer = 1'b0; is_pair = 1'b1; is_float = 1'b1; size_log2 = 2'd2; end
        `FANIN_DTYPE_I16_I32: begin is_integer = 1'b0; is_pair = 1'b1; is_signed = 1'b1; size_log2 = 2'd1; end
        `FANIN_DTYPE_I32_I32: begin is_integer = 1'b0; is_pair = 1'b1; is_signed = 1'b1; size_log2 = 2'd2; end
        default: is_integer = 1'b0;
    endcase
    case (op)
        `FANIN_OP_SUM, `FANIN_OP_MEAN, `FANIN_OP_PROD, `FANIN_OP_MIN, `FANIN_OP_MAX:
            is_computed = is_integer || (is_float && !is_pair);
        `FANIN_OP_LAND, `FANIN_OP_LOR, `FANIN_OP_LXOR: is_computed = is_integer || is_bool;
        `FANIN_OP_BAND, `FANIN_OP_BOR, `FANIN_OP_BXOR: is_computed = is_integer;
        `FANIN_OP_MINLOC, `FANIN_OP_MAXLOC: is_computed = is_pair;
        default: is_computed = 1'b0;
    endcase
end

endmodule

`resetall
