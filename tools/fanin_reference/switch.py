"""A switch that is the top of its tree: packets in, packets out (sections 5, 10.5 and 11)."""

from fanin_reference import membership, packets, positions, spec
from fanin_reference.device import Device, Outgoing
from fanin_reference.job import NEVER, Job, State
from fanin_reference.packets import Dropped, Packet
from fanin_reference.times import AGEING_S, DETECTION_S, KEEPALIVE_S, NAK_S, TICK_S

UP, BOTH = ("CONTRIBUTION", "PROBE", "LEAVE", "QUERY"), ("ABORT", "NAK", "KEEPALIVE")
ASKING = ("CONTRIBUTION", "PROBE", "QUERY")
ENDED = ("CONTRIBUTION", "RESULT", "PROBE", "ACK", "QUERY", "KEEPALIVE")


class Switch(Device):
    """The switch. `receive` and `tick` return packets to send."""

    def __init__(self, address: str, lanes: int = 1, buffer: int = 1 << 20, group: str = "") -> None:
        super().__init__(address, lanes, buffer, group)
        self._ticked = self._last_nak = NEVER

    def receive(self, data: bytes, source: str, port: int, now: float) -> list[Outgoing]:
        """Take a datagram: section 5."""
        self.now = now
        try:
            self._take(packets.parse(data, source, port, self.address, self.lanes))
        except Dropped as reason:
            self.drops[str(reason)] += 1
        return self.outgoing()

    def _take(self, packet: Packet) -> None:
        if packet.opcode == "CONFIG":
            return membership.config(self, packet)
        job = self.jobs.get((packet.lane, packet.jid))
        if job is None or (job.state == State.REMEMBERED and (job.key == packet.key or packet.opcode == "LEAVE")):
            return self._unknown(packet)
        if job.key != packet.key:
            if packet.opcode != "LEAVE":
                raise Dropped("5-15")
            return self.answer(packet, "LEAVE_ACK")
        if job.state == State.TOMBSTONE and packet.opcode != "LEAVE":
            if packet.opcode not in ENDED:
                raise Dropped("11-7")
            return self.answer(packet, "ABORT", job.ended)
        child = job.children.get(packet.source)
        if packet.opcode not in (*UP, *BOTH):
            raise Dropped("5-23")
        if child.address != packet.address if child else packet.opcode != "LEAVE":
            raise Dropped("5-17")
        if not job.mask >> packet.source & 1:
            raise Dropped("5-24")
        job.heard = self.now
        if child:
            child.heard = self.now
        return self._from_child(job, packet)

    def _from_child(self, job: Job, packet: Packet) -> None:
        if packet.opcode == "LEAVE":
            membership.leave(self, job, packet)
        elif packet.opcode == "QUERY":
            self.answer(packet, "STATUS", {"token": packet.token} | membership.forming(job))
        elif packet.opcode == "ABORT":
            membership.abort(self, job, membership.reason(packet), membership.named(packet))
        elif packet.opcode == "NAK":
            if job.state == State.ACTIVE and not job.left >> packet.source & 1:
                membership.lost(self, job, 1 << packet.source)
        elif packet.opcode != "KEEPALIVE":
            positions.about(self, job, packet)

    def _unknown(self, packet: Packet) -> None:
        """Item 6 of section 5."""
        if packet.opcode == "LEAVE":
            self.answer(packet, "LEAVE_ACK")
            if packet.status and (packet.lane, packet.jid) not in self.jobs:
                membership.remember(self, packet.lane, packet.jid, packet.key, packet.status, membership.named(packet))
        elif packet.opcode in ASKING or (packet.opcode == "KEEPALIVE" and not packet.node_bitmap):
            if self.now - self._last_nak < NAK_S:
                raise Dropped("5-12")
            self._last_nak = self.now
            self.answer(packet, "NAK", {"status": spec.STATUS["NOT_CONFIGURED"]})
        else:
            raise Dropped("5-13")

    def tick(self, now: float) -> list[Outgoing]:
        """Time has passed, and all packets until then were taken. Call it each TICK_S."""
        stood_still = now - self._ticked if now - self._ticked > KEEPALIVE_S and self._ticked != NEVER else 0.0
        self.now = self._ticked = now
        for job in list(self.jobs.values()):
            self._age(job, stood_still)
        return self.outgoing()

    def _age(self, job: Job, stood_still: float) -> None:
        job.heard = min(self.now, job.heard + stood_still)
        for child in job.children.values():
            child.heard = min(self.now, child.heard + stood_still)
        if self.now - job.heard > AGEING_S:
            membership.free(self, job)
        elif job.state in (State.JOINING, State.ACTIVE):
            silent = [bit for bit in job.present if self.now - job.children[bit].heard > DETECTION_S]
            if silent:
                membership.lost(self, job, sum(1 << bit for bit in silent))
            elif job.state == State.ACTIVE:
                if self.may_invite(job) and self.now - job.invited >= KEEPALIVE_S - TICK_S:
                    self.invite(job)
                for bit in job.present:
                    if self.now - job.children[bit].sent >= KEEPALIVE_S - TICK_S:
                        self.to_child(job, bit, "KEEPALIVE")
