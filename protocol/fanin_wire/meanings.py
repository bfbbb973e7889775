"""What each field, opcode and flag means, in one sentence: text of the tables of SPEC.md (see `tables`)."""

from __future__ import annotations

from fanin_wire import fields
from fanin_wire.fields import Opcode

# Headers in the order of SPEC.md, each with the meanings of its fields; reserved fields (resv...) need none.
FIELD_MEANINGS: dict[str, dict[str, str]] = {
    "BTH": {
        "opcode": "what the packet is; 0xC0 to 0xCE are the offload's",
        "solicited": "0",
        "migreq": "0",
        "padcount": "bytes of padding behind the payload, 0 to 3",
        "version": "transport version, 0",
        "pkey": "partition key, 0xffff",
        "fecn": "forward congestion mark; not covered by the ICRC",
        "becn": "backward congestion mark; not covered by the ICRC",
        "dqpn": "destination queue pair, 0xfa0c01",
        "ackreq": "0",
        "psn": "running number of the sender's packets; not looked at, positions take its place",
    },
    "CETH": {
        "version": "version of this protocol, 2",
        "op": "operation (table below)",
        "dtype": "type of the elements (table below)",
        "flags": "flags and contributor class (table below)",
        "jid": "job id",
        "key": "the job's random 32-bit key: its incarnation",
        "position": "place in the job's stream of segments, modulo 2^32; ACK: the base of its maps",
        "mid": "number of the message within the job",
        "sid": "number of the segment within the message",
        "seg": "position modulo the lease: the slot, relative to the lease; packets that name somebody: whose children",
        "length": "bytes of payload or body behind the CETH, without padding",
        "status": "a status code; CONTRIBUTION and RESULT: not 0 poisons the position",
        "source": "tree: the child's bit at its parent, in both directions; ring: node index of the sender",
        "segment_index": "number of the packet within its super-packet, which is its IPv4 identification; else 0",
        "lane": "which of the lanes of sender and receiver the packet belongs to (section 6.1)",
        "contributions": "how many ranks' data are summed in the payload",
        "token": "chosen by the sender of a PROBE, QUERY or CONFIG, returned in the answer; else 0",
        "node_bitmap": "set of children or nodes; meaning by opcode",
        "rank_bitmap": "CONTRIBUTION of a tree: the ranks of the sending node; CONTRIBUTION and RESULT of a ring: "
        "nodes that want the data and do not have them; ACK: map of RESULTs; CONFIG_ACK: ranks missing; "
        "ABORT, LEAVE: IPv4 address of the lost device",
    },
    "CONFIG": {
        "boot_id": "random number of the sender's start; another one on a known job means that the sender restarted",
        "digest_high": "first half of the digest over ordered members, tree and parameters",
        "digest_low": "second half",
        "slots": "N: slots offered, a power of two",
        "window": "W: positions in flight offered, at most N / 2",
        "chunk": "bytes of a full segment, a power of two",
        "route": "1 to a device above, 2 to the next node of a ring",
        "hops": "number of HOP entries that follow",
        "last_lane": "the highest lane that the job takes part in: 0 for one lane (section 6.1)",
        "flags": "how the job computes: 1 wide partials, 2 reproducible in one run's path, 4 reproducible in its shape",
    },
    "HOP": {
        "address": "IPv6 address of the device; IPv4 as ::ffff:a.b.c.d",
        "mask": "bits of all the children that the device waits for",
        "bit": "bit of the device below it",
    },
    "CONFIG_ACK": {
        "slots": "N granted; on NO_RESOURCES the N that would fit",
        "window": "W granted to the receiver",
    },
    "WAIT": {
        "oldest_age_us": "microseconds since the most silent of the missing children was heard, "
        "less those for which the sender stood still",
        "oldest_child": "the bit of that child",
        "kind": "whose children the node_bitmap names: 1 the sender's, 2 those of the device above it, and so on",
    },
    "RETH": {
        "va": "virtual address",
        "rkey": "remote key",
        "dlen": "bytes of the whole transfer",
    },
    "DETH": {
        "qkey": "queue key",
        "sqpn": "source queue pair",
    },
    "ImmDt": {
        "immdt": "immediate data",
    },
    "AtomicETH": {
        "va": "virtual address",
        "rkey": "remote key",
        "swap": "swap or add operand",
        "compare": "compare operand",
    },
    "AETH": {
        "syndrome": "ACK or NAK, credits or reason",
        "msn": "message sequence number",
    },
    "AtomicAckETH": {
        "original": "what stood in memory before the operation",
    },
    "IETH": {
        "invalidated_rkey": "remote key that the receiver must not accept any more",
    },
}

HEADERS = {
    header.name: header
    for header in (
        fields.BTH,
        fields.CETH,
        fields.CONFIG_BODY,
        fields.HOP_BODY,
        fields.CONFIG_ACK_BODY,
        fields.WAIT_BODY,
        fields.RETH,
        fields.DETH,
        fields.IMMDT,
        fields.ATOMICETH,
        fields.AETH,
        fields.ATOMICACKETH,
        fields.IETH,
    )
}

# Opcode: (direction in a tree, what it says, what it demands of the receiver)
OPCODE_MEANINGS: dict[Opcode, tuple[str, str, str]] = {
    Opcode.CONTRIBUTION: ("up", "the sender's share of a position", "RESULT when complete; ring: ACK when stored"),
    Opcode.RESULT: ("down", "the result of a position", "tree: nothing; ring: ACK when stored"),
    Opcode.PROBE: ("up", "what about this position?", "tree: NEED, WAIT or RESULT; ring: ACK; at once"),
    Opcode.NEED: ("down", "your contribution to this position is not here", "the CONTRIBUTION again"),
    Opcode.WAIT: ("down", "yours is here, others are missing", "nothing; probe again later"),
    Opcode.ACK: ("back", "ring: these CONTRIBUTIONs and RESULTs are stored", "nothing"),
    Opcode.CONFIG: ("up", "form this job", "CONFIG_ACK, at once"),
    Opcode.CONFIG_ACK: ("down", "the job is formed, is forming, or is refused", "a device in between: CONFIG_ACK down"),
    Opcode.LEAVE: ("up", "the sender has finished with the job", "LEAVE_ACK, at once"),
    Opcode.LEAVE_ACK: ("down", "the LEAVE is taken", "nothing"),
    Opcode.QUERY: ("up", "what is the state of this job?", "STATUS"),
    Opcode.STATUS: ("down", "the state of the job", "nothing"),
    Opcode.ABORT: ("any", "the job is dead", "stop; complete everything with this status"),
    Opcode.NAK: ("any", "the job is not known here", "stop; complete everything with this status"),
    Opcode.KEEPALIVE: ("any", "the sender lives", "nothing"),
}

FLAG_MEANINGS = {
    "HAS_DATA": "the payload is the segment's data",
    "WANTS_RESULT": "CONTRIBUTION: the sender wants the data of the result",
    "WIDE": "the payload of a segment of small floats is f32",
    "HEARS_GROUP": "CONTRIBUTION of a tree: the sender hears the multicast group of its parent (section 7.4)",
    "AHEAD": "the data go ahead of the result (section 7.5)",
}
