"""Devices and links in virtual time. Everything that is random comes from one seed."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from fanin_nic.engine.engine import Limits, Timing
from fanin_nic.sim.device import Device, Packet, Read
from fanin_nic.sim.faults import Faults
from fanin_nic.sim.topology import nic_address, switch_address
from fanin_wire import fields

SMALL = Limits(jobs=4, slots=64, queues=16, requests=64, regions=64, actions=1024, max_chunk=256, min_lease=4)
NEVER = 2**64 - 1


class Arrival(NamedTuple):
    """Something that reaches a device at a time (ns): a packet, or the data of a DMA read. `order` breaks ties."""

    time: int
    order: int
    device: int
    what: Packet | Read


class Simulation:
    """NICs and switches (see `topology`). `sent` counts packets, `payload` their payload bytes, both by (source,
    destination, opcode)."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        *,
        faults: Faults | None = None,
        limits: Limits = SMALL,
        timing: Timing | None = None,
        switch: bool = True,
        leaves: int = 0,
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.faults = faults or Faults()
        self.now = 1_000_000
        self.leaves = leaves
        timing = timing or Timing()
        self.nics = [Device(nic_address(n), limits=limits, timing=timing) for n in range(nodes)]
        switches = range(1 + leaves if switch else 0)
        self.switches = [Device(switch_address(s), is_switch=True, limits=limits, timing=timing) for s in switches]
        self.devices = {device.address: device for device in [*self.nics, *self.switches]}
        self.sent: Counter = Counter()
        self.payload: Counter = Counter()
        self._arrivals: list[Arrival] = []
        self._order = itertools.count()

    def run(self, until: Callable[[], bool], limit: int = 60_000_000_000) -> None:
        """Go on until `until()` holds; TimeoutError with the seed after `limit` ns of virtual time."""
        end = self.now + limit
        while not until():
            alive = self.step()
            if not until() and (not alive or self.now > end):
                raise TimeoutError(f"seed {self.seed}: not done at {self.now / 1e9:.3f} s of virtual time")

    def run_for(self, duration: int) -> None:
        """Let `duration` ns of virtual time pass."""
        end = self.now + duration
        while self._next_time() <= end and self.step():
            pass
        self.now = max(self.now, end)

    def step(self) -> bool:
        """Serve all devices, then go to the next arrival or timer. False: nothing will ever happen."""
        for device in self.devices.values():
            self.settle(device)
        timer = min(device.engine.next_deadline for device in self.devices.values())
        time = min(self._arrivals[0].time if self._arrivals else NEVER, timer)
        if time >= NEVER:
            return False
        self.now = max(self.now, time)
        if self._arrivals and self._arrivals[0].time <= timer:
            self._deliver_batch()
        else:
            self._tick()
        return True

    def settle(self, device: Device) -> None:
        """Let a device read from its ranks and do all that follows at once."""
        self._send(device.perform(), device)
        while device.engine.serve(self.now):
            self._send(device.perform(), device)
        self._send(device.perform(), device)

    def total(self, opcode: fields.Opcode) -> int:
        """Packets of an opcode sent by all devices."""
        return sum(number for (_, _, sent), number in self.sent.items() if sent == opcode)

    def _next_time(self) -> int:
        timer = min(device.engine.next_deadline for device in self.devices.values())
        return min(self._arrivals[0].time if self._arrivals else NEVER, timer)

    def _tick(self) -> None:
        for device in self.devices.values():
            if device.engine.next_deadline <= self.now:
                device.engine.tick(self.now)
                self._send(device.perform(), device)

    def _deliver_batch(self) -> None:
        """All that reaches one device at this time."""
        first = self._arrivals[0]
        device = self.devices.get(first.device)
        while self._arrivals and self._arrivals[0][0::2] == first[0::2]:
            what = heapq.heappop(self._arrivals).what
            if device is None:
                continue
            if isinstance(what, Read):
                device.finish_read(what, self.now)
            else:
                self._send(device.receive(what, self.now), device)
        if device is not None:
            device.engine.batch_end(self.now)
            self._send(device.perform(), device)

    def _send(self, packets, device: Device) -> None:
        for packet in packets:
            link = packet.source, packet.destination, packet.opcode
            self.sent[link] += 1
            self.payload[link] += len(packet.data) - fields.TRANSPORT_SIZE
            for delay in self.faults.arrivals(self.chance):
                self._at(delay, packet.destination, packet)
        for read in device.reads:
            self._at(self.faults.read(self.chance), device.address, read)
        device.reads.clear()

    def _at(self, delay: int, device: int, what: Packet | Read) -> None:
        heapq.heappush(self._arrivals, Arrival(self.now + delay, next(self._order), device, what))
