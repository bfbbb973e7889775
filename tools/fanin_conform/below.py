"""A job in which the device stands below another switch: the tester plays its children and its parent."""

from typing import Any

import numpy as np
from scapy.packet import Packet

from fanin_conform.datagram import Dissected
from fanin_conform.job import ALL, DATA, WANTS, Job, payload_of, type_of
from fanin_conform.listener import Mismatch
from fanin_conform.tester import ANY, Expected, Tester
from fanin_wire.abi import Op, Status
from fanin_wire.fields import Opcode
from fanin_wire.layers import CONFIG_ACK, HOP

UP = 5  # the device's bit at its parent


class JobBelow(Job):
    """The job, whose parent has its own address. asked: the device's CONFIG."""

    def __init__(self, tester: Tester, size: int = 2, *, join: bool = True, grant: bool = True, **shape: Any) -> None:
        tester.profile.require_middle()
        self.parent = tester.addresses[3]
        super().__init__(tester, size, join=False, **shape)
        self.above = [HOP(address=f"::ffff:{self.parent}", bit=UP, mask=1 << UP | 1)]
        self.asked: Dissected | None = None
        if join:
            self.ask()
            if grant:
                self.grant()

    def ask(self) -> Dissected:
        """All children join; the device asks its parent, and the last child gets PENDING."""
        for bit in range(self.size - 1):
            self.config(bit)
            self.tester.expect(self.pending(bit, range(bit + 1, self.size)))
        self.config(self.size - 1)
        waiting = self.pending(self.size - 1, [], seg=ANY)
        self.asked, _ = self.tester.expect(self.up(Opcode.CONFIG, ANY, token=ANY), waiting)
        return self.asked

    def grant(self) -> None:
        """CONFIG_ACK of the parent: active, with N and W as offered."""
        self.answer(slots=self.slots, window=self.slots // 2, length=self.chunk)
        self.tester.expect(*(self.joined(bit) for bit in range(self.size)))

    def answer(self, slots: int = 0, window: int = 0, *, length: int = 0, **ceth: Any) -> None:
        """CONFIG_ACK of the parent. length: of its body, with zeros."""
        assert self.asked is not None
        token = {"token": self.asked.ceth["token"]}
        body = bytes(CONFIG_ACK(slots=slots, window=window)).ljust(length, b"\0")
        self.down(Opcode.CONFIG_ACK, body, **(token | ceth))

    def down(self, code: Opcode, body: Packet | bytes = b"", *, source: str = "", **ceth: Any) -> None:
        """A packet of the parent."""
        self.tester.send(source or self.parent, self.packet(code, UP, body, **({"source": UP} | ceth)))

    def up(self, code: Opcode, payload: Any = b"", **ceth: Any) -> Expected:
        """A packet to the parent."""
        values = {"jid": self.jid, "key": self.key, "source": UP, "lane": self.lane} | ceth
        return Expected(self.parent, code, values, payload)

    def partial(self, position: int, data: np.ndarray | bytes | None = None, **ceth: Any) -> Expected:
        """CONTRIBUTION to the parent: of every child, each of one rank that wants the result."""
        values = self.place(position) | {"op": int(Op.SUM), "flags": ALL | WANTS, "node_bitmap": 1 << UP}
        values |= {"rank_bitmap": ANY}
        if data is not None:
            values |= {"flags": ALL | WANTS | DATA, "contributions": self.size}
        return self.up(Opcode.CONTRIBUTION, payload_of(data), **(values | type_of(data) | ceth))

    def total(self, position: int, data: np.ndarray | bytes | None = None, *, source: str = "", **ceth: Any) -> None:
        """RESULT of the parent."""
        values = self.place(position) | {"op": int(Op.SUM), "flags": ALL, "node_bitmap": 1 << UP}
        if data is not None:
            values |= {"flags": ALL | DATA, "contributions": 2 * self.size}
        self.down(Opcode.RESULT, payload_of(data), source=source, **(values | type_of(data) | ceth))

    def all_told(self, position: int, data: np.ndarray, **ceth: Any) -> list[Expected]:
        """The parent's RESULT, at each child."""
        values = {"contributions": 2 * self.size} | ceth
        return [self.result(bit, position, data, **values) for bit in range(self.size)]

    def complete(self, position: int, data: np.ndarray | None = None) -> None:
        """All children contribute the same data, the parent answers, and all get the result."""
        data = np.array([1, 2], "<f4") if data is None else data
        for bit in range(self.size):
            self.contribute(bit, position, data)
        own = (data * self.size).astype(data.dtype)
        self.tester.expect(self.partial(position, own))
        self.total(position, own * 2)
        self.tester.expect(*self.all_told(position, own * 2))

    def leave_quietly(self) -> None:
        """The device leaves its parent after its children; then it gets its LEAVE_ACK."""
        super().leave_quietly()
        if self.asked is None:
            return
        try:
            self.tester.everything()
        except Mismatch:
            return  # the verdict is known
        self.down(Opcode.LEAVE_ACK)
        self.down(Opcode.ABORT, status=int(Status.ABORTED))  # if it was still forming
        self.down(Opcode.LEAVE_ACK)
