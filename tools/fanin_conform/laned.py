"""A job of a tree at a NIC of several lanes: the tester plays the switch above it in each of them."""

from typing import Any

from scapy.packet import Packet

from fanin_conform.datagram import Dissected
from fanin_conform.host import NicTree
from fanin_conform.listener import Mismatch
from fanin_conform.profile import LeftOut
from fanin_conform.tester import ANY, Expected, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import CONFIG_BODY, Opcode
from fanin_wire.layers import CONFIG_ACK

LAST_LANE = CONFIG_BODY.byte_offset("last_lane")


class LanedTree(NicTree):
    """The job. lanes: of the NIC. configs: its CONFIG of each lane."""

    has_lanes = True

    def __init__(self, tester: Tester, ranks: int = 1, **given: Any) -> None:
        self.lanes = tester.profile.lanes
        if self.lanes < 2:
            raise LeftOut("second lane")
        self.configs: list[Dissected] = []
        super().__init__(tester, ranks, **given)

    def form(self) -> None:
        """All ranks join, and every lane's CONFIG is answered."""
        for rank in range(self.ranks):
            self.join_rank(rank)
        self.expect_configs()
        for lane in range(self.lanes):
            self.grant_lane(lane)
        self.all_joined()

    def expect_configs(self, clause: str = "6.1-8 6.1-11") -> None:
        """The NIC's CONFIG comes in each lane."""
        seen = self.expect_lanes(*(self.up(Opcode.CONFIG, ANY, token=ANY, lane=n) for n in range(self.lanes)))
        for packet in seen:
            if packet.payload[LAST_LANE] != self.lanes - 1:
                raise Mismatch(f"last_lane is {packet.payload[LAST_LANE]}: {packet}", tuple(clause.split()))
        self.configs = seen

    def grant_lane(self, lane: int, status: str = "SUCCESS") -> None:
        """CONFIG_ACK in a lane."""
        self.window = self.slots // 2
        body = bytes(CONFIG_ACK(slots=self.slots, window=self.window)).ljust(self.chunk, b"\0")
        token = self.configs[lane].ceth["token"]
        self.down_lane(lane, Opcode.CONFIG_ACK, body, token=token, status=int(Status[status]))

    def down_lane(self, lane: int, code: Opcode, body: Packet | bytes = b"", **ceth: Any) -> None:
        """A packet of the parent in a lane."""
        self.down(code, body, lane=lane, **ceth)

    def expect_lanes(self, *expected: Expected, clause: str = "") -> list[Dissected]:
        """These packets come, in this order in each lane, and no others."""
        clauses = tuple(clause.split())
        left, found = self.tester.everything(len(expected)), []
        for each in expected:
            own = [entry for entry in left if entry[1].ceth["lane"] == each.ceth["lane"]]
            if not own or own[0][1].opcode != each.opcode:
                raise Mismatch(f"expected {each}\nseen     {own[0][1] if own else 'nothing in this lane'}", clauses)
            if wrong := each.differences(own[0][1]):
                raise Mismatch(f"expected {each}\nseen     {own[0][1]}\n         {'; '.join(wrong)}", clauses)
            left.remove(own[0])
            found.append(own[0][1])
        if left:
            raise Mismatch(f"expected nothing more\nseen     {left[0][1]}", clauses)
        return found

    def leave_quietly(self) -> None:
        """The parent ends the job in each lane, and answers the NIC's LEAVEs."""
        self.close_host()
        for lane in range(self.lanes):
            self.down_lane(lane, Opcode.LEAVE_ACK)
            self.down_lane(lane, Opcode.ABORT, status=int(Status.ABORTED))
        self.drain()
        for lane in range(self.lanes):
            self.down_lane(lane, Opcode.LEAVE_ACK)
