"""Invalid packets of ordinary traffic: each is dropped without an answer or a change."""

from collections.abc import Iterator

from fanin_conform import datagram
from fanin_conform.script import verbs_script
from fanin_conform.verbs.pair import Pair
from fanin_conform.verbs.tester import VerbsTester
from fanin_wire.fields import DEFAULT_PKEY
from fanin_wire.rocev2 import CODES, OPCODES

DATA = bytes(range(1, 18))


def untouched(pair: Pair, clause: str) -> None:
    """The packets had no effect: no answer, no data; the next request is the expected one."""
    pair.tester.nothing(clause)
    pair.memory(0, bytes(64), clause)
    pair.ping(clause)


@verbs_script("18.1-1", "18.1-2", "18.1-3", "18.2-2", "18.2-3", "18.2-8", "18.2-10")
def every_padding(tester: VerbsTester) -> None:
    """WRITE and READ of 1 to 9 bytes: padding, ICRC and the bits of the BTH."""
    pair = Pair(tester)
    for length in range(1, 10):
        psn = pair.request("RDMA_WRITE_ONLY", DATA[:length], pair.reth(length))
        pair.msn += 1
        tester.expect(pair.ack(psn, solicited=0), clause="18.2-2")
        psn = pair.request("RDMA_READ_REQUEST", b"", pair.reth(length))
        pair.msn += 1
        response = pair.expected("RDMA_READ_RESPONSE_ONLY", psn, DATA[:length], answer="ACK", msn=pair.msn)
        tester.expect(response, clause="18.2-8")
        pair.memory(0, DATA[:length] + bytes(8))


@verbs_script("18.1-4", needs=("port",))
def a_wrong_icrc(tester: VerbsTester) -> None:
    """Each flipped bit is noticed, except those that the network may change."""
    pair = Pair(tester)
    packet = pair.packet("RDMA_WRITE_ONLY", DATA, pair.reth(len(DATA)), psn=pair.psn, ackreq=1)
    good = datagram.build(packet, tester.local, tester.target.address)
    for bit in range(len(good) * 8):
        if bit // 8 != 4:  # FECN, BECN and the bits beside them
            tester.send(bytes(byte ^ (1 << bit % 8) * (at == bit // 8) for at, byte in enumerate(good)))
            if bit % 64 == 63:
                tester.nothing("18.1-4")
    untouched(pair, "18.1-4")


@verbs_script("18.1-5", "18.1-6", "18.1-7")
def another_version_partition_or_opcode(tester: VerbsTester) -> None:
    """Each is dropped; the membership bit of a partition key is ignored."""
    pair = Pair(tester)
    for clause, bth in (
        ("18.1-5", {"version": 1}),
        ("18.1-5", {"version": 15}),
        ("18.1-6", {"pkey": 0x8001}),
        ("18.1-6", {"pkey": 0}),
        ("18.1-6", {"pkey": DEFAULT_PKEY ^ 0x4000}),
    ):
        pair.request("RDMA_WRITE_ONLY", DATA, pair.reth(len(DATA)), psn=pair.psn, **bth)
        untouched(pair, clause)
    for code in (0x1F, 0x3F, 0x7F, 0xBF):
        assert code not in OPCODES
        pair.request("RDMA_WRITE_ONLY", DATA, pair.reth(len(DATA)), psn=pair.psn, opcode=code)
        untouched(pair, "18.1-7")


@verbs_script("18.1-8")
def shorter_than_its_headers(tester: VerbsTester) -> None:
    """A packet that ends before its headers do, or before its padding."""
    pair = Pair(tester)
    source, target = tester.local, tester.target.address
    packet = pair.packet("RDMA_WRITE_ONLY", b"", pair.reth(0), psn=pair.psn, ackreq=1)
    whole = datagram.build(packet, source, target)
    for length in (*range(4, len(whole) - 4, 4), 0):
        short = bytes(whole[:length] + bytes(4))
        tester.send(datagram.with_icrc(source, target, datagram.TESTER_PORT, short))
    untouched(pair, "18.1-8")
    pair.request("RDMA_WRITE_ONLY", b"", pair.reth(0), psn=pair.psn, padcount=3)
    untouched(pair, "18.1-8")


def strange_queue_pairs(pair: Pair) -> Iterator[int]:
    """Numbers of queue pairs that the device is not likely to have."""
    yield from (pair.qpn ^ 1 << bit for bit in range(12, 24))


@verbs_script("18.1-9", "18.1-10")
def queue_pairs_that_there_are_not(tester: VerbsTester) -> None:
    """Another number, and opcodes of other services."""
    pair = Pair(tester)
    for number in strange_queue_pairs(pair):
        pair.request("RDMA_WRITE_ONLY", DATA, pair.reth(len(DATA)), psn=pair.psn, dqpn=number)
    untouched(pair, "18.1-9")
    pair.request("RDMA_WRITE_ONLY", DATA, pair.reth(len(DATA)), psn=pair.psn, opcode=CODES["UC_RDMA_WRITE_ONLY"])
    pair.request("SEND_ONLY", DATA, psn=pair.psn, opcode=CODES["UD_SEND_ONLY"])
    untouched(pair, "18.1-10")
