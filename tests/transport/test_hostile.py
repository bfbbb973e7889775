"""Hostile packets: each is dropped or refused, for a reason. None writes out of place, or harms another queue pair."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_nic.transport.records.tables import COUNTERS, Counter
from fanin_wire.rocev2 import OPCODES, Acknowledge, Nak, syndrome
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import QueuePairState, RequestOpcode

from .rig import MEMORY, Packet, Pair, make
from .test_operations import SOURCE, TARGET, remote

WRITE, READ = RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_READ
FULL = bytes(256)
INVALID = syndrome(Acknowledge.NAK, Nak.INVALID_REQUEST)
ACCESS = syndrome(Acknowledge.NAK, Nak.REMOTE_ACCESS)


def packet_of(pair: Pair, name: str, payload: bytes = b"", **values) -> Packet:
    """A packet that the second endpoint's queue pair expects. RETH and AtomicETH name good memory, `offset` bytes
    further on, unless `values` say otherwise."""
    for header in values.keys() & {"RETH", "AtomicETH"}:
        given = dict(values[header])
        memory = {"va": pair.two.start + TARGET + given.pop("offset", 0), "rkey": pair.two.key}
        length = {"dlen": len(payload)} if header == "RETH" else {}
        values[header] = memory | length | given
    return make(name, pair.one, pair.two, payload, **values)


REFUSED = {
    "middle without first": ("RC_SEND_MIDDLE", FULL, {}, INVALID),
    "last without first": ("RC_RDMA_WRITE_LAST", b"data", {}, INVALID),
    "first that is short": ("RC_SEND_FIRST", b"short", {}, INVALID),
    "first that is long": ("RC_SEND_FIRST", bytes(260), {}, INVALID),
    "only that is long": ("RC_SEND_ONLY", bytes(257), {}, INVALID),
    "write shorter than it says": ("RC_RDMA_WRITE_ONLY", b"data", {"RETH": {"dlen": 5}}, INVALID),
    "write longer than it says": ("RC_RDMA_WRITE_ONLY", b"data", {"RETH": {"dlen": 3}}, INVALID),
    "first of a write that is one packet": ("RC_RDMA_WRITE_FIRST", FULL, {"RETH": {"dlen": 256}}, INVALID),
    "write of more than 2 GiB": ("RC_RDMA_WRITE_FIRST", FULL, {"RETH": {"dlen": (1 << 31) + 1}}, INVALID),
    "write beyond its region": ("RC_RDMA_WRITE_FIRST", FULL, {"RETH": {"dlen": MEMORY}}, ACCESS),
    "write that wraps": ("RC_RDMA_WRITE_ONLY", b"data", {"RETH": {"va": 2**64 - 2}}, ACCESS),
    "write with a wrong key": ("RC_RDMA_WRITE_ONLY", b"data", {"RETH": {"rkey": 0xFFFF0001}}, ACCESS),
    "write with key 0": ("RC_RDMA_WRITE_ONLY", b"data", {"RETH": {"rkey": 0}}, ACCESS),
    "oversize read": ("RC_RDMA_READ_REQUEST", b"", {"RETH": {"dlen": 0xFFFFFFFF}}, INVALID),
    "read of 2 GiB": ("RC_RDMA_READ_REQUEST", b"", {"RETH": {"dlen": 1 << 31}}, ACCESS),
    "read with payload": ("RC_RDMA_READ_REQUEST", b"data", {"RETH": {}}, INVALID),
    "atomic that is not aligned": ("RC_FETCH_ADD", b"", {"AtomicETH": {"offset": 1}}, INVALID),
    "atomic beyond its region": ("RC_COMPARE_SWAP", b"", {"AtomicETH": {"offset": MEMORY - TARGET}}, ACCESS),
    "atomic with payload": ("RC_FETCH_ADD", b"data", {"AtomicETH": {}}, INVALID),
}


@pytest.mark.parametrize("case", REFUSED)
def test_requests_that_are_refused(case: str):
    name, payload, values, expected = REFUSED[case]
    pair = Pair()
    pair.two.post_receive((0, 4096))
    pair.two.receive(packet_of(pair, name, payload, **values))
    (nak,) = pair.two.sent
    assert (nak.name, nak.bth["psn"], nak.header("AETH")["syndrome"]) == ("RC_ACKNOWLEDGE", 0, expected)
    assert not pair.two.memory.any()
    assert pair.two.state() == QueuePairState.ERR
    assert pair.two.statuses() == ["WR_FLUSH_ERR"]


SEQUENCES = {
    "send within a write": ("RC_RDMA_WRITE_FIRST", "RC_SEND_MIDDLE"),
    "write within a send": ("RC_SEND_FIRST", "RC_RDMA_WRITE_LAST"),
    "first within a send": ("RC_SEND_FIRST", "RC_SEND_FIRST"),
    "only within a write": ("RC_RDMA_WRITE_FIRST", "RC_RDMA_WRITE_ONLY"),
    "read within a send": ("RC_SEND_FIRST", "RC_RDMA_READ_REQUEST"),
    "atomic within a write": ("RC_RDMA_WRITE_FIRST", "RC_FETCH_ADD"),
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_opcodes_out_of_sequence(case: str):
    first, second = SEQUENCES[case]
    pair = Pair()
    pair.two.post_receive((0, 4096))
    pair.two.receive(
        packet_of(pair, first, FULL, RETH={"dlen": 600}) if "WRITE" in first else packet_of(pair, first, FULL)
    )
    payload = b"" if "READ" in second or "ADD" in second else FULL
    extended = {"AtomicETH": {}} if "ADD" in second else {"RETH": {}} if second[-4:] in ("ONLY", "UEST") else {}
    pair.two.receive(packet_of(pair, second, payload, psn=1, **extended))
    assert pair.two.sent[-1].header("AETH")["syndrome"] == INVALID
    assert pair.two.state() == QueuePairState.ERR


def test_more_reads_than_were_agreed():
    pair = Pair(MAX_DEST_RD_ATOMIC=2)
    packets = [packet_of(pair, "RC_RDMA_READ_REQUEST", psn=psn, RETH={"dlen": 10}) for psn in range(3)]
    pair.two.receive_all(packets)
    assert pair.two.count("refused_invalid") == 1
    assert [p.name for p in pair.two.sent] == ["RC_RDMA_READ_RESPONSE_ONLY"] * 2 + ["RC_ACKNOWLEDGE"]


def test_nothing_is_taken_after_a_refused_request():
    pair = Pair()
    bad = packet_of(pair, "RC_SEND_MIDDLE", FULL)
    good = packet_of(pair, "RC_RDMA_WRITE_ONLY", b"data", RETH={})
    pair.two.receive_all([bad, good, good])
    assert pair.two.count("drop_blocked") == 2
    assert not pair.two.memory.any()


DROPPED = {
    "drop_version": lambda data: data[:1] + b"\x01" + data[2:],
    "drop_padding": lambda data: data[:1] + b"\x30" + data[2:],
    "drop_unknown_opcode": lambda data: b"\x1f" + data[1:],
    "drop_pkey": lambda data: data[:2] + b"\x80\x01" + data[4:],
    "drop_unknown_queue_pair": lambda data: data[:5] + b"\x00\x00\x01" + data[8:],
    "drop_service": lambda data: b"\x24" + data[1:],
    "drop_short": lambda data: data[:8],
}


@pytest.mark.parametrize("reason", DROPPED)
def test_packets_that_are_dropped_change_nothing(reason: str):
    pair = Pair()
    pair.two.post_receive((0, 100))
    packet = make("RC_SEND_ONLY", pair.one, pair.two)
    assert dropped_as(pair, packet._replace(data=DROPPED[reason](packet.data))) == reason


def test_packet_of_a_stranger():
    pair = Pair()
    packet = make("RC_SEND_ONLY", pair.one, pair.two)
    assert dropped_as(pair, packet._replace(source=packet.source + 9)) == "drop_sender"


def dropped_as(pair: Pair, packet: Packet) -> str:
    """The counter under which a packet is dropped; only counters may change."""
    pair.two.settle()
    before = state_of(pair)
    counters = pair.two.transport.counters()
    pair.two.receive(packet)
    assert (state_of(pair) == before).all()
    return next(name for name, value in pair.two.transport.counters().items() if value != counters[name])


def state_of(pair: Pair) -> np.ndarray:
    """The arena of the second endpoint, without what every event writes: the record of packets, counters, the time."""
    transport = pair.two.transport
    arena = transport.arena.copy()
    for table in ("packets", "counters"):
        start = transport.tables[table].ctypes.data - transport.base
        arena[start : start + transport.tables[table].nbytes] = 0
    arena[: transport.header.nbytes] = 0
    return arena


def test_responses_that_do_not_fit_their_request():
    pair = Pair()
    pair.one.post(READ, (SOURCE, 300), **remote(pair))
    pair.one.sent.clear()
    for name, payload in (
        ("RC_RDMA_READ_RESPONSE_FIRST", bytes(252)),
        ("RC_RDMA_READ_RESPONSE_FIRST", bytes(260)),
        ("RC_RDMA_READ_RESPONSE_ONLY", FULL),
        ("RC_ATOMIC_ACKNOWLEDGE", b""),
    ):
        pair.one.receive(make(name, pair.two, pair.one, payload))
    assert pair.one.count("drop_response") == 4
    assert pair.one.completions == []
    pair.one.post(RequestOpcode.ATOMIC_FETCH_AND_ADD, (SOURCE, 8), **remote(pair))
    assert pair.one.state() == QueuePairState.RTS


def test_unknown_syndromes_are_dropped():
    pair = Pair()
    pair.bend = lambda packet: []
    pair.one.post(WRITE, (SOURCE, 10), **remote(pair))
    for code in (0x40, 0x5F, 0x64, 0x7F):
        pair.one.receive(make("RC_ACKNOWLEDGE", pair.two, pair.one, AETH={"syndrome": code}))
    assert pair.one.count("drop_response") == 4
    assert pair.one.completions == []


def test_every_reason_to_drop_is_counted_by_name():
    assert len(Counter) <= COUNTERS
    assert all(counter.name.isupper() for counter in Counter)


HEADERS = st.fixed_dictionaries(
    {
        "row": st.sampled_from(list(OPCODES.values())),
        "psn": st.sampled_from([0, 1, 2, 3, 0x7FFFFF, 0x800000, 0xFFFFFF]),
        "length": st.sampled_from([0, 1, 4, 8, 255, 256, 257, 600]),
        "va": st.sampled_from([0, -1, -8, 4, MEMORY - 8, MEMORY, 2**63, 2**64 - 1]),
        "dlen": st.sampled_from([0, 1, 8, 256, 257, 600, MEMORY, 1 << 31, (1 << 31) + 1, 2**32 - 1]),
        "rkey": st.sampled_from(["good", 0, 1, 0xFFFFFFFF]),
        "syndrome": st.integers(0, 255),
        "ackreq": st.integers(0, 1),
    }
)


@settings(max_examples=150, deadline=None)
@given(st.lists(HEADERS, min_size=1, max_size=12), st.sampled_from(list(Service)))
def test_any_sequence_of_packets(packets: list[dict], kind: Service):
    """The rig fails on a write outside of the memory. Every posted request ends when the program ends it."""
    pair = Pair(kind, MAX_DEST_RD_ATOMIC=2) if kind == Service.RC else Pair(kind)
    for _ in range(3):
        pair.two.post_receive((0, 300), (1000, 300))
        pair.two.post(WRITE if kind != Service.UD else RequestOpcode.SEND, (SOURCE, 300), **remote_of(pair))
    if kind == Service.RC:
        pair.two.post(READ, (SOURCE, 600), **remote_of(pair))
    for values in packets:
        pair.two.receive(hostile(pair, **values))
    pair.two.tick(10**10)
    pair.two.transport.modify(0, QueuePairState.ERR, pair.two.now)
    pair.two.settle()
    assert len(pair.two.completions) == (7 if kind == Service.RC else 6)
    assert pair.two.count("action_overflow") == 0


def remote_of(pair: Pair) -> dict[str, int]:
    return {"remote_address": pair.one.start, "rkey": pair.one.key}


def hostile(pair: Pair, *, row, psn, length, va, dlen, rkey, syndrome, ackreq) -> Packet:
    key = pair.two.key if rkey == "good" else rkey
    extended = {
        "RETH": {"va": (pair.two.start + va) % 2**64, "rkey": key, "dlen": dlen},
        "AtomicETH": {"va": (pair.two.start + va) % 2**64, "rkey": key, "swap": 1},
        "AETH": {"syndrome": syndrome},
        "DETH": {"qkey": 0x1234},
        "IETH": {"invalidated_rkey": key},
    }
    values = {header.name: extended.get(header.name, {}) for header in row.headers}
    return make(row.name, pair.one, pair.two, bytes(length), psn=psn, ackreq=ackreq, **values)


def test_random_bytes():
    pair = Pair()
    rng = random.Random(1)
    for _ in range(2000):
        data = bytearray(rng.randbytes(4 * rng.randrange(24)))
        if len(data) > 8 and rng.random() < 0.9:
            data[0] = rng.choice(list(OPCODES))
            data[1] &= 0x30
            data[2:4] = b"\xff\xff"
            data[5:8] = pair.two.qpn(0).to_bytes(3)
        pair.two.receive(Packet(pair.one.address, pair.two.address, bytes(data)))
        pair.two.sent.clear()
    assert not pair.two.memory.any()
