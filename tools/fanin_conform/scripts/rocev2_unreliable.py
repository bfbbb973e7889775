"""Unreliable connections and datagrams: nothing is acknowledged, and packets that do not fit are dropped."""

from typing import Any

from fanin_conform.script import verbs_script
from fanin_conform.verbs.pair import MTU, Pair
from fanin_conform.verbs.tester import VerbsTester
from fanin_wire.layers import DETH, ImmDt
from fanin_wire.rocev2 import GRH_SIZE

DATA = bytes(number * 3 % 247 + 1 for number in range(1024))
QKEY = 0x11223344


def in_order(pair: Pair, clause: str, *lengths: int) -> None:
    """The next completions are of messages of these lengths, with requests 0, 1, ...."""
    for wr, length in enumerate(lengths):
        pair.done(wr=wr, byte_length=length, clause=clause)
    pair.not_done(clause)


@verbs_script("18.4-1", "18.2-28", "18.2-29")
def messages_of_uc(tester: VerbsTester) -> None:
    """SEND of one and of three packets, WRITE, WRITE with immediate: all arrive, nothing is answered."""
    pair = Pair(tester, "UC")
    for wr in range(3):
        pair.receive(1024, place=4096 + 1024 * wr, wr=wr)
    pair.request("SEND_ONLY", DATA[:7])
    pair.request("SEND_FIRST", DATA[:MTU])
    pair.request("SEND_MIDDLE", DATA[MTU : 2 * MTU])
    pair.request("SEND_LAST", DATA[2 * MTU : 2 * MTU + 1])
    pair.request("RDMA_WRITE_FIRST", DATA[:MTU], pair.reth(MTU + 9))
    pair.request("RDMA_WRITE_LAST", DATA[MTU : MTU + 9])
    pair.request("RDMA_WRITE_ONLY_WITH_IMMEDIATE", DATA[:4], pair.reth(4, place=512) / ImmDt(immdt=5))
    tester.nothing("18.4-1")
    pair.done(wr=0, byte_length=7, clause="18.2-28")
    pair.done(wr=1, byte_length=2 * MTU + 1, clause="18.2-28")
    pair.done(wr=2, immediate=5, operation="RECV_RDMA_WITH_IMM", clause="18.2-29")
    pair.memory(0, DATA[: MTU + 9] + bytes(8), "18.2-28")
    pair.memory(512, DATA[:4], "18.2-29")
    pair.memory(4096 + 1024, DATA[: 2 * MTU + 1], "18.2-28")


@verbs_script("18.4-2", "18.4-1")
def a_lost_packet_of_uc(tester: VerbsTester) -> None:
    """The FIRST, a MIDDLE or the LAST is missing, or a whole message: the next one arrives in the same request."""
    for lost in ("FIRST", "MIDDLE", "LAST"):
        pair = Pair(tester, "UC")
        for wr in range(2):
            pair.receive(1024, place=1024 * wr, wr=wr)
        for name, part in (("FIRST", DATA[:MTU]), ("MIDDLE", DATA[MTU : 2 * MTU]), ("LAST", DATA[:8])):
            if name == lost:
                pair.psn += 1
            else:
                pair.request(f"SEND_{name}", part)
        pair.psn += 5
        pair.request("SEND_ONLY", DATA[:12])
        tester.nothing("18.4-1")
        in_order(pair, "18.4-2", 12)
        pair.memory(0, DATA[:12], "18.4-2")


@verbs_script("18.4-2", "18.4-1")
def packets_of_uc_that_do_not_follow(tester: VerbsTester) -> None:
    """LAST without FIRST, another operation within a message, a FIRST within a message."""
    pair = Pair(tester, "UC")
    for wr in range(3):
        pair.receive(1024, place=4096 + 1024 * wr, wr=wr)
    pair.request("SEND_LAST", DATA[:8])
    pair.request("RDMA_WRITE_LAST", DATA[:8])
    pair.request("SEND_FIRST", DATA[:MTU])
    pair.request("RDMA_WRITE_LAST", DATA[:8])
    pair.request("SEND_LAST", DATA[:8])
    pair.request("SEND_FIRST", DATA[:MTU])
    pair.request("SEND_FIRST", DATA[:MTU])
    pair.request("SEND_LAST", DATA[:9])
    pair.request("SEND_ONLY", DATA[:3])
    tester.nothing("18.4-1")
    in_order(pair, "18.4-2", MTU + 9, 3)
    pair.memory(0, bytes(64), "18.4-2")


@verbs_script("18.4-3", "18.4-4", "18.4-1")
def what_uc_can_not_take(tester: VerbsTester) -> None:
    """No receive request, a wrong key, bytes beyond the region, a length that does not fit: no answer, no error."""
    pair = Pair(tester, "UC")
    pair.request("SEND_ONLY", DATA[:8])
    pair.request("RDMA_WRITE_ONLY_WITH_IMMEDIATE", DATA[:8], pair.reth(8, place=64) / ImmDt(immdt=1))
    tester.nothing("18.4-3")
    pair.receive(64, place=256, wr=0)
    rkey = pair.region(0, 64, "REMOTE_WRITE")
    pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8, rkey=pair.rkey ^ 1))
    pair.request("RDMA_WRITE_ONLY", DATA[:65], pair.reth(65, rkey=rkey))
    pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8, rkey=pair.region(0, 64, "REMOTE_READ")))
    pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(12))
    tester.nothing("18.4-4")
    pair.memory(0, bytes(64), "18.4-4")
    pair.request("SEND_ONLY", DATA[:5])
    tester.nothing("18.4-1")
    in_order(pair, "18.4-3", 5)


@verbs_script("18.4-5", "18.3-1", "18.3-2")
def a_requester_of_uc(tester: VerbsTester) -> None:
    """Its messages are complete without an answer."""
    pair = Pair(tester, "UC")
    pair.store(0, DATA)
    pair.post("SEND", MTU + 1, wr=1)
    packets = [pair.sent("SEND_FIRST", DATA[:MTU]), pair.sent("SEND_LAST", DATA[MTU : MTU + 1])]
    tester.expect(*packets, clause="18.3-2")
    pair.done(wr=1, operation="SEND", clause="18.4-5")
    pair.post("RDMA_WRITE", 5, wr=2, remote=1 << 40, rkey=7)
    tester.expect(pair.sent("RDMA_WRITE_ONLY", DATA[:5], va=1 << 40, rkey=7, dlen=5), clause="18.3-1")
    pair.done(wr=2, operation="RDMA_WRITE", clause="18.4-5")


def deth(pair: Pair, qkey: int = QKEY) -> DETH:
    """The header of a datagram of the tester."""
    return DETH(qkey=qkey, sqpn=pair.own_qpn)


@verbs_script("18.5-3", "18.5-4", "18.2-29")
def datagrams(tester: VerbsTester) -> None:
    """Payload behind 40 bytes, with and without immediate data, and of no bytes; in any order of PSNs."""
    pair = Pair(tester, "UD", qkey=QKEY)
    for wr in range(3):
        pair.receive(512, place=512 * wr, wr=wr)
    pair.request("SEND_ONLY", DATA[:9], deth(pair), psn=7)
    pair.request("SEND_ONLY_WITH_IMMEDIATE", DATA[:4], deth(pair) / ImmDt(immdt=0xFEED), psn=3)
    pair.request("SEND_ONLY", b"", deth(pair), psn=3)
    tester.nothing("18.4-1")
    about: dict[str, Any] = {"source_qpn": pair.own_qpn, "operation": "RECV", "clause": "18.5-4"}
    pair.done(wr=0, byte_length=GRH_SIZE + 9, immediate=None, **about)
    pair.done(wr=1, byte_length=GRH_SIZE + 4, immediate=0xFEED, **about)
    pair.done(wr=2, byte_length=GRH_SIZE, **about)
    pair.memory(GRH_SIZE, DATA[:9] + bytes(16), "18.5-3")
    pair.memory(512 + GRH_SIZE, DATA[:4] + bytes(16), "18.5-3")


@verbs_script("18.5-1", "18.5-2")
def datagrams_that_are_dropped(tester: VerbsTester) -> None:
    """Another queue key, one bit of it, and no receive request; right ones arrive."""
    pair = Pair(tester, "UD", qkey=QKEY)
    pair.request("SEND_ONLY", DATA[:9], deth(pair))
    tester.nothing("18.5-2")
    pair.receive(128, wr=0)
    for change in (1, 1 << 16, 1 << 30):
        pair.request("SEND_ONLY", DATA[:9], deth(pair, QKEY ^ change))
    tester.nothing("18.5-1")
    pair.not_done("18.5-1")
    pair.request("SEND_ONLY", DATA[:8], deth(pair))
    tester.nothing("18.5-1")
    in_order(pair, "18.5-1", GRH_SIZE + 8)


@verbs_script("18.5-5", "18.4-5")
def a_sender_of_datagrams(tester: VerbsTester) -> None:
    """Its queue pair, the key that the request names, and no acknowledgement."""
    pair = Pair(tester, "UD", qkey=QKEY)
    pair.store(0, DATA)
    to: dict[str, Any] = {"address": tester.local, "qpn": pair.own_qpn, "qkey": 0x7654321}
    pair.post("SEND", 11, wr=4, **to)
    fields = {"qkey": 0x7654321, "sqpn": pair.qpn, "ackreq": 0}
    tester.expect(pair.sent("SEND_ONLY", DATA[:11], **fields), clause="18.5-5")
    pair.done(wr=4, operation="SEND", clause="18.4-5")
    pair.post("SEND_WITH_IMM", 3, wr=5, immediate=8, **to)
    tester.expect(pair.sent("SEND_ONLY_WITH_IMMEDIATE", DATA[:3], immdt=8, **fields), clause="18.5-5")
    pair.done(wr=5, operation="SEND", clause="18.4-5")
