"""Devices, links and ranks in virtual time. Everything that is random comes from one seed."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.engine import Limits, Timing
from fanin_nic.sim.device import Device, Packet
from fanin_nic.sim.faults import Faults
from fanin_wire import abi

SMALL = Limits(jobs=4, slots=64, queues=16, requests=64, regions=64, actions=1024, max_chunk=256, min_lease=4)
SWITCH_ADDRESS = "10.0.0.1"


class Member(NamedTuple):
    """A rank of a job: its node (index of the NIC) and its bit there, which is also its queue and client."""

    node: int
    rank: int


class Simulation:
    """NICs `10.0.1.N` and one switch. `sent` counts packets by (source, destination, opcode)."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        *,
        faults: Faults | None = None,
        limits: Limits = SMALL,
        timing: Timing | None = None,
        switch: bool = True,
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.faults = faults or Faults()
        self.now = 1_000_000
        timing = timing or Timing()
        self.nics = [Device(f"10.0.1.{n + 1}", limits=limits, timing=timing) for n in range(nodes)]
        self.switches = [Device(SWITCH_ADDRESS, is_switch=True, limits=limits, timing=timing)] if switch else []
        self.devices = {device.address: device for device in [*self.nics, *self.switches]}
        self.sent: Counter = Counter()
        self._flights: list[tuple[int, int, Packet]] = []
        self._order = itertools.count()

    def run(self, until, limit: int = 60_000_000_000) -> None:
        """Go on until `until()` holds; TimeoutError with the seed after `limit` ns of virtual time."""
        end = self.now + limit
        while not until():
            alive = self.step()
            if not until() and (not alive or self.now > end):
                raise TimeoutError(f"seed {self.seed}: not done at {self.now / 1e9:.3f} s of virtual time")

    def step(self) -> bool:
        """Serve all devices, then go to the next arrival or timer. False: nothing will ever happen."""
        for device in self.devices.values():
            self.settle(device)
        arrival = self._flights[0][0] if self._flights else 2**64 - 1
        timer = min(device.engine.next_deadline for device in self.devices.values())
        if min(arrival, timer) >= 2**64 - 1:
            return False
        self.now = max(self.now, min(arrival, timer))
        if arrival <= timer:
            self._deliver(heapq.heappop(self._flights)[2])
        else:
            for device in self.devices.values():
                if device.engine.next_deadline <= self.now:
                    device.engine.tick(self.now)
                    self._send_all(device)
        return True

    def settle(self, device: Device) -> None:
        """Let a device read from its ranks and do all that follows at once."""
        while device.engine.serve(self.now):
            self._send_all(device)
        self._send_all(device)

    def _deliver(self, packet: Packet) -> None:
        device = self.devices.get(packet.destination)
        if device is not None:
            device.receive(packet, self.now)
            device.engine.batch_end(self.now)
            self._send_all(device)

    def _send_all(self, device: Device) -> None:
        for packet in device.perform(self.now):
            self.sent[packet.source, packet.destination, packet.opcode] += 1
            for delay in self.faults.arrivals(self.chance):
                heapq.heappush(self._flights, (self.now + delay, next(self._order), packet))

    # Jobs

    def join(self, route: abi.Route, members: list[Member], *, jid: int = 1, slots: int = 16, chunk: int = 64) -> None:
        """All members post their JOIN; the answers are in the devices' `notices`."""
        for member in members:
            device = self.nics[member.node]
            device.open_queue(member.rank, client=member.rank)
            device.engine.join(member.rank, self._join_request(route, members, member, jid, slots, chunk), self.now)

    def _join_request(self, route, members, member, jid, slots, chunk) -> np.void:
        nodes = sorted({other.node for other in members})
        index = nodes.index(member.node)
        request = np.zeros(1, abi.JOIN)[0]
        request["head"]["tag"] = 7
        request["jid"], request["key"], request["route"] = jid, 0x1234, route
        request["rank_bitmap"] = 1 << member.rank
        request["rank_mask"] = sum(1 << other.rank for other in members if other.node == member.node)
        request["digest"] = (1, 2)
        request["slots"], request["chunk"] = slots, chunk
        request["node_index"], request["node_count"] = index, len(nodes)
        request["next_address"] = self.nics[nodes[(index + 1) % len(nodes)]].address
        request["previous_address"] = self.nics[nodes[index - 1]].address
        if route == abi.Route.TREE:
            request["hop_count"] = 1
            request["hop"][0] = (self.switches[0].address, index, (1 << len(nodes)) - 1)
        return request

    def post(self, member: Member, wqe: np.ndarray) -> None:
        """A rank posts a WQE; its first position and slot are filled in as the driver does it."""
        device = self.nics[member.node]
        queue = device.engine.tables["queues"][member.rank]
        job = device.engine.tables["jobs"][queue["job"] - 1] if queue["job"] else None
        if job is not None:
            wqe["seg"] = queue["position"] & (job["slots"] - 1)
        device.engine.post(member.rank, wqe, self.now)
