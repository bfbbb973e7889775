// Reasons for which a packet is dropped, each with its counter: number, and the demand of SPEC.md. 0: it is not dropped.
`ifndef DROP_REASONS_VH
`define DROP_REASONS_VH

`define DROP_REASONS 20

`define DROP_NONE 5'd0
`define DROP_NOT_OURS 5'd1 // not Ethernet, IPv4 and UDP to this device: no demand, a host would not see it either
`define DROP_ICRC 5'd2 // 5-2
`define DROP_SHORT 5'd3 // 5-3
`define DROP_ORDINARY 5'd4 // 5-4
`define DROP_OPCODE 5'd5 // 5-5
`define DROP_VERSION 5'd6 // 5-6
`define DROP_LENGTH 5'd7 // 5-7
`define DROP_CONFIG 5'd8 // 10.1-8
`define DROP_NAK_LIMIT 5'd9 // 5-12
`define DROP_UNKNOWN_JOB 5'd10 // 5-13
`define DROP_KEY 5'd11 // 5-15
`define DROP_ENDED 5'd12 // 11-7
`define DROP_SENDER 5'd13 // 5-17
`define DROP_BIT 5'd14 // 5-24
`define DROP_GOES_DOWN 5'd15 // 5-23
`define DROP_POSITION 5'd16 // 5-21
`define DROP_STALE 5'd17 // 6-33
`define DROP_OPEN 5'd18 // 6-36
`define DROP_VIOLATION 5'd19 // 6-37

`endif
