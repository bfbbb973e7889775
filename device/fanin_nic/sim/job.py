"""A job in a simulation: its ranks join, post and leave as programs on hosts would."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fanin_nic.engine.tables import JobState
from fanin_nic.sim.device import Device
from fanin_nic.sim.simulation import Simulation
from fanin_nic.sim.topology import path
from fanin_wire import abi
from fanin_wire.datatypes import datatype_of

DIGEST = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
JOIN_TAG, LEAVE_TAG = 7, 9


class Member(NamedTuple):
    """A rank of a job: its node (index of the NIC) and its bit there."""

    node: int
    rank: int


def members_of(nodes: int, ranks_per_node: int) -> list[Member]:
    """Every rank of `nodes` nodes."""
    return [Member(node, rank) for node in range(nodes) for rank in range(ranks_per_node)]


class Job:
    """One job. Rank r of a node posts through queue `first_queue + r`, as client `first_queue + r`."""

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
    ) -> None:
        self.simulation, self.route, self.members = simulation, route, members
        self.jid, self.key, self.slots, self.chunk, self.first_queue = jid, key, slots, chunk, first_queue
        self.nodes = sorted({member.node for member in members})
        self._messages = 0
        self._lkey = 0
        self._arrays: list[np.ndarray] = []  # what the devices know by address must stay where it is
        for member in members:
            self.device(member).open_queue(self.queue(member), client=self.queue(member))

    def device(self, member: Member) -> Device:
        """The NIC of a rank."""
        return self.simulation.nics[member.node]

    def queue(self, member: Member) -> int:
        """The send queue of a rank."""
        return self.first_queue + member.rank

    # Membership

    def join(self) -> None:
        """All ranks join; returns when all have their answer."""
        for member in self.members:
            self.join_rank(member)
        self.simulation.run(lambda: all(self.answers(member) for member in self.members))

    def join_rank(self, member: Member, **changes) -> None:
        """One rank sends its JOIN; `changes` replace fields of it."""
        request = self.join_request(member)
        for name, value in changes.items():
            request[name] = value
        self.device(member).engine.join(self.queue(member), request, self.simulation.now)

    def join_request(self, member: Member) -> np.void:
        """The JOIN of a rank, a record of abi.JOIN."""
        nics, index = self.simulation.nics, self.nodes.index(member.node)
        request = np.zeros(1, abi.JOIN)[0]
        request["head"]["tag"] = JOIN_TAG
        request["jid"], request["key"], request["route"] = self.jid, self.key, self.route
        request["rank_bitmap"] = 1 << member.rank
        request["rank_mask"] = sum(1 << other.rank for other in self.members if other.node == member.node)
        request["digest"] = DIGEST
        request["slots"], request["chunk"] = self.slots, self.chunk
        request["node_index"], request["node_count"] = index, len(self.nodes)
        request["next_address"] = nics[self.nodes[(index + 1) % len(self.nodes)]].address
        request["previous_address"] = nics[self.nodes[index - 1]].address
        if self.route == abi.Route.TREE:
            hops = path(self.nodes, member.node, len(nics), self.simulation.leaves)
            request["hop_count"] = len(hops)
            for level, hop in enumerate(hops):
                request["hop"][level] = (self.simulation.switches[hop.switch].address, hop.bit, hop.mask)
        return request

    def answers(self, member: Member, message: abi.MessageType = abi.MessageType.JOIN) -> list[np.void]:
        """Answers to the JOINs (or LEAVEs) of a rank, as records of actions.ACTION."""
        notices = self.device(member).notices
        return [notice for notice in notices if notice["queue"] == self.queue(member) and notice["opcode"] == message]

    def leave(self) -> None:
        """All ranks leave; returns when every device has forgotten the job."""
        for member in self.members:
            self.device(member).engine.leave(self.queue(member), LEAVE_TAG, self.simulation.now)
        self.simulation.run(lambda: not self.records(), limit=200_000_000_000)

    def records(self) -> list[np.void]:
        """The records of the job on all devices."""
        return [
            record
            for device in self.simulation.devices.values()
            for record in device.engine.tables["jobs"][:-1]
            if record["state"] != JobState.FREE and record["jid"] == self.jid
        ]

    # Work requests

    def allreduce(self, data: list[np.ndarray], op: abi.Op, *, process_memory: bool = False) -> list[np.ndarray]:
        """Every rank posts an allreduce of its array; returns the arrays that will hold the results (zeros until then).

        `process_memory`: the arrays are ordinary memory, which the device asks its driver to read.
        """
        results = [np.zeros_like(array) for array in data]
        for member, source, result in zip(self.members, data, results, strict=True):
            self.post(member, self.work_request(member, source, result, op, process_memory=process_memory))
        self._messages += 1
        return results

    def work_request(
        self, member: Member, source: np.ndarray, result: np.ndarray, op: abi.Op, *, process_memory: bool = False
    ) -> np.ndarray:
        """The WQE of an allreduce, an array of one abi.WQE; its memory is made known to the device."""
        wqe = np.zeros(1, abi.WQE)
        wqe["opcode"], wqe["flags"], wqe["address_count"] = abi.WqeOpcode.COLLECTIVE, abi.WqeFlag.SIGNALED, 1
        wqe["op"], wqe["dtype"] = op, datatype_of(source.dtype).code
        wqe["contributors"], wqe["route"] = abi.ContributorClass.ALL, self.route
        wqe["wr_id"] = wqe["mid"] = self._messages
        wqe["jid"], wqe["chunk"], wqe["length"] = self.jid, self.chunk, source.nbytes
        wqe["node_bitmap"], wqe["rank_bitmap"] = (1 << len(self.nodes)) - 1, 1 << member.rank
        wqe["source_lkey"] = self.memory(member, source, process_memory)
        wqe["destination_lkey"] = self.memory(member, result, process_memory)
        wqe["block"], wqe["segments"] = source.nbytes, -(-source.nbytes // self.chunk)
        one = source.nbytes > 0
        wqe["address"][0] = (result.ctypes.data, 0, one, 0, one, source.ctypes.data)
        return wqe

    def memory(self, member: Member, array: np.ndarray, process_memory: bool = False) -> int:
        """Make an array of a rank known to its device; its lkey."""
        self._arrays.append(array)
        if process_memory:
            self.device(member).allow(array)
            return abi.LKEY_PROCESS
        self._lkey += 1
        self.device(member).register(self.queue(member), array, self._lkey)
        return self._lkey

    def post(self, member: Member, wqe: np.ndarray) -> None:
        """A rank posts a WQE; its first slot is filled in as the driver does it."""
        engine = self.device(member).engine
        queue = engine.tables["queues"][self.queue(member)]
        if queue["job"]:
            wqe["seg"] = queue["position"] & (engine.tables["jobs"][queue["job"] - 1]["slots"] - 1)
        engine.post(self.queue(member), wqe, self.simulation.now)

    def completions(self, member: Member) -> list[np.void]:
        """Completions of a rank in order, as records of actions.ACTION."""
        return [entry for entry in self.device(member).completions if entry["queue"] == self.queue(member)]

    def finish(self, count: int = 1) -> None:
        """Run until every rank has `count` completions in all."""
        self.simulation.run(lambda: all(len(self.completions(m)) >= count for m in self.members), limit=600_000_000_000)
