// States of a job, and of the engine's machines. `dispatch` gives the turn to one of the others and waits for it; a
// machine that writes commands or ends a job waits for command_writer or job_end. Nothing else works meanwhile.
`ifndef ENGINE_STATES_VH
`define ENGINE_STATES_VH

// A job (10.3)
`define JOB_FREE 3'd0
`define JOB_JOINING 3'd1
`define JOB_ACTIVE 3'd2
`define JOB_TOMBSTONE 3'd3
`define JOB_REMEMBERED 3'd4 // a tombstone that a LEAVE or a refusal has made

// dispatch
`define TURN_IDLE 3'd0
`define TURN_DECIDE 3'd1
`define TURN_ANSWER 3'd2 // to the sender of the packet; then RELEASE
`define TURN_BUSY 3'd3 // another machine works on the packet
`define TURN_SCAN 3'd4
`define TURN_RELEASE 3'd5 // the payload is given back, and the packet is done

// command_writer
`define WRITE_IDLE 2'd0
`define WRITE_ANSWER 2'd1
`define WRITE_EACH 2'd2 // the next child
`define WRITE_PUSH 2'd3 // its command

// segment
`define SEGMENT_IDLE 4'd0
`define SEGMENT_FOLD 4'd1 // the lowest child of those that are missing and those whose data wait,
`define SEGMENT_FOLD_NEXT 4'd2 // and its data, if they wait
`define SEGMENT_COUNT 4'd3 // all are in; those that want the result are counted
`define SEGMENT_COMPLETE 4'd4
`define SEGMENT_RESEND 4'd5 // a result that was asked for
`define SEGMENT_OLDEST 4'd6 // which of the missing was silent longest
`define SEGMENT_OLDEST_LOOK 4'd7
`define SEGMENT_TELL 4'd8 // NEED or WAIT is written
`define SEGMENT_RESULT 4'd9 // RESULTs are written
`define SEGMENT_SAVE 4'd10 // the slot's record, with the number of the last command that reads its data

// job_end
`define END_IDLE 2'd0
`define END_ABORT 2'd1 // the job becomes a tombstone
`define END_TELL 2'd2
`define END_FREE 2'd3 // if no child is left

// config_reader
`define READ_IDLE 2'd0
`define READ_WAIT 2'd1 // until the accumulator leaves the ring alone
`define READ_BODY 2'd2
`define READ_HOPS 2'd3 // two by two

// membership
`define MEMBER_IDLE 4'd0
`define MEMBER_READ 4'd1 // a CONFIG is read
`define MEMBER_COUNT 4'd2 // its children are counted
`define MEMBER_JOIN 4'd3
`define MEMBER_ADD 4'd4
`define MEMBER_OPEN 4'd5 // each slot of a job that is complete
`define MEMBER_ACTIVATE 4'd6
`define MEMBER_ACTIVATED 4'd7 // the CONFIG_ACKs are written
`define MEMBER_INVITE 4'd8
`define MEMBER_TELL 4'd9 // the last packet is written
`define MEMBER_MISMATCH 4'd10 // the ABORT to one that may not join is written
`define MEMBER_LEAVING 4'd11 // the LEAVE_ACK is written
`define MEMBER_LEAVE 4'd12
`define MEMBER_WALK 4'd13 // each slot: whether it needs the one that leaves
`define MEMBER_LOOK 4'd14
`define MEMBER_REMEMBER 4'd15 // the LEAVE_ACK of an unknown job is written

// scan
`define SCAN_IDLE 4'd0
`define SCAN_JOB 4'd1
`define SCAN_CHILD 4'd2
`define SCAN_LOOK 4'd3
`define SCAN_END 4'd4
`define SCAN_AGED 4'd5 // job_end frees the job
`define SCAN_ABORTED 4'd6 // job_end tells the children
`define SCAN_INVITE 4'd7
`define SCAN_INVITED 4'd8 // the invitation is written
`define SCAN_DUE 4'd9
`define SCAN_TELL 4'd10 // the KEEPALIVEs are written
`define SCAN_NEXT 4'd11

`endif
