"""The last node of a ring below a switch: a node of the ring to its neighbours, a child of a tree to its parent."""

from typing import Any

import numpy as np

from fanin_conform.host import AHEAD, NicRing
from fanin_conform.job import ALL, DATA, ONE, WANTS, f32
from fanin_conform.script import ring_script
from fanin_conform.tester import ANY, Expected, Tester
from fanin_wire.abi import DType, Op, Route, Status
from fanin_wire.fields import CONFIG_BODY, Opcode
from fanin_wire.layers import CONFIG_ACK

U8 = int(DType.U8)
INDEX, NODES = 1, 2
UP = 3  # the bit of the ring at the switch


class BelowSwitch(NicRing):
    """Node 1 of 2, and the switch above it."""

    def __init__(self, tester: Tester, **given: Any) -> None:
        super().__init__(tester, index=INDEX, nodes=NODES, below=True, **given)

    def form(self) -> None:
        """The chain ends at the switch."""
        self.join_rank(0)
        self.config_of_previous()
        pending = self.config_ack("PENDING", ANY, seg=ANY, node_bitmap=ANY, rank_bitmap=ANY)
        (self.config, _) = self.tester.expect(self.above(Opcode.CONFIG, ANY, token=ANY), pending)
        body = bytes(CONFIG_ACK(slots=self.slots, window=self.slots // 2)).ljust(self.chunk, b"\0")
        self.from_above(Opcode.CONFIG_ACK, body, token=self.config.ceth["token"])
        self.tester.expect(self.config_ack("SUCCESS", ANY))
        self.all_joined()

    def above(self, code: Opcode, payload: Any = b"", **ceth: Any) -> Expected:
        """A packet to the switch."""
        return self.expected(self.parent, code, payload, **({"source": UP} | ceth))

    def from_above(self, code: Opcode, body: Any = b"", **ceth: Any) -> None:
        """A packet of the switch."""
        self.tester.send(self.parent, self.packet(code, body, **({"source": UP} | ceth)))


@ring_script("9.1-1", "9.1-2", "9.1-3", "9.1-4", "10.2-7", "7.1-14", "9-3")
def up_and_round(tester: Tester) -> None:
    """The partial of the ring goes to the switch as one child's; the RESULT of the switch goes round."""
    job = BelowSwitch(tester)
    assert job.config is not None
    from fanin_conform import datagram

    body = datagram.unpack(CONFIG_BODY, job.config.payload)
    assert body["route"] == int(Route.TREE), "the CONFIG to the switch has another route than 1"
    data = np.arange(64, dtype="<f4")
    (position,) = job.post(0, data)
    tester.nothing("9.1-1")
    job.contribute(position, 0b10, data)
    place = job.place(position) | {"op": int(Op.SUM), "dtype": 1, "flags": ALL | DATA | WANTS, "contributions": 2}
    up = job.above(Opcode.CONTRIBUTION, (data * 2).tobytes(), node_bitmap=1 << UP, rank_bitmap=ANY, **place)
    tester.expect(job.ack(position), up, clause="9.1-2")
    total = data * 4
    down = place | {"flags": ALL | DATA, "contributions": 4, "node_bitmap": 1 << UP}
    job.from_above(Opcode.RESULT, total.tobytes(), **down)
    round_ = job.resulted(position, 0b01, total, contributions=4)
    tester.expect(round_, clause="9.1-3")
    job.done(0, total)
    job.acknowledge(position, 1, 1)


@ring_script("4-26", "4-24", "11-3", "9.1-4")
def names_from_the_switch(tester: Tester) -> None:
    """1 of the switch is 2 in the ring."""
    job = BelowSwitch(tester)
    job.post(0, f32(1))
    job.from_above(Opcode.ABORT, status=int(Status.PEER_LOST), seg=1, node_bitmap=0b10)
    job.done(0, status="PEER_LOST", clause="4-26", missing=0b10, missing_kind=2)
    told = [packet for to, packet in tester.everything() if to == job.previous and packet.opcode == Opcode.ABORT]
    assert told, "the previous node is not told"
    named = told[0].ceth["seg"], told[0].ceth["node_bitmap"]
    assert named == (2, 0b10), f"the previous node hears {named}"


@ring_script("9.1-5", "10.4-1", "10.4-6")
def it_leaves_both(tester: Tester) -> None:
    """LEAVE goes to the next node and to the switch."""
    job = BelowSwitch(tester)
    job.leave(0)
    job.from_previous(Opcode.LEAVE)
    tester.spend(0.3)
    seen = {to for to, packet in tester.everything() if packet.opcode == Opcode.LEAVE}
    seen |= {to for to, text in tester._asked if text.startswith("LEAVE")}
    assert seen >= {job.next, job.parent}, f"LEAVE goes to {sorted(seen)}"


@ring_script("9.1-4", "8-22", "8-3", "8-2")
def it_asks_the_switch(tester: Tester) -> None:
    """Silence above is asked about with a PROBE to the switch; NEED there has the partial sent again."""
    job = BelowSwitch(tester)
    data = np.arange(64, dtype="<f4")
    (position,) = job.post(0, data)
    job.contribute(position, 0b10, data)
    place = job.place(position) | {"op": int(Op.SUM), "dtype": 1, "flags": ALL | DATA | WANTS, "contributions": 2}
    up = job.above(Opcode.CONTRIBUTION, (data * 2).tobytes(), node_bitmap=1 << UP, rank_bitmap=ANY, **place)
    tester.expect(job.ack(position), up)
    asked = job.question("8-3", source=UP)
    job.from_above(Opcode.NEED, **(job.place(position) | {"token": asked.ceth["token"]}))
    tester.expect(up, clause="8-22")


@ring_script("7.5-25", "9.1-3")
def data_ahead_from_the_switch(tester: Tester) -> None:
    """It takes them, and sends them round with the RESULT."""
    job = BelowSwitch(tester)
    (position,) = job.post(0, b"", length=4, contributors="ONE", brings=(0, 0))
    fields: dict[str, Any] = {"op": 0, "dtype": U8}
    job.contribute(position, 0b10, None, flags=ONE | WANTS, contributions=0, **fields)
    place = job.place(position) | fields
    up = job.above(
        Opcode.CONTRIBUTION, node_bitmap=1 << UP, rank_bitmap=ANY, contributions=ANY, flags=ONE | WANTS, **place
    )
    tester.expect(job.ack(position), up)
    down = place | {"node_bitmap": 1 << UP, "contributions": 1}
    job.from_above(Opcode.RESULT, b"data", **(down | {"flags": ONE | DATA | AHEAD}))
    tester.nothing("7.5-25")
    job.from_above(Opcode.RESULT, **(down | {"flags": ONE}))
    round_ = job.resulted(position, 0b01, b"data", flags=ONE | DATA, contributions=ANY, **fields)
    tester.expect(round_, clause="7.5-25")
    job.done(0, b"data")
    job.acknowledge(position, 1, 1)
