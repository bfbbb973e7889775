"""Scenes of ordinary RoCEv2 traffic, which a device recognises by the BTH opcode."""

from .scenes import NODES, Scene, bth

# BTH opcodes, InfiniBand Architecture Specification 1.4, volume 1, table 38
RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST = 0x00, 0x01, 0x02
RC_SEND_ONLY = 0x04
RC_SEND_ONLY_WITH_IMMEDIATE = 0x05
RC_SEND_LAST_WITH_INVALIDATE, RC_SEND_ONLY_WITH_INVALIDATE = 0x16, 0x17
RC_WRITE_FIRST, RC_WRITE_MIDDLE = 0x06, 0x07
RC_WRITE_ONLY, RC_WRITE_ONLY_WITH_IMMEDIATE = 0x0A, 0x0B
RC_READ_REQUEST, RC_READ_RESPONSE_ONLY = 0x0C, 0x10
RC_READ_RESPONSE_FIRST, RC_READ_RESPONSE_MIDDLE, RC_READ_RESPONSE_LAST = 0x0D, 0x0E, 0x0F
RC_ACKNOWLEDGE, RC_ATOMIC_ACKNOWLEDGE = 0x11, 0x12
RC_COMPARE_SWAP, RC_FETCH_ADD = 0x13, 0x14
UC_SEND_ONLY_WITH_IMMEDIATE, UC_WRITE_ONLY = 0x25, 0x2A
UD_SEND_ONLY, UD_SEND_ONLY_WITH_IMMEDIATE = 0x64, 0x65

PAYLOAD = b"ordinary RDMA payload"
RETH = {"va": 0x00007F0012345678, "rkey": 0x00C0FFEE, "dlen": len(PAYLOAD)}
ATOMIC = {"va": 0x00007F0012345678, "rkey": 0x00C0FFEE}
DETH = {"qkey": 0x11111111, "sqpn": 0x0000D3}
IMMEDIATE = {"immdt": 0xCAFE0001}
POSITION = {"dqpn": 0x0000D2, "psn": 0xCF1690}


def _scene(name: str, text: str, opcode: int, payload: bytes = b"", ackreq: int = 0, **headers: dict) -> Scene:
    first = bth(opcode, payload, ackreq=ackreq, **POSITION)
    return Scene(name, text, NODES[0], NODES[1], {"BTH": first, **headers}, payload, port=0xD123)


ROCEV2 = (
    _scene("rc_send_only", "A SEND of 21 bytes, padded to 24.", RC_SEND_ONLY, PAYLOAD, ackreq=1),
    _scene(
        "rc_send_only_with_immediate",
        "The same with immediate data.",
        RC_SEND_ONLY_WITH_IMMEDIATE,
        PAYLOAD,
        ImmDt=IMMEDIATE,
    ),
    _scene("rc_send_first", "The first packet of a SEND.", RC_SEND_FIRST, bytes(range(16))),
    _scene("rc_send_middle", "A middle packet of a SEND.", RC_SEND_MIDDLE, bytes(range(16, 32))),
    _scene("rc_send_last", "The last packet of a SEND, which asks for an acknowledgement.", RC_SEND_LAST, b"end", 1),
    _scene(
        "rc_send_last_with_invalidate",
        "The last packet of a SEND with invalidate.",
        RC_SEND_LAST_WITH_INVALIDATE,
        PAYLOAD,
        IETH={"invalidated_rkey": 0x00C0FFEE},
    ),
    _scene(
        "rc_send_only_with_invalidate",
        "A SEND of one packet with invalidate.",
        RC_SEND_ONLY_WITH_INVALIDATE,
        PAYLOAD,
        IETH={"invalidated_rkey": 0x00C0FFEE},
    ),
    _scene(
        "rc_write_first", "The first packet of an RDMA WRITE.", RC_WRITE_FIRST, bytes(16), RETH={**RETH, "dlen": 32}
    ),
    _scene("rc_write_middle", "A middle packet has no header but the BTH.", RC_WRITE_MIDDLE, bytes(range(16))),
    _scene("rc_write_only", "An RDMA WRITE of 21 bytes.", RC_WRITE_ONLY, PAYLOAD, ackreq=1, RETH=RETH),
    _scene(
        "rc_write_only_with_immediate",
        "Two extended headers: RETH, then ImmDt.",
        RC_WRITE_ONLY_WITH_IMMEDIATE,
        PAYLOAD,
        RETH=RETH,
        ImmDt=IMMEDIATE,
    ),
    _scene("rc_read_request", "An RDMA READ of 21 bytes.", RC_READ_REQUEST, RETH=RETH),
    _scene("rc_read_response_only", "Its answer.", RC_READ_RESPONSE_ONLY, PAYLOAD, AETH={"msn": 5}),
    _scene(
        "rc_read_response_first", "The first answer.", RC_READ_RESPONSE_FIRST, bytes(range(16)), AETH={"syndrome": 0x1F}
    ),
    _scene("rc_read_response_middle", "A middle answer.", RC_READ_RESPONSE_MIDDLE, bytes(range(16))),
    _scene("rc_read_response_last", "The last answer.", RC_READ_RESPONSE_LAST, b"end", AETH={"syndrome": 0x1F}),
    _scene("rc_acknowledge", "An acknowledgement of message 5.", RC_ACKNOWLEDGE, AETH={"syndrome": 0x1F, "msn": 5}),
    _scene(
        "rc_nak_sequence",
        "NAK: a packet sequence number is missing.",
        RC_ACKNOWLEDGE,
        AETH={"syndrome": 0x60, "msn": 5},
    ),
    _scene(
        "rc_compare_swap", "Atomic compare and swap.", RC_COMPARE_SWAP, AtomicETH={**ATOMIC, "swap": 2, "compare": 1}
    ),
    _scene("rc_fetch_add", "Atomic fetch and add of 3.", RC_FETCH_ADD, AtomicETH={**ATOMIC, "swap": 3}),
    _scene(
        "rc_atomic_acknowledge",
        "Its answer: what stood in memory before.",
        RC_ATOMIC_ACKNOWLEDGE,
        AETH={"syndrome": 0x1F, "msn": 6},
        AtomicAckETH={"original": 0x1122334455667788},
    ),
    _scene(
        "rc_rnr_nak", "RNR NAK: no receive request; try again after 0.64 ms.", RC_ACKNOWLEDGE, AETH={"syndrome": 0x2C}
    ),
    _scene(
        "uc_send_only_with_immediate",
        "A SEND without acknowledgement.",
        UC_SEND_ONLY_WITH_IMMEDIATE,
        PAYLOAD,
        ImmDt=IMMEDIATE,
    ),
    _scene("uc_write_only", "An RDMA WRITE without acknowledgement.", UC_WRITE_ONLY, PAYLOAD, RETH=RETH),
    _scene("ud_send_only", "A datagram.", UD_SEND_ONLY, PAYLOAD, DETH=DETH),
    _scene(
        "ud_send_only_with_immediate",
        "A datagram with immediate data.",
        UD_SEND_ONLY_WITH_IMMEDIATE,
        PAYLOAD,
        DETH=DETH,
        ImmDt=IMMEDIATE,
    ),
)
