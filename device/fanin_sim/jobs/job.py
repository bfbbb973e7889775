"""A job in a simulation: its ranks join, post and leave as programs on hosts do."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from fanin_nic.engine.records.tables import JobState
from fanin_sim.fabric.device import Device
from fanin_sim.fabric.placement import Placement
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.jobs.message import MODES, Message
from fanin_wire import abi
from fanin_wire.abi import JobFlag
from fanin_wire.association import Path

T = TypeVar("T")
DIGEST = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
JOIN_TAG, LEAVE_TAG = 7, 9
TEN_MINUTES = 600_000_000_000  # ns


class Member(NamedTuple):
    """A rank of a job: its node (the index of the NIC) and its bit on that node."""

    node: int
    rank: int


def members_of(nodes: int, ranks_per_node: int) -> list[Member]:
    return [Member(node, rank) for node in range(nodes) for rank in range(ranks_per_node)]


class Job:
    """A job. Rank r of a node posts to queue `first_queue` + r, as client `first_queue` + r.

    Args:
        members: their ranks count in this order, by node and bit.
        reproducible: "none", "run" or "shape".
        wide: partials of f16 and bf16 travel as f32.
        top: the switch at which a tree ends; by default the lowest switch above all nodes.
    """

    def __init__(
        self,
        simulation: Simulation,
        route: abi.Route,
        members: list[Member],
        *,
        jid: int = 1,
        key: int = 0x1234,
        slots: int = 16,
        chunk: int = 64,
        first_queue: int = 0,
        reproducible: str = "none",
        wide: bool = False,
        top: int | None = None,
    ) -> None:
        self.simulation, self.route, self.members = simulation, route, members
        self.jid, self.key, self.slots, self.chunk, self.first_queue = jid, key, slots, chunk, first_queue
        self.flags = MODES[reproducible] | (JobFlag.WIDE if wide else 0)
        self.nodes = sorted({member.node for member in members})
        self.placement = Placement(simulation.topology, self.nodes, route, top)
        self._messages = 0
        self._memory = {member: ClientMemory(self.device(member), self.queue(member)) for member in members}
        self._post_at = dict.fromkeys(members, 0)  # a rank posts in order
        for member in members:
            self.device(member).open_queue(self.queue(member), client=self.queue(member))

    def device(self, member: Member) -> Device:
        return self.simulation.nics[member.node]

    def queue(self, member: Member) -> int:
        return self.first_queue + member.rank

    @property
    def is_wide(self) -> bool:
        return bool(self.flags & JobFlag.WIDE)

    @property
    def path(self) -> Path:
        """The order in which the data of the ranks are reduced in a reproducible mode."""
        numbers: dict[int, list[int]] = {node: [] for node in self.nodes}
        for number, member in enumerate(self.members):
            numbers[member.node].append(number)
        return self.placement.path(numbers, rotates=not self.flags & JobFlag.REPRODUCIBLE_SHAPE)

    # Membership

    def join(self) -> None:
        """All ranks join. Returns when each has its answer."""
        for member in self.members:
            self.join_rank(member)
        self.simulation.run(_for_all(self.members, lambda member: bool(self.answers(member))))

    def join_rank(self, member: Member, **changes) -> None:
        """One rank sends its JOIN. `changes` replace fields of the request."""
        request = self.join_request(member)
        for name, value in changes.items():
            request[name] = value
        self.device(member).engine.join(self.queue(member), request, self.simulation.now)
        self.simulation.wake(self.device(member))

    def join_request(self, member: Member) -> np.void:
        """The JOIN of a rank, a record of abi.JOIN."""
        request = join_of_node(self.simulation, self.placement, member.node)
        request["head"]["tag"] = JOIN_TAG
        request["jid"], request["key"], request["digest"] = self.jid, self.key, DIGEST
        request["rank_bitmap"] = 1 << member.rank
        request["rank_mask"] = sum(1 << other.rank for other in self.members if other.node == member.node)
        request["slots"], request["chunk"] = self.slots, self.chunk
        request["flags"] |= self.flags
        return request

    def answers(self, member: Member, message: abi.MessageType = abi.MessageType.JOIN) -> list[np.void]:
        """The answers to the JOINs (or LEAVEs) of a rank, as records of actions.ACTION."""
        notices = self.device(member).notices
        return [notice for notice in notices if notice["queue"] == self.queue(member) and notice["opcode"] == message]

    def leave(self) -> None:
        """All ranks leave. Returns when no device has a record of the job."""
        for member in self.members:
            self.device(member).engine.leave(self.queue(member), LEAVE_TAG, self.simulation.now)
            self.simulation.wake(self.device(member))
        have_left = _for_all(self.simulation.vertices, lambda device: not self._records(device))
        self.simulation.run(lambda: have_left() and not self.records(), limit=200_000_000_000)

    def records(self) -> list[np.void]:
        return [record for device in self.simulation.vertices for record in self._records(device)]

    def _records(self, device: Device) -> list[np.void]:
        table = device.engine.tables["jobs"][:-1]
        return list(table[(table["state"] != JobState.FREE) & (table["jid"] == self.jid)])

    # Messages

    def start(
        self, message: Message, *, spread: int = 0, process_memory: bool = False, flags: int = 0
    ) -> list[np.ndarray]:
        """Every rank posts its part of a message.

        Args:
            spread: each rank posts after a random time of up to `spread` ns, but in order.
            process_memory: the arrays are ordinary memory, which the device asks its driver to read.
            flags: additional abi.WqeFlag.

        Returns an array for each rank. It holds zeros until the device writes the result.
        """
        results = [message.result(number) for number in range(len(self.members))]
        for number, (member, result) in enumerate(zip(self.members, results, strict=True)):
            wqe = self.work_request(number, message, result, process_memory=process_memory)
            wqe["flags"] |= int(flags)
            self._post_later(member, wqe, self.simulation.rng.randrange(spread) if spread else 0)
        self._messages += 1
        return results

    def allreduce(self, data: list[np.ndarray], op: abi.Op, **options) -> list[np.ndarray]:
        """Every rank posts an allreduce of its array. `options` are those of `start`."""
        return self.start(Message("allreduce", np.array(data), len(self.members), operation=op.name), **options)

    def expected(self, message: Message) -> list[np.ndarray]:
        size = message.segment_bytes(self.chunk, wide=self.is_wide)
        return message.expected(self.path, size, wide=self.is_wide)

    def work_request(
        self, number: int, message: Message, result: np.ndarray, *, process_memory: bool = False
    ) -> np.ndarray:
        """The WQE of rank `number` for a message, as an array of one abi.WQE. Registers its memory with the device."""
        member, source = self.members[number], message.source(number)
        place = self.placement.places[member.node]
        wqe = np.zeros(1, abi.WQE)
        wqe["opcode"], wqe["flags"], wqe["address_count"] = abi.WqeOpcode.COLLECTIVE, abi.WqeFlag.SIGNALED, 1
        wqe["route"], wqe["jid"], wqe["chunk"] = place.route, self.jid, self.chunk
        wqe["wr_id"] = wqe["mid"] = self._messages
        wqe["node_bitmap"] = (1 << min(len(place.ring or self.nodes), abi.MAX_CHILDREN)) - 1
        wqe["rank_bitmap"] = 1 << member.rank
        message.describe(wqe, number, message.segment_bytes(self.chunk, wide=self.is_wide))
        for side, array in (("source", source), ("destination", result)):
            if array.size:
                wqe[f"{side}_lkey"] = self._memory[member].lkey(array, process_memory)
                wqe["address"][side] = array.ctypes.data
        return wqe

    def _post_later(self, member: Member, wqe: np.ndarray, delay: int) -> None:
        now = self.simulation.now
        self._post_at[member] = max(self._post_at[member], now + delay)
        if self._post_at[member] <= now:
            self.post(member, wqe)
        else:
            self.simulation.call_later(self._post_at[member] - now, partial(self.post, member, wqe))

    def post(self, member: Member, wqe: np.ndarray) -> None:
        """A rank posts a WQE, whose first slot is filled in as by the driver."""
        engine = self.device(member).engine
        queue = engine.tables["queues"][self.queue(member)]
        if queue["job"]:
            wqe["seg"] = queue["position"] & (engine.tables["jobs"][queue["job"] - 1]["slots"] - 1)
        engine.post(self.queue(member), wqe, self.simulation.now)
        self.simulation.wake(self.device(member))

    def completions(self, member: Member) -> list[np.void]:
        """The completions of a rank in order, as records of actions.ACTION."""
        return self.device(member).completions_of(self.queue(member))

    def finish(self, count: int = 1) -> None:
        """Runs until every rank has `count` completions in all."""
        self.simulation.run(self.finishing(count), limit=TEN_MINUTES)

    def finishing(self, count: int = 1) -> Callable[[], bool]:
        """A function that says whether every rank has `count` completions in all."""
        return _for_all(self.members, lambda member: len(self.completions(member)) >= count)


def _for_all(items: Iterable[T], holds: Callable[[T], bool]) -> Callable[[], bool]:
    """A function that says whether `holds` has been true once for each item."""
    waiting = list(items)

    def all_hold() -> bool:
        while waiting and holds(waiting[-1]):
            waiting.pop()
        return not waiting

    return all_hold


class ClientMemory:
    """The registered memory of a client. It holds the arrays, because the device knows them by address."""

    def __init__(self, device: Device, client: int) -> None:
        self.device, self.client = device, client
        self._kept: dict[int, np.ndarray] = {}
        self._lkeys: dict[int, int] = {}

    def lkey(self, array: np.ndarray, process_memory: bool = False) -> int:
        """Returns the lkey of an array, whose base is registered when it is new.

        Args:
            process_memory: do not register; the device accesses the memory of the client's process.
        """
        whole = array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        place = whole.ctypes.data
        self._kept[place] = whole
        if process_memory:
            self.device.allow(whole)
            return abi.LKEY_PROCESS
        if place not in self._lkeys:
            self._lkeys[place] = len(self._lkeys) + 1
            self.device.register(self.client, whole, self._lkeys[place])
        return self._lkeys[place]


def join_of_node(simulation: Simulation, placement: Placement, node: int) -> np.void:
    """A record of abi.JOIN with route, neighbours and hops; the caller fills in the fields of the job and the rank."""
    place, nodes = placement.places[node], placement.nodes
    request = np.zeros(1, abi.JOIN)[0]
    request["route"] = place.route
    request["flags"] = abi.JobFlag.FIXED_START if place.fixed_start else 0
    request["node_index"], request["node_count"] = nodes.index(node), len(nodes)
    if place.ring:
        _fill_ring(request, simulation, place.ring, node)
    request["hop_count"] = len(place.hops)
    for level, hop in enumerate(place.hops):
        request["hop"][level] = (simulation.switches[hop.switch].address, hop.bit, hop.mask)
    return request


def _fill_ring(request: np.void, simulation: Simulation, ring: tuple[int, ...], node: int) -> None:
    index = ring.index(node)
    request["node_index"], request["node_count"] = index, len(ring)
    request["next_address"] = simulation.nics[ring[(index + 1) % len(ring)]].address
    request["previous_address"] = simulation.nics[ring[index - 1]].address
