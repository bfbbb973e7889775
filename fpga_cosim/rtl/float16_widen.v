// f16 or bf16 as f32, which holds every one of them. Any NaN becomes the canonical one (SPEC.md, 12-17). Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float16_widen (
    input  wire        is_bf16,
    input  wire [15:0] narrow,
    output reg  [31:0] wide
);

localparam [31:0] CANONICAL_NAN = 32'h7fc00000;

reg [3:0]  top; // place of the first one in the fraction of a subnormal f16
reg [22:0] fraction;
integer i;

always @* begin
    top = 4'd0;
    for (i = 0; i < 10; i = i + 1) begin
        if (narrow[i]) top = i[3:0];
    end
    fraction = {13'd0, narrow[9:0]} << (5'd23 - {1'b0, top}); // the first one goes out of it
    if (is_bf16) wide = &narrow[14:7] && narrow[6:0] != 7'd0 ? CANONICAL_NAN : {narrow, 16'd0};
    else if (&narrow[14:10]) wide = narrow[9:0] != 10'd0 ? CANONICAL_NAN : {narrow[15], 31'h7f800000};
    else if (narrow[14:10] != 5'd0) wide = {narrow[15], 8'd112 + {3'd0, narrow[14:10]}, narrow[9:0], 13'd0};
    else if (narrow[9:0] != 10'd0) wide = {narrow[15], 8'd103 + {4'd0, top}, fraction};
    else wide = {narrow[15], 31'd0};
end

endmodule

`resetall
