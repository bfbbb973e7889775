"""Small worlds that the explorer searches completely: a job on a few devices, and how many faults may befall it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fanin_nic.engine.engine import Limits
from fanin_nic.sim.job import Job, Member, members_of
from fanin_nic.sim.simulation import Simulation
from fanin_wire import abi

CHUNK = 8
ELEMENTS = CHUNK // 4  # of a segment: i32


class Instance(NamedTuple):
    """A world. `messages`: positions that each allreduce takes, in the order of posting. `losses`, `copies` and
    `early_timers`: how many packets may be lost, how many duplicated, and how often a device's timers may expire while
    packets are on their way (when none is, they may always)."""

    route: abi.Route
    nodes: int
    ranks_per_node: int = 1
    leaves: int = 0  # tree: leaf switches below the top; 0: one switch
    slots: int = 2  # N; the window is half of it
    messages: tuple[int, ...] = (3,)
    losses: int = 0
    copies: int = 0
    early_timers: int = 0
    first_position: int = 0
    from_join: bool = False  # also explore how the job is formed


TREE, RING, LOCAL = abi.Route.TREE, abi.Route.RING, abi.Route.LOCAL
INSTANCES = {
    # A lost packet and a copy of any packet, in any order.
    "tree": Instance(TREE, 2, losses=1, copies=1),
    # Probes that come too early, for what is on its way or lost.
    "tree, early probes": Instance(TREE, 2, losses=1, early_timers=1),
    "tree, window 2": Instance(TREE, 2, slots=4, messages=(3, 2), losses=1),
    "tree of 3": Instance(TREE, 3, messages=(2,), losses=1),
    "tree across 2^32": Instance(TREE, 2, losses=1, copies=1, first_position=2**32 - 2),
    # Levels: a middle switch with two children, and two middle switches.
    "chain of switches": Instance(TREE, 2, leaves=1, messages=(3,), losses=1, copies=1),
    "tree of trees": Instance(TREE, 2, leaves=2, messages=(3,), losses=1),
    "ring": Instance(RING, 2, losses=1, copies=1),
    "ring of 3": Instance(RING, 3, messages=(2,), losses=1),
    "node": Instance(LOCAL, 1, ranks_per_node=3, messages=(2, 1), from_join=True),
    # From the first JOIN on.
    "forming a tree": Instance(TREE, 2, messages=(1,), losses=1, from_join=True),
    "forming a tree, late CONFIG": Instance(TREE, 2, messages=(1,), losses=1, early_timers=1, from_join=True),
    "forming a ring": Instance(RING, 2, messages=(1,), losses=1, copies=1, from_join=True),
    "forming a ring of 3": Instance(RING, 3, messages=(1,), losses=1, from_join=True),
}
# Minutes and gigabytes: to be run by hand, after a change of a rule.
DEEP_INSTANCES = {
    "ring of 3, slots used again": Instance(RING, 3, losses=1),
    "ring of 3, copies": Instance(RING, 3, copies=1),
    "ring, early probes": Instance(RING, 2, losses=1, copies=1, early_timers=1),
    "tree, everything": Instance(TREE, 2, losses=1, copies=1, early_timers=1),
    "tree, window 2, copies": Instance(TREE, 2, slots=4, messages=(3, 2), copies=1),
}


def limits(instance: Instance) -> Limits:
    """Tables just large enough, so that a snapshot of a device is small."""
    return Limits(
        jobs=1,
        slots=instance.slots,
        queues=instance.ranks_per_node,
        requests=4,
        regions=2 * instance.ranks_per_node * len(instance.messages),
        actions=64,
        max_chunk=CHUNK,
        min_lease=instance.slots,
        max_lease=instance.slots,
    )


class World:
    """The devices of an instance, the WQEs that each rank will post, and the results that they must bring.

    `memory[node]`: all that the ranks of a node own, uint8. `references[member]`: results of each message, int32.
    """

    def __init__(self, instance: Instance) -> None:
        members = members_of(instance.nodes, instance.ranks_per_node)
        self.instance = instance
        has_switch = instance.route == TREE
        self.simulation = Simulation(
            instance.nodes, 0, limits=limits(instance), switch=has_switch, leaves=instance.leaves
        )
        for device in self.simulation.devices.values():
            device.engine.header["first_position"] = instance.first_position
        offered = max(4, instance.slots)  # the devices grant fewer
        self.job = Job(self.simulation, instance.route, members, slots=offered, chunk=CHUNK)
        elements = [ELEMENTS * positions for positions in instance.messages]
        size = 4 * sum(elements) * instance.ranks_per_node
        self.memory = [np.zeros(size, np.uint8) for _ in range(instance.nodes)]
        self.sources = [self._sources(elements, index) for index in range(len(members))]
        self.references = [np.sum(message, axis=0, dtype=np.int32) for message in zip(*self.sources, strict=True)]
        self.results = {member: self._results(member, elements) for member in members}
        self.requests = {member: self._requests(member, index) for index, member in enumerate(members)}

    def _sources(self, elements: list[int], index: int) -> list[np.ndarray]:
        """What a rank contributes: a sum tells who is in it, how often, and for which position."""
        return [
            (np.arange(count, dtype=np.int32) + 1 + 40 * number) * 1000**index for number, count in enumerate(elements)
        ]

    def _results(self, member: Member, elements: list[int]) -> list[np.ndarray]:
        words = self.memory[member.node].view(np.int32)
        first = member.rank * sum(elements)
        ends = first + np.cumsum(elements)
        return [words[end - count : end] for end, count in zip(ends, elements, strict=True)]

    def _requests(self, member: Member, index: int) -> list[np.ndarray]:
        requests = []
        for number, (source, result) in enumerate(zip(self.sources[index], self.results[member], strict=True)):
            wqe = self.job.work_request(member, source, result, abi.Op.SUM)
            wqe["wr_id"] = wqe["mid"] = number
            requests.append(wqe)
        return requests
