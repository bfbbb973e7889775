"""Devices and links in virtual time. Everything random follows from one seed.

The simulation serves only devices to which something has happened. Arrivals and timers wait in heaps, ordered by time
and then by insertion.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from fanin_nic.engine.engine import Limits, Timing
from fanin_sim.fabric.action_executor import ActionBuffers
from fanin_sim.fabric.device import Device, Packet, Read
from fanin_sim.fabric.links import Faults, Link, Links, Rate
from fanin_sim.fabric.topology import Topology, group_address, nic_address, switch_address
from fanin_wire import fields

SMALL_LIMITS = Limits(jobs=4, slots=64, queues=16, requests=64, regions=64, actions=1024, max_chunk=256, min_lease=4)
NEVER = 2**64 - 1
# (time in ns, sequence number, vertex of the device or NO_VERTEX, event: packet, end of a DMA read, or function)
PendingEvent: TypeAlias = tuple[int, int, int, Any]
NO_VERTEX = -1


class Simulation:
    """A fabric of NICs and switches (see `topology`).

    Without a rate, only `faults` delay a packet, from end to end. With a rate, each link on the path adds its own time.
    With `multicast`, each switch has a group of the devices below it.

    sent, payload: packets, and payload bytes, by (source, destination, opcode).
    links: what each link has carried.
    group_members: vertices by address of their group.
    observe: called with the new time whenever the time changes, before anything else happens at that time.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int,
        *,
        faults: Faults | None = None,
        rate: Rate | None = None,
        limits: Limits = SMALL_LIMITS,
        switch_limits: Limits | None = None,
        timing: Timing | None = None,
        multicast: bool = False,
    ) -> None:
        self.topology, self.seed = topology, seed
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.rate = rate or Rate()
        self.now = 1_000_000
        self.links = Links(topology, self.rate)
        largest = Limits(*map(max, limits, switch_limits or limits))
        make = partial(Device, timing=timing or Timing(), staging=ActionBuffers(largest))
        make_switch = partial(make, is_switch=True, limits=switch_limits or limits)
        self.nics = [make(nic_address(number), limits=limits) for number in range(topology.nodes)]
        groups = [group_address(number) if multicast else None for number in range(topology.switches)]
        self.switches = [make_switch(switch_address(number), group=group) for number, group in enumerate(groups)]
        self.vertices = [*self.nics, *self.switches]
        self.devices = {device.address: device for device in self.vertices}
        self.sent: Counter = Counter()
        self.payload: Counter = Counter()
        self.observe: Callable[[int], None] | None = None
        self._vertex = {device.address: vertex for vertex, device in enumerate(self.vertices)}
        self.group_members = {
            device.group: topology.children(number) for number, device in enumerate(self.switches) if device.group
        }
        self._pending: list[PendingEvent] = []
        self._order = itertools.count()
        self._timers: list[tuple[int, int]] = []  # (time, vertex); out of date if `_armed` has another time
        self._armed = [NEVER] * len(self.vertices)
        self._ready: dict[int, None] = dict.fromkeys(range(len(self.vertices)))

    # Time

    def run(self, until: Callable[[], bool], limit: int = 60_000_000_000) -> None:
        """Runs until `until()` is true.

        Raises TimeoutError, with the seed, after `limit` ns of virtual time or if nothing more can happen.
        """
        end = self.now + limit
        while not until():
            if self.step() and self.now <= end:
                continue
            if not until():
                raise TimeoutError(f"seed {self.seed}: not done at {self.now / 1e9:.3f} s of virtual time")

    def run_for(self, duration: int) -> None:
        end = self.now + duration
        while self._next_time() <= end and self.step():
            pass
        self.now = max(self.now, end)

    def step(self) -> bool:
        """Serves all devices that are ready, then handles the next event. Returns False if there is none."""
        time = self._next_time()
        if time >= NEVER:
            return False
        if time > self.now:
            self.now = time
            if self.observe:
                self.observe(time)
        if self._pending and self._pending[0][0] <= time:
            self._handle_next()
        else:
            self._tick()
        return True

    def call_later(self, delay: int, what: Callable[[], None]) -> None:
        self._at(self.now + delay, NO_VERTEX, what)

    def wake(self, device: Device) -> None:
        """Marks a device as ready, after an event from outside of the simulation."""
        self._ready[self._vertex[device.address]] = None

    def reset_traffic(self) -> None:
        self.sent.clear()
        self.payload.clear()
        self.links.reset()

    def total(self, opcode: fields.Opcode) -> int:
        """How many packets of an opcode all devices have sent."""
        return sum(number for (_, _, sent), number in self.sent.items() if sent == opcode)

    def _next_time(self) -> int:
        while self._ready:
            vertex, _ = self._ready.popitem()
            self._serve(vertex)
        while self._timers and self._armed[self._timers[0][1]] != self._timers[0][0]:
            heapq.heappop(self._timers)
        timer = self._timers[0][0] if self._timers else NEVER
        return min(self._pending[0][0], timer) if self._pending else timer

    # Devices

    def _serve(self, vertex: int) -> None:
        """Lets a device read from the queues of its ranks, executes all that follows, and sets its timer."""
        device = self.vertices[vertex]
        self._send(device, device.perform())
        while device.engine.serve(self.now):
            self._send(device, device.perform())
        self._send(device, device.perform())
        if device.next_deadline != self._armed[vertex]:
            self._armed[vertex] = device.next_deadline
            if device.next_deadline < NEVER:
                heapq.heappush(self._timers, (device.next_deadline, vertex))

    def _tick(self) -> None:
        _, vertex = heapq.heappop(self._timers)
        self._armed[vertex] = NEVER
        self.vertices[vertex].engine.tick(self.now)
        self._ready[vertex] = None

    def _handle_next(self) -> None:
        """Handles the next event, and all others that reach the same device at the same time."""
        pending = self._pending
        time, _, vertex, what = heapq.heappop(pending)
        if vertex == NO_VERTEX:
            what()
            return
        device = self.vertices[vertex]
        self._deliver(device, what)
        while pending and pending[0][0] == time and pending[0][2] == vertex:
            self._deliver(device, heapq.heappop(pending)[3])
        device.engine.batch_end(self.now)
        self._ready[vertex] = None

    def _deliver(self, device: Device, what: Packet | Read) -> None:
        if isinstance(what, Packet):
            self._send(device, device.receive(what, self.now))
        else:
            device.finish_read(what, self.now)

    # Packets

    def _send(self, device: Device, packets: Iterable[Packet]) -> None:
        for packet in packets:
            kind = packet.source, packet.destination, packet.opcode
            self.sent[kind] += 1
            self.payload[kind] += len(packet.data) - fields.TRANSPORT_SIZE
            for destination in self._receivers(packet.destination):
                self._transmit(packet, destination, self.links.path(self._vertex[packet.source], destination))
        if device.reads:
            for read in device.reads:
                self._at(self.now + self.faults.read(self.rng), self._vertex[device.address], read)
            device.reads.clear()

    def _receivers(self, address: int) -> Sequence[int]:
        """The vertices that have an address, or are members of its group; none for an unknown address."""
        vertex = self._vertex.get(address)
        return self.group_members.get(address, ()) if vertex is None else (vertex,)

    def _transmit(self, packet: Packet, destination: int, path: tuple[Link, ...]) -> None:
        if self.rate.is_timed:
            self._traverse(packet, destination, path, 0)
            return
        for link in path:
            link.carry(packet.data, self.now)
        self._arrive(packet, destination, self.now)

    def _traverse(self, packet: Packet, destination: int, path: tuple[Link, ...], step: int) -> None:
        """A packet enters link number `step` of its path. It is forwarded when it is complete."""
        time = path[step].carry(packet.data, self.now)
        if step + 1 < len(path):
            self._at(time, NO_VERTEX, partial(self._traverse, packet, destination, path, step + 1))
        else:
            self._arrive(packet, destination, time)

    def _arrive(self, packet: Packet, destination: int, time: int) -> None:
        for delay in self.faults.arrivals(self.rng):
            self._at(time + delay, destination, packet)

    def _at(self, time: int, vertex: int, what: Packet | Read | Callable[[], None]) -> None:
        heapq.heappush(self._pending, (time, next(self._order), vertex, what))
