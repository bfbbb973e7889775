"""The two ends of a connection under test, with one interface: a Fanin transport on the wire, and rxe in the guest."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fanin_nic.transport.transport import Limits
from fanin_wire.rocev2 import PATH_MTUS
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import (
    Access,
    CompletionFlag,
    CompletionOpcode,
    CompletionStatus,
    QueuePairState,
    RequestOpcode,
    SendFlag,
)
from fanin_wire.verbs import Attribute as A
from tests.transport import rig
from tests.transport.rig import PATH, STEPS, Endpoint

from .machine.guest import Guest
from .wire import Packet, Wire, address_bytes, packet

FANIN_ADDRESS = "10.0.0.2"
MEMORY = 1 << 22
LIMITS = Limits(queue_pairs=8, send_depth=64, receive_depth=64, regions=16, actions=1024, window=64)
RIGHTS = ("LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC")
SECONDS = 100  # for a request, by the clock of the network
POLL_SECONDS = 5  # of the guest's clock, for completions before the next call
QKEY = 0x1EE7
ATTRIBUTES = {A.PATH_MTU: 1024, A.RETRY_CNT: 7, A.RNR_RETRY: 7, A.MIN_RNR_TIMER: 12, A.QKEY: QKEY}
# Fanin: long enough for a busy guest. rxe takes no second NAK without an ACK between, so after a loss its time-out
# must act; it takes at most 7 retries.
FANIN_TIMEOUT, RXE_TIMEOUT = {A.TIMEOUT: 16}, {A.TIMEOUT: 12}
STATES = (QueuePairState.INIT, QueuePairState.RTR, QueuePairState.RTS)
# Attribute: its name in pyverbs, if it differs from that of verbs.
NAMES = {
    A.ACCESS_FLAGS: "qp_access_flags",
    A.PORT: "port_num",
    A.DEST_QPN: "dest_qp_num",
    A.MAX_QP_RD_ATOMIC: "max_rd_atomic",
}


class Completion(NamedTuple):
    """A completion of either end. status and opcode: names; immediate: of a request to receive.

    rxe also says WITH_IMM in the completion of the request to send, without immediate data.
    """

    wr_id: int
    status: str
    opcode: str
    length: int
    immediate: int | None
    source_qpn: int


class Network(Protocol):
    """The network between a guest and the other ends. Its text is the history for a failure's message."""

    guest: Guest

    @property
    def now(self) -> int:
        """Time in ns, without pauses of this process."""


class End(Protocol):
    """One end, with its memory and one queue pair. Offsets are in its memory."""

    wire: Network
    name: str
    text: str
    qpn: int
    start: int
    key: int

    def create(self, service: Service) -> None: ...
    def bring_up(self, peer: End | None, **attributes: int) -> None: ...
    def post_receive(self, offset: int, length: int, *, wr_id: int = 1, key: int | None = None) -> None: ...
    def post(
        self,
        opcode: RequestOpcode,
        offset: int,
        length: int,
        *,
        to: End,
        at: int = 0,
        rkey: int | None = None,
        wr_id: int = 1,
        immediate: int = 0,
        compare_add: int = 0,
        swap: int = 0,
        flags: int = int(SendFlag.SIGNALED),
        key: int | None = None,
        qkey: int = QKEY,
    ) -> None: ...
    def sent(self, count: int = 1, seconds: float = SECONDS) -> list[Completion]: ...
    def received(self, count: int = 1, seconds: float = SECONDS) -> list[Completion]: ...
    def fill(self, offset: int, data: bytes) -> None: ...
    def bytes(self, offset: int, length: int) -> bytes: ...
    def state(self) -> str: ...
    def fail(self) -> None: ...
    def register(self, rights: Sequence[str], length: int) -> tuple[int, int]: ...


ATOMICS = (RequestOpcode.ATOMIC_CMP_AND_SWP, RequestOpcode.ATOMIC_FETCH_AND_ADD)


class Fanin:
    """A Fanin transport with its driver: packets from and to the wire, and timers by the wire's clock."""

    name = "fanin"

    def __init__(self, wire: Wire, text: str = FANIN_ADDRESS) -> None:
        self.wire = wire
        self.text = text
        self.address = address_bytes(text)
        self.endpoint = Endpoint(text, limits=LIMITS, memory=MEMORY)
        self.endpoint.now = wire.now
        self.start, self.key = self.endpoint.start, self.endpoint.key
        self.index = self.qpn = 0
        wire.attach(self)

    # Station of the wire

    def receive(self, packets: Sequence[Packet], now: int) -> None:
        self.endpoint.now = now
        arriving = [rig.Packet(int.from_bytes(p.source), self.endpoint.address, p.transport) for p in packets]
        self.endpoint.receive_all(arriving)

    def take(self, now: int) -> list[Packet]:
        self.endpoint.now = now
        if now >= self.endpoint.transport.next_deadline:
            self.endpoint.tick()
        sent, self.endpoint.sent = self.endpoint.sent, []
        return [packet(self.address, p.destination.to_bytes(4), p.data) for p in sent]

    def deadline(self) -> int:
        return self.endpoint.transport.next_deadline

    # End

    def create(self, service: Service) -> None:
        self.index = self.endpoint.queue_pair(service)
        self.qpn = self.endpoint.qpn(self.index)

    def bring_up(self, peer: End | None, **attributes: int) -> None:
        given = {name.name: value for name, value in (ATTRIBUTES | FANIN_TIMEOUT).items()} | attributes
        if peer is not None:
            given |= {"AV": int(ipaddress.IPv4Address(peer.text)), "DEST_QPN": peer.qpn}
        rig.bring_up(self.endpoint, self.index, **given)

    def post_receive(self, offset, length, *, wr_id=1, key=None) -> None:
        pieces = [(offset, length)] if length else []
        self.endpoint.post_receive(*pieces, index=self.index, wr_id=wr_id, lkey=key)

    def post(
        self,
        opcode,
        offset,
        length,
        *,
        to,
        at=0,
        rkey=None,
        wr_id=1,
        immediate=0,
        compare_add=0,
        swap=0,
        flags=int(SendFlag.SIGNALED),
        key=None,
        qkey=QKEY,
    ) -> None:
        self.endpoint.now = self.wire.now
        self.endpoint.post(
            opcode,
            *([(offset, length)] if length else []),
            index=self.index,
            lkey=key,
            wr_id=wr_id,
            flags=flags,
            immediate=immediate,
            remote_address=to.start + at,
            rkey=to.key if rkey is None else rkey,
            compare_add=compare_add,
            swap=swap,
            destination=int(ipaddress.IPv4Address(to.text)),
            remote_qpn=to.qpn,
            remote_qkey=qkey,
        )

    def sent(self, count=1, seconds=SECONDS) -> list[Completion]:
        return self._completions(0, count, seconds)

    def received(self, count=1, seconds=SECONDS) -> list[Completion]:
        return self._completions(1, count, seconds)

    def _completions(self, queue: int, count: int, seconds: float) -> list[Completion]:
        def here() -> list[rig.Completion]:
            return [done for done in self.endpoint.completions if done.cq == queue]

        self.wire.run(lambda: len(here()) >= count, seconds, f"{count} completions of queue {queue}, not {here()}")
        taken = here()[:count]
        for done in taken:
            self.endpoint.completions.remove(done)
        return [
            Completion(
                done.wr_id,
                done.status.name,
                done.opcode.name,
                done.length,
                done.immediate if done.flags & CompletionFlag.WITH_IMM else None,
                done.source_qpn,
            )
            for done in taken
        ]

    def fill(self, offset: int, data: bytes) -> None:
        self.endpoint.fill(offset, data)

    def bytes(self, offset: int, length: int) -> bytes:
        return self.endpoint.bytes(offset, length)

    def state(self) -> str:
        return self.endpoint.state(self.index).name

    def fail(self) -> None:
        self.endpoint.transport.modify(self.index, QueuePairState.ERR, self.endpoint.now)
        self.endpoint.settle()

    def register(self, rights: Sequence[str], length: int) -> tuple[int, int]:
        """Register another region at the start of the memory. Returns address and key."""
        access = Access(0)
        for right in rights:
            access |= Access[right]
        return self.start, self.endpoint.register(access, length=length)


class Rxe:
    name = "rxe"

    def __init__(self, wire: Network) -> None:
        self.wire = wire
        self.guest: Guest = wire.guest
        self.text = self.guest.address
        self.address = address_bytes(self.text)
        region = self.guest.call("register", length=MEMORY, access=RIGHTS)
        self.region, self.start, self.local_key, self.key = (
            region[name] for name in ("handle", "start", "lkey", "rkey")
        )
        self.pair = self.qpn = 0
        self.regions = [self.region]

    def close(self) -> None:
        """Destroy the guest's objects."""
        if self.pair:
            self.destroy()
        for region in self.regions:
            self.guest.call("deregister", region=region)

    def destroy(self) -> None:
        self.guest.call("destroy", pair=self.pair)
        self.pair = 0

    def create(self, service: Service) -> None:
        made = self.guest.call("queue_pair", kind=service.name)
        self.pair, self.qpn, self.service = made["handle"], made["qpn"], service

    def bring_up(self, peer: End | None, **attributes: int) -> None:
        values = PATH | ATTRIBUTES | RXE_TIMEOUT | {A[name]: value for name, value in attributes.items()}
        if peer is not None:
            values |= {A.AV: 0, A.DEST_QPN: peer.qpn}
        values[A.PATH_MTU] = PATH_MTUS.index(values[A.PATH_MTU]) + 1
        for state, step in zip(STATES, STEPS[self.service], strict=True):
            given = [attribute for attribute in values if attribute & step]
            members = {NAMES.get(each, each.name.lower()): values[each] for each in given if each != A.AV}
            self.guest.call(
                "modify",
                pair=self.pair,
                mask=["STATE", *(each.name for each in given)],
                address=peer.text if A.AV in given else None,
                qp_state=int(state),
                **members,
            )

    def post_receive(self, offset, length, *, wr_id=1, key=None) -> None:
        key = self.local_key if key is None else key
        pieces = [(self.start + offset, length, key)]  # pyverbs demands a piece, maybe of 0 bytes
        self.guest.call("post_receive", pair=self.pair, pieces=pieces, wr_id=wr_id)

    def post(
        self,
        opcode,
        offset,
        length,
        *,
        to,
        at=0,
        rkey=None,
        wr_id=1,
        immediate=0,
        compare_add=0,
        swap=0,
        flags=int(SendFlag.SIGNALED),
        key=None,
        qkey=QKEY,
    ) -> None:
        key = self.local_key if key is None else key
        rkey = to.key if rkey is None else rkey
        values: dict = {"immediate": immediate}
        if opcode in ATOMICS:
            values["atomic"] = (rkey, to.start + at, compare_add, swap)
        elif self.service == Service.UD:
            values["datagram"] = (to.text, to.qpn, qkey)
        elif "RDMA" in opcode.name:
            values["rdma"] = (rkey, to.start + at)
        self.guest.call(
            "post_send",
            pair=self.pair,
            opcode=opcode.name,
            pieces=[(self.start + offset, length, key)],
            flags=[flag.name for flag in SendFlag if flag & flags],
            wr_id=wr_id,
            **values,
        )

    def sent(self, count=1, seconds=SECONDS) -> list[Completion]:
        return self._completions("send", count, seconds)

    def received(self, count=1, seconds=SECONDS) -> list[Completion]:
        return self._completions("receive", count, seconds)

    def _completions(self, queue: str, count: int, seconds: float) -> list[Completion]:
        found: list[dict] = []
        end = self.wire.now + int(seconds * 1e9)
        while len(found) < count:
            if self.wire.now > end:
                raise self.guest.failure(f"has {len(found)} of {count} completions after {seconds:.0f} s; {self.wire}")
            found += self.guest.call(
                "poll", pair=self.pair, queue=queue, count=count - len(found), seconds=POLL_SECONDS
            )
        return [
            Completion(
                done["wr_id"],
                STATUS_NAMES.get(done["status"], str(done["status"])),
                OPCODE_NAMES.get(done["opcode"], str(done["opcode"])),
                done["length"],
                done["immediate"] if done["flags"] & CompletionFlag.WITH_IMM and queue == "receive" else None,
                done["source_qpn"],
            )
            for done in found
        ]

    def fill(self, offset: int, data: bytes) -> None:
        self.guest.fill(self.region, offset, data)

    def bytes(self, offset: int, length: int) -> bytes:
        return self.guest.bytes(self.region, offset, length)

    def state(self) -> str:
        return QueuePairState(self.guest.call("state", pair=self.pair)).name

    def fail(self) -> None:
        self.guest.call("modify", pair=self.pair, mask=["STATE"], qp_state=int(QueuePairState.ERR))

    def register(self, rights: Sequence[str], length: int) -> tuple[int, int]:
        """Register another region. Returns address and remote key."""
        region = self.guest.call("register", length=length, access=list(rights))
        self.regions.append(region["handle"])
        return region["start"], region["rkey"] or region["lkey"]


STATUS_NAMES = {int(status): status.name for status in CompletionStatus}
OPCODE_NAMES = {int(opcode): opcode.name for opcode in CompletionOpcode}
