// What a packet about a position may do with its slot (SPEC.md, 6-31 to 6-37), and whether a CONTRIBUTION agrees with
// those before it (7.1-6, 7.1-8, 7.1-9). Combinational. A slot that has served no position yet (`is_fresh`) is FINAL
// with position s - N; no child may ask for that one (6-31).
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "fanin_constants.vh"
`include "drop_reasons.vh"

module slot_rule (
    input  wire [31:0] slots, // N of the job
    // the packet
    input  wire [31:0] position,
    input  wire [7:0]  op,
    input  wire [7:0]  dtype,
    input  wire [1:0]  contributor_class,
    input  wire [31:0] mid,
    input  wire [31:0] sid,
    input  wire [15:0] length,
    input  wire        brings, // data, without a status
    input  wire        is_wide,
    // the slot
    input  wire [31:0] slot_position,
    input  wire        slot_is_final,
    input  wire        slot_is_fresh,
    input  wire [7:0]  slot_op,
    input  wire [7:0]  slot_dtype,
    input  wire [1:0]  slot_class,
    input  wire [31:0] slot_mid,
    input  wire [31:0] slot_sid,
    input  wire [15:0] slot_length,
    input  wire        slot_has_data,
    // the verdict
    output wire        accepts, // no reason to drop: known earlier than the reason
    output reg  [4:0]  drop,
    output wire        replaces,
    output wire        differs
);

wire is_behind = $signed(position - slot_position) < 32'sd0;
wire is_current = position == slot_position && !slot_is_fresh;

// Whether slot_position + slots is position, without an adder: the needed carries must equal the actual ones.
wire [30:0] carries = (slot_position[30:0] & slots[30:0]) | ((slot_position[30:0] | slots[30:0]) & ~position[30:0]);
assign replaces = (slot_position ^ slots ^ position) == {carries, 1'b0};

assign accepts = is_current || (replaces && slot_is_final);

always @* begin
    if (accepts) drop = `DROP_NONE;
    else if (replaces) drop = `DROP_OPEN;
    else if (is_behind) drop = `DROP_STALE;
    else drop = `DROP_VIOLATION;
end

wire other_place = op != slot_op || dtype != slot_dtype || contributor_class != slot_class || mid != slot_mid
    || sid != slot_sid;
wire other_data = slot_has_data && (contributor_class == `FANIN_CLASS_ONE || length != slot_length);
assign differs = (!replaces && (other_place || (brings && other_data))) || (brings && is_wide);

endmodule

`resetall
