"""The instances that the model checker searches: a job on a few devices, and the number of faults."""

from typing import NamedTuple

import numpy as np

from fanin_nic.engine.engine import Limits, Timing
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import NONE, Topology
from fanin_sim.jobs.job import Job, Member, members_of
from fanin_sim.jobs.message import COLLECTIVES, Message
from fanin_wire import abi
from fanin_wire.abi import ContributorClass

CHUNK = 8
ELEMENTS = CHUNK // 4  # of a segment: i32
NO_REORDER_TIME = Timing(reorder=0)  # no time passes, so a packet is never too young to be sent again
SHORT_DETECTION = 1_000  # ns; time stands still, so only events make a neighbour silent


class Instance(NamedTuple):
    """An instance.

    messages: segments of each message, in the order of posting.
    roots: the rank that is the root of each message, in turn.
    losses, copies: packets that may be lost, and packets that may be duplicated.
    early_timers: how often timers of a device may expire while packets are under way. Else they always may.
    from_join: the search begins before the ranks join.
    incarnations: how often the job is formed, under the same id and another key, to send all messages.
    deaths: ranks that may die.
    crashes: NICs that may crash, with their ranks; or, with `switches_crash`, switches.
    restarts: crashed devices that may restart, with empty tables.
    rejoins: the ranks of a restarted NIC join again under the same key.
    """

    route: abi.Route
    topology: Topology
    ranks_per_node: int = 1
    slots: int = 2  # N; the window is half of it
    messages: tuple[int, ...] = (3,)
    collective: str = "allreduce"
    roots: tuple[int, ...] = (0,)
    reproducible: str = "none"
    losses: int = 0
    copies: int = 0
    early_timers: int = 0
    first_position: int = 0
    from_join: bool = False  # the search includes the forming of the job
    incarnations: int = 1
    deaths: int = 0
    crashes: int = 0
    restarts: int = 0
    rejoins: bool = False
    switches_crash: bool = False

    @property
    def ages(self) -> bool:
        """Whether the search includes the ageing of jobs without a live member."""
        return self.incarnations > 1 or self.deaths > 0 or self.crashes > 0

    @property
    def may_fall_silent(self) -> bool:
        """Whether a device may miss its neighbours while the job runs."""
        return self.incarnations > 1 or self.crashes > 0

    @property
    def failures(self) -> frozenset[int]:
        """The statuses other than SUCCESS with which an operation or a JOIN may end."""
        failures = {abi.Status.JID_IN_USE} if self.incarnations > 1 else set()
        if self.ages:  # waiting was in vain; a peer has gone; the job has aged
            failures |= {abi.Status.TIMEOUT, abi.Status.PEER_LOST, abi.Status.NOT_CONFIGURED}
        return frozenset(failures)

    @property
    def failures_of_requests(self) -> frozenset[int]:
        """The statuses other than SUCCESS with which a request may end: PEER_LOST alone if only devices crash. A
        refused incarnation never forms, so JID_IN_USE is a status of a JOIN only."""
        only_crashes = self.crashes and self.incarnations == 1 and not self.deaths
        if only_crashes:
            return frozenset({abi.Status.PEER_LOST})
        return self.failures - {abi.Status.JID_IN_USE}


TREE, RING, LOCAL = abi.Route.TREE, abi.Route.RING, abi.Route.LOCAL
SWITCH_OF_2, SWITCH_OF_3 = Topology.one_switch(2), Topology.one_switch(3)
RING_OF_2, RING_OF_3 = Topology.direct(2), Topology.direct(3)
CHAIN, TREES = Topology.leaves(2, 1), Topology.leaves(2, 2)
UNEVEN = Topology((NONE, 0), (1, 1, 0))  # a middle switch with two children, beside a node
# A ring of two below a switch, alone and beside a node.
RING_BELOW, MIXED = Topology((NONE, 0), (1, 1), frozenset({1})), Topology((NONE, 0), (0, 1, 1), frozenset({1}))
INSTANCES = {
    # A lost packet and a copy of any packet, in any order.
    "tree": Instance(TREE, SWITCH_OF_2, losses=1, copies=1),
    # Probes that come too early, for packets under way or lost.
    "tree, early probes": Instance(TREE, SWITCH_OF_2, losses=1, early_timers=1),
    "tree, window 2": Instance(TREE, SWITCH_OF_2, slots=4, messages=(3, 2), losses=1),
    "tree of 3": Instance(TREE, SWITCH_OF_3, messages=(2,), losses=1),
    "tree across 2^32": Instance(TREE, SWITCH_OF_2, losses=1, copies=1, first_position=2**32 - 2),
    # Levels: a middle switch with two children, and two middle switches.
    "chain of switches": Instance(TREE, CHAIN, messages=(3,), losses=1, copies=1),
    "tree of trees": Instance(TREE, TREES, messages=(3,), losses=1),
    "ring": Instance(RING, RING_OF_2, losses=1, copies=1),
    "ring of 3": Instance(RING, RING_OF_3, messages=(2,), losses=1),
    "ring below a switch": Instance(TREE, RING_BELOW, losses=1),
    "mixed tree": Instance(TREE, MIXED, messages=(2,), losses=1),
    "node": Instance(LOCAL, Topology.direct(1), ranks_per_node=3, messages=(2, 1), from_join=True),
    # Data of one rank go up at once. Ranks that contribute or receive no data send and get headers.
    "broadcast": Instance(TREE, SWITCH_OF_2, collective="broadcast", losses=1, copies=1),
    "broadcast over levels": Instance(TREE, TREES, collective="broadcast", losses=1),
    "gather in a ring": Instance(RING, RING_OF_2, collective="gather", losses=1),
    "scatter below a switch": Instance(TREE, RING_BELOW, collective="scatter", messages=(2,), losses=1),
    "barriers": Instance(TREE, SWITCH_OF_2, collective="barrier", messages=(0, 0, 0), losses=1),
    # Messages of one segment, whose data go ahead of the result.
    "short broadcasts": Instance(TREE, SWITCH_OF_2, messages=(1, 1, 1), collective="broadcast", losses=1),
    "short broadcasts in a chain": Instance(TREE, CHAIN, messages=(1, 1), collective="broadcast", losses=1),
    "a short broadcast over levels": Instance(TREE, TREES, messages=(1,), collective="broadcast", losses=1),
    "a short broadcast, mixed tree": Instance(TREE, MIXED, messages=(1,), collective="broadcast", losses=1),
    "short broadcasts to a ring below": Instance(
        TREE, RING_BELOW, messages=(1, 1, 1), collective="broadcast", losses=1
    ),
    "forming a tree, a short broadcast": Instance(
        TREE, SWITCH_OF_2, messages=(1,), collective="broadcast", losses=1, from_join=True
    ),
    # Early contributions wait for their turn.
    "fold in order": Instance(TREE, SWITCH_OF_2, reproducible="run", losses=1, copies=1),
    "chain in order": Instance(RING, RING_OF_2, reproducible="shape", losses=1),
    # From the first JOIN on.
    "forming a tree": Instance(TREE, SWITCH_OF_2, messages=(1,), losses=1, from_join=True),
    "forming a tree, late CONFIG": Instance(TREE, SWITCH_OF_2, messages=(1,), losses=1, early_timers=1, from_join=True),
    "forming a ring": Instance(RING, RING_OF_2, messages=(1,), losses=1, copies=1, from_join=True),
    "forming a ring of 3": Instance(RING, RING_OF_3, messages=(1,), losses=1, from_join=True),
    "forming a ring below a switch": Instance(TREE, RING_BELOW, messages=(1,), losses=1, from_join=True),
    # Formed again under the same id, while packets of the previous incarnation are under way.
    "formed again": Instance(TREE, SWITCH_OF_2, messages=(1,), from_join=True, incarnations=2),
    "formed again, two segments": Instance(TREE, SWITCH_OF_2, messages=(2,), from_join=True, incarnations=2),
    # A rank dies at any moment.
    "a death in a tree": Instance(TREE, SWITCH_OF_2, messages=(1,), from_join=True, deaths=1),
    # A NIC with its rank, or the switch, crashes. It may restart with empty tables, under another boot id.
    "a NIC dies": Instance(TREE, SWITCH_OF_2, messages=(1,), from_join=True, crashes=1),
    "a NIC restarts": Instance(TREE, SWITCH_OF_2, messages=(1,), from_join=True, crashes=1, restarts=1),
    "a NIC restarts, two segments": Instance(TREE, SWITCH_OF_2, messages=(2,), from_join=True, crashes=1, restarts=1),
    "a NIC of a ring dies": Instance(RING, RING_OF_2, messages=(1,), from_join=True, crashes=1),
    "a NIC of a ring restarts": Instance(RING, RING_OF_2, messages=(1,), from_join=True, crashes=1, restarts=1),
    "a NIC of a ring restarts, joins again": Instance(
        RING, RING_OF_2, messages=(1,), crashes=1, restarts=1, rejoins=True
    ),
    "the switch dies": Instance(TREE, SWITCH_OF_2, messages=(1,), from_join=True, crashes=1, switches_crash=True),
    "the switch restarts": Instance(
        TREE, SWITCH_OF_2, messages=(1,), from_join=True, crashes=1, restarts=1, switches_crash=True
    ),
    "a death on a node": Instance(LOCAL, Topology.direct(1), ranks_per_node=3, from_join=True, deaths=1),
}
# These take minutes and gigabytes. Run them by hand, after a change of a rule of the protocol.
DEEP_INSTANCES = {
    "ring of 3, slots used again": Instance(RING, RING_OF_3, losses=1),
    "ring of 3, copies": Instance(RING, RING_OF_3, copies=1),
    "gather in a ring, copies": Instance(RING, RING_OF_2, collective="gather", losses=1, copies=1),
    "barriers, copies": Instance(TREE, SWITCH_OF_2, collective="barrier", messages=(0, 0, 0), losses=1, copies=1),
    "chain in order, copies": Instance(RING, RING_OF_2, reproducible="shape", losses=1, copies=1),
    "ring, early probes": Instance(RING, RING_OF_2, losses=1, copies=1, early_timers=1),
    "ring below a switch, copies": Instance(TREE, RING_BELOW, losses=1, copies=1),
    "mixed tree, slots used again": Instance(TREE, MIXED, losses=1),
    "tree, everything": Instance(TREE, SWITCH_OF_2, losses=1, copies=1, early_timers=1),
    "a death in a chain": Instance(TREE, CHAIN, messages=(1,), deaths=1),
    "a NIC restarts, joins again": Instance(TREE, SWITCH_OF_2, messages=(1,), crashes=1, restarts=1, rejoins=True),
    "formed again, copies": Instance(TREE, SWITCH_OF_2, messages=(1,), copies=1, from_join=True, incarnations=2),
    "short broadcasts, copies": Instance(
        TREE, SWITCH_OF_2, messages=(1, 1, 1), collective="broadcast", losses=1, copies=1
    ),
    "short broadcasts, early probes": Instance(
        TREE, SWITCH_OF_2, messages=(1, 1, 1), collective="broadcast", early_timers=1
    ),
    # The root moves from below a middle switch to beside it, after a message without data.
    "short broadcasts, the root changes": Instance(
        TREE, UNEVEN, messages=(0, 1, 1), collective="broadcast", roots=(0, 0, 2), losses=1
    ),
    "a short broadcast, tree of 3": Instance(TREE, SWITCH_OF_3, messages=(1,), collective="broadcast", losses=1),
    "tree, window 2, copies": Instance(TREE, SWITCH_OF_2, slots=4, messages=(3, 2), copies=1),
}


def limits(instance: Instance) -> Limits:
    """Limits with tables just large enough, so that a snapshot of a device is small."""
    widest = max(2, instance.ranks_per_node + 1) if instance.reproducible != "none" else 1  # buffers of a slot
    return Limits(
        jobs=1,
        slots=instance.slots * widest,
        queues=instance.ranks_per_node,
        requests=4,
        addresses=1,
        regions=2 * instance.ranks_per_node * len(instance.messages) * instance.incarnations,
        actions=64,
        max_chunk=CHUNK,
        min_lease=instance.slots,
        max_lease=instance.slots * widest,
    )


class World:
    """The devices of an instance, the WQEs of each rank, and the expected results.

    memory: for each node all memory of its ranks, uint8.
    results, references: for each member the result and the expected result of each message, int32.
    """

    def __init__(self, instance: Instance) -> None:
        nodes = instance.topology.nodes
        self.instance = instance
        self.simulation = Simulation(instance.topology, 0, limits=limits(instance), timing=NO_REORDER_TIME)
        for device in self.simulation.vertices:
            device.engine.header["first_position"] = instance.first_position
            if instance.ages:
                device.engine.header["detection"] = SHORT_DETECTION
        offered = max(4, instance.slots)  # the devices grant fewer
        self.job = Job(
            self.simulation,
            instance.route,
            members_of(nodes, instance.ranks_per_node),
            slots=offered,
            chunk=CHUNK,
            reproducible=instance.reproducible,
            top=0,
        )
        counts = instance.messages * instance.incarnations
        self.messages = [self._message(number, count) for number, count in enumerate(counts)]
        expected = zip(*map(self.job.expected, self.messages), strict=True)
        self.references = dict(zip(self.job.members, map(list, expected), strict=True))
        sizes = [sum(array.nbytes for array in arrays) for arrays in self.references.values()]
        self.memory = [np.zeros(max(sizes) * instance.ranks_per_node, np.uint8) for _ in range(nodes)]
        self.results = {member: self._results(member, max(sizes)) for member in self.job.members}
        self.requests = {member: self._requests(index) for index, member in enumerate(self.job.members)}

    def _message(self, number: int, segments: int) -> Message:
        """A message whose result shows which ranks have contributed, how often, and to which position."""
        collective, ranks = self.instance.collective, len(self.job.members)
        values = np.arange(ELEMENTS * segments, dtype=np.int32) + 1 + 40 * number
        rows = np.array([values * 1000**index for index in range(ranks)])
        root = self.instance.roots[number % len(self.instance.roots)]
        data = rows if COLLECTIVES[collective].contributors == ContributorClass.ALL else values
        return Message(collective, data, ranks, root=root)

    def _results(self, member: Member, size: int) -> list[np.ndarray]:
        own = self.memory[member.node][member.rank * size :].view(np.int32)
        ends = np.cumsum([len(reference) for reference in self.references[member]])
        return [own[end - len(reference) : end] for end, reference in zip(ends, self.references[member], strict=True)]

    def _requests(self, index: int) -> list[np.ndarray]:
        requests = []
        member = self.job.members[index]
        for number, (message, result) in enumerate(zip(self.messages, self.results[member], strict=True)):
            wqe = self.job.work_request(index, message, result)
            wqe["wr_id"] = wqe["mid"] = number
            requests.append(wqe)
        return requests
