"""Honest traffic beside the attack: three connections of a victim with a peer, every byte of which is compared."""

from random import Random
from typing import NamedTuple

from fanin_sim.hostile.device import Device, Violated
from fanin_sim.hostile.memory import FOREIGN
from fanin_sim.hostile.queues import Queue
from fanin_sim.hostile.states import bring_up, draw_attributes
from fanin_wire.rocev2 import GRH_SIZE
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, Attribute, RequestOpcode
from fanin_wire.verbs import QueuePairState as State

AREA = 512  # bytes of memory for one request, on each side
ROUNDS = 100  # of carrying packets to and fro; a request takes fewer
OPERATIONS = {
    Service.RC: (
        RequestOpcode.SEND,
        RequestOpcode.RDMA_WRITE,
        RequestOpcode.RDMA_READ,
        RequestOpcode.ATOMIC_FETCH_AND_ADD,
    ),
    Service.UC: (RequestOpcode.SEND, RequestOpcode.RDMA_WRITE),
    Service.UD: (RequestOpcode.SEND,),
}
RIGHTS = int(Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC)
REQUESTS = 28  # of a life, at most: as many as there are areas


class Promise(NamedTuple):
    """What the memory of a device must hold in the end. place: in the memory's array."""

    device: Device
    place: int
    data: bytes
    what: str


class Honest:
    def __init__(self, random: Random, one: Device, two: Device) -> None:
        self._random, self._ends = random, (one, two)
        self._links = [self.connect(kind) for kind in (Service.RC, Service.UC, Service.UD)]
        self._promises: list[Promise] = []
        self.requests = 0

    def connect(self, kind: Service) -> tuple[Queue, Queue]:
        """Two connected queue pairs, one of each device."""
        queues = [device.create(kind, FOREIGN, is_attacked=False) for device in self._ends]
        self._bring_up(queues[0], queues[1])
        return queues[0], queues[1]

    def adopt(self, queue: Queue) -> None:
        """Connect a queue pair of the first device, which was attacked and is in RESET, and use only this one."""
        queue.domain, queue.is_attacked, queue.shared = FOREIGN, False, None
        self._ends[0].row(queue)["domain"] = FOREIGN
        self._ends[0].row(queue)["shared_queue"] = 0
        other = self._ends[1].create(queue.kind, FOREIGN, is_attacked=False)
        self._bring_up(queue, other)
        self._links = [(queue, other)]

    def _bring_up(self, one: Queue, two: Queue) -> None:
        shared = draw_attributes(self._random) | {Attribute.ACCESS_FLAGS: RIGHTS, Attribute.MAX_DEST_RD_ATOMIC: 4}
        psns = shared[Attribute.SQ_PSN], shared[Attribute.RQ_PSN]
        for number, (device, queue, other) in enumerate(zip(self._ends, (one, two), (two, one), strict=True)):
            path = {Attribute.AV: self._ends[1 - number].address, Attribute.DEST_QPN: other.qpn}
            path |= {Attribute.SQ_PSN: psns[number], Attribute.RQ_PSN: psns[1 - number]}
            bring_up(device, queue, State.RTS, shared | path)

    def post(self) -> None:
        """Post a request of either side, and the receive request for it."""
        if self.requests >= REQUESTS:
            return
        random, area = self._random, self.requests * AREA
        queues = random.choice(self._links)
        side = random.randrange(2)
        here, there = self._ends[side], self._ends[1 - side]
        queue, other = queues[side], queues[1 - side]
        opcode = random.choice(OPERATIONS[queue.kind])
        length = random.randrange(1, 257 if queue.kind == Service.UD else AREA - GRH_SIZE)
        ours, theirs = here.memory.regions["honest"], there.memory.regions["honest"]
        members = {"remote_address": theirs.address + area, "rkey": theirs.key}
        what = f"{opcode.name} over {queue.kind.name}, number {self.requests}"
        if opcode == RequestOpcode.ATOMIC_FETCH_AND_ADD:
            length, members["compare_add"] = 8, random.getrandbits(63)
            found = there.memory.expected(theirs.place + area, 8)
            total = (int.from_bytes(found, "little") + members["compare_add"]) % (1 << 64)
            self._promise(there, theirs.place + area, total.to_bytes(8, "little"), what)
            self._promise(here, ours.place + area, found, what)
        elif opcode == RequestOpcode.RDMA_READ:
            self._promise(here, ours.place + area, there.memory.expected(theirs.place + area, length), what)
        else:
            start = GRH_SIZE if queue.kind == Service.UD else 0
            data = here.memory.expected(ours.place + area, length)
            self._promise(there, theirs.place + area + start, data, what)
            if opcode == RequestOpcode.SEND:
                there.post_receive(other, [(theirs, area, AREA)])
            if queue.kind == Service.UD:
                qkey = int(there.row(other)["qkey"])
                members = {"destination": there.address, "remote_qpn": other.qpn, "remote_qkey": qkey}
        here.post_send(queue, opcode, ours, area, length, **members)
        self.requests += 1

    def _promise(self, device: Device, place: int, data: bytes, what: str) -> None:
        self._promises.append(Promise(device, place, data, what))

    def check(self) -> None:
        """Check that all requests have ended, and that every byte is right."""
        for device, queue in (
            (end, queue) for link in self._links for end, queue in zip(self._ends, link, strict=True)
        ):
            if device.state(queue) != State.RTS or queue.sends or queue.receives:
                raise Violated(f"honest traffic over {queue.kind.name} does not go on")
        for device, place, data, what in self._promises:
            if device.memory.bytes[place : place + len(data)].tobytes() != data:
                raise Violated(f"honest {what}: wrong data")
