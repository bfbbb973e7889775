"""The state and output of a device: jobs, and packets. Sockets and the clock are the caller's."""

from collections import Counter
from collections.abc import Mapping

from fanin_reference import packets
from fanin_reference.job import Job
from fanin_reference.packets import Packet

Fields = Mapping[str, int]  # of the CETH
NO_FIELDS: Fields = {}
Outgoing = tuple[str, int, bytes]  # destination, lane, datagram


class Device:
    """address: IPv4. lanes: their number. buffer: bytes that may wait at the port. group: multicast address of all
    children; "": none. drops: packets by demand."""

    def __init__(self, address: str, lanes: int = 1, buffer: int = 1 << 20, group: str = "") -> None:
        self.address, self.lanes, self.buffer, self.group = address, lanes, buffer, group
        self.jobs: dict[tuple[int, int], Job] = {}
        self.drops: Counter[str] = Counter()
        self.now = 0.0
        self._out: list[Outgoing] = []

    def answer(self, packet: Packet, opcode: str, ceth: Fields = NO_FIELDS, payload: bytes = b"") -> None:
        """A packet back to the sender of one."""
        alike = {name: packet.ceth[name] for name in ("jid", "key", "lane", "source")}
        self._send(packet.address, opcode, payload, {**alike, **ceth})

    def to_child(self, job: Job, bit: int, opcode: str, ceth: Fields = NO_FIELDS, payload: bytes = b"") -> None:
        """A packet to a child that has joined."""
        child = job.children[bit]
        child.sent = self.now
        alike = {"jid": job.jid, "key": job.key, "lane": job.lane, "source": bit}
        self._send(child.address, opcode, payload, {**alike, **ceth})

    def to_group(self, job: Job, opcode: str, ceth: Fields = NO_FIELDS, payload: bytes = b"") -> None:
        """One packet to all children ([7.4-2])."""
        alike = {"jid": job.jid, "key": job.key, "lane": job.lane, "source": min(job.children), "node_bitmap": job.mask}
        self._send(self.group, opcode, payload, {**ceth, **alike})

    def may_invite(self, job: Job) -> bool:
        """Whether there is a group with more than one child."""
        return bool(self.group) and len(job.children) > 1

    def invite(self, job: Job) -> None:
        """Invite the children to the group ([7.4-7])."""
        job.invited = self.now
        self.to_group(job, "KEEPALIVE")

    def _send(self, to: str, opcode: str, payload: bytes, ceth: dict[str, int]) -> None:
        self._out.append((to, ceth["lane"], packets.build(opcode, self.address, to, payload, **ceth)))

    def outgoing(self) -> list[Outgoing]:
        """Take the packets to send."""
        out, self._out = self._out, []
        return out
