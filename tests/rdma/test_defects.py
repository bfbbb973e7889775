"""Two defects of rxe as requester, each alone, with the packets that show it (docs/interoperability.md).

A kernel without them fails these tests; then the page has to say so.
"""

from collections.abc import Sequence

import pytest

from fanin_wire.fields import AETH, BTH
from fanin_wire.rocev2 import CODES, CREDITS_INVALID, Acknowledge, syndrome
from fanin_wire.verbs import Attribute, RequestOpcode, SendFlag
from tests.engine.rig import pack, unpack

from .ends import RXE_TIMEOUT, Fanin
from .wire import Packet, packet

SOURCE, TARGET = 4096, 1 << 21
LENGTH = 100
SECONDS = 60
SILENCE_SECONDS = 4
READ, WRITE, FETCH_ADD = RequestOpcode.RDMA_READ, RequestOpcode.RDMA_WRITE, RequestOpcode.ATOMIC_FETCH_AND_ADD
SIGNALED = int(SendFlag.SIGNALED)


class Silent:
    """A NIC that never answers."""

    def __init__(self, fanin: Fanin) -> None:
        self.address = fanin.address
        self.arrived: list[Packet] = []

    def receive(self, packets: Sequence[Packet], now: int) -> None:
        self.arrived += packets

    def take(self, now: int) -> list[Packet]:
        return []

    def deadline(self) -> int:
        return (1 << 64) - 1


class LosesWrites:
    """A NIC that no WRITE reaches before a READ. `arrived`: all packets after this READ, lost or not."""

    def __init__(self, fanin: Fanin) -> None:
        self.address, self.take, self.deadline = fanin.address, fanin.take, fanin.deadline
        self.fanin = fanin
        self.read_seen = False
        self.arrived: list[Packet] = []

    def receive(self, packets: Sequence[Packet], now: int) -> None:
        for each in packets:
            if self.read_seen:
                self.arrived.append(each)
            self.read_seen = self.read_seen or "READ_REQUEST" in each.name
            if self.read_seen:
                self.fanin.receive([each], now)


@pytest.mark.parametrize("operation", [READ, FETCH_ADD], ids=lambda operation: operation.name)
def test_an_acknowledgement_completes_what_only_a_response_may(connect, wire, operation):
    """rxe takes an ACKNOWLEDGE with the PSN of a READ or an atomic for its response: it completes the request with
    success, and the memory is unchanged."""
    fanin, rxe = connect()
    silent = Silent(fanin)
    wire.attach(silent)
    length = 8 if operation == FETCH_ADD else LENGTH
    rxe.fill(SOURCE, b"\xa5" * length)
    rxe.post(operation, SOURCE, length, to=fanin, at=TARGET, compare_add=1)
    wire.run(lambda: silent.arrived, SECONDS, "a request from rxe")
    bth = {"opcode": CODES["RC_ACKNOWLEDGE"], "pkey": 0xFFFF, "dqpn": rxe.qpn}
    psn = unpack(BTH, silent.arrived[0].transport)["psn"]
    aeth = pack(AETH, syndrome=syndrome(Acknowledge.ACK, CREDITS_INVALID), msn=1)
    wire.send(packet(fanin.address, rxe.address, pack(BTH, **bth, psn=psn) + aeth))
    (done,) = rxe.sent()
    assert done.status == "SUCCESS"
    assert rxe.bytes(SOURCE, length) == b"\xa5" * length


@pytest.mark.parametrize("fenced", [False, True], ids=["no fence", "fence"])
def test_a_fence_stops_a_repetition_for_good(connect, wire, fenced):
    """rxe sends a fenced WRITE and a READ, and the WRITE is lost. To repeat the WRITE, rxe waits for the READ, which
    has the place of one under way, but follows the WRITE: neither is sent, and no time-out ends that."""
    fanin, rxe = connect()
    loses = LosesWrites(fanin)
    wire.attach(loses)
    fanin.fill(TARGET + LENGTH, b"\x5a" * LENGTH)
    rxe.fill(SOURCE, b"\xa5" * LENGTH)
    flags = SIGNALED | (int(SendFlag.FENCE) if fenced else 0)
    rxe.post(WRITE, SOURCE, LENGTH, to=fanin, at=TARGET, wr_id=1, flags=flags)
    rxe.post(READ, SOURCE + LENGTH, LENGTH, to=fanin, at=TARGET + LENGTH, wr_id=2)
    wire.run(lambda: loses.read_seen, SECONDS, "a READ from rxe")
    if fenced:
        wire.run(lambda: wire.counts["RC_ACKNOWLEDGE to the guest"], SECONDS, "the NAK of the lost WRITE")
        assert RXE_TIMEOUT[Attribute.TIMEOUT] <= 12  # 17 ms, and its retries have no limit
        wire.rest(SILENCE_SECONDS)
        assert [each.name for each in loses.arrived] == []
        assert rxe.guest.call("poll", pair=rxe.pair, queue="send", count=1, seconds=0) == []
        assert rxe.state() == "RTS"
        assert fanin.bytes(TARGET, LENGTH) == bytes(LENGTH)
    else:
        assert [(done.wr_id, done.status) for done in rxe.sent(2)] == [(1, "SUCCESS"), (2, "SUCCESS")]
        assert fanin.bytes(TARGET, LENGTH) == b"\xa5" * LENGTH
        assert rxe.bytes(SOURCE + LENGTH, LENGTH) == b"\x5a" * LENGTH
