"""The world of a workload, made once for any number of schedules: devices, their snapshots, and all work requests."""

from typing import NamedTuple

import numpy as np

from fanin_nic.engine import events
from fanin_nic.engine.engine import Engine, Limits, join_event
from fanin_nic.engine.records.actions import ACTION
from fanin_nic.engine.records.tables import BODY_SIZE
from fanin_sim.fabric.device import Device
from fanin_sim.fabric.placement import neighbours, scopes_of
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fuzz.tables import FAULT, MAX_FAULTS, MESSAGE, OPCODES, RANK, SCOPE, VERTEX, WORLD
from fanin_sim.fuzz.workloads import CHUNK, Posting, Workload
from fanin_sim.jobs.job import Job, members_of
from fanin_sim.jobs.message import COLLECTIVES, Message, order_dependent, order_independent
from fanin_sim.kernel.world import Tables
from fanin_wire.abi import ContributorClass
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.fields import TRANSPORT_SIZE
from fanin_wire.operations import operation_by_name

PACKETS = 2048  # under way at one time
MAX_SLOTS = 16  # of a job
MAX_BUFFERS = 4  # children of a device in a reproducible workload
TRACE_LINES = 1 << 16
# Number of arguments of each event.
ARGUMENTS = {"packet": 5, "batch_end": 2, "post": 4, "serve": 3, "dma_done": 8, "tick": 2}
ARGUMENTS |= {"join": 4, "leave": 4, "lose": 4, "note_stall": 3}
PACKET_STRIDE = TRANSPORT_SIZE + BODY_SIZE + 4


class PostedMessage(NamedTuple):
    """A message as one rank posts it. reference: the expected result; if empty, all ranks compare with `shared`."""

    wqe: np.ndarray
    result: np.ndarray
    reference: np.ndarray
    shared: np.ndarray
    is_unsignaled: bool


class World(Tables):
    """A workload as the tables of a WORLD record. faults, given: tables that the schedule fills or reads."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.simulation = Simulation(workload.topology, 0, limits=_limits(workload), multicast=workload.multicast)
        self.jobs = [self._job(number) for number in range(workload.jobs)]
        posted = [self._posted(job) for job in self.jobs]
        super().__init__(WORLD)
        self.record["slots_may_run_out"] = workload.slots_may_run_out
        self.vertices = self._table("vertices", VERTEX, len(self.simulation.vertices))
        self._fill_vertices()
        self._fill_neighbours()
        self._fill_ranks(posted)
        self._make_room()
        self._name_events(events, ARGUMENTS)

    @staticmethod
    def names_of(workload: Workload) -> list[str]:
        """The names of the devices of a workload, in their order."""
        nics, switches = range(workload.topology.nodes), range(workload.topology.switches)
        return [*(f"NIC {number}" for number in nics), *(f"switch {number}" for number in switches)]

    # Work requests

    def _job(self, number: int) -> Job:
        workload = self.workload
        return Job(
            self.simulation,
            workload.route,
            members_of(workload.topology.nodes, workload.ranks),
            jid=1 + number,
            key=0x10000 * (1 + number),
            slots=MAX_SLOTS,
            chunk=CHUNK,
            first_queue=number * workload.ranks,
            reproducible=workload.reproducible,
            top=0 if workload.topology.switches else None,
        )

    def _posted(self, job: Job) -> list[list[PostedMessage]]:
        if self.workload.process_memory:
            for member in job.members:
                job.device(member).register_process(job.queue(member))
        rows: list[list[PostedMessage]] = [[] for _ in job.members]
        for number, posting in enumerate(self.workload.postings):
            message = self._message(posting, job, number)
            is_open = posting.order_dependent and self.workload.reproducible == "none"
            expected = job.expected(message)
            shared = np.zeros(8 + message.elements * message.datatype.itemsize if is_open else 0, np.uint8)
            for rank in range(len(job.members)):
                result = message.result(rank)
                wqe = job.work_request(rank, message, result, process_memory=self.workload.process_memory)
                wqe["wr_id"] = wqe["mid"] = number
                reference = np.zeros(0, np.uint8) if is_open else np.ascontiguousarray(expected[rank])
                rows[rank].append(PostedMessage(wqe, result, reference, shared, posting.is_unsignaled))
        return rows

    def _message(self, posting: Posting, job: Job, number: int) -> Message:
        collective, ranks = COLLECTIVES[posting.collective], len(job.members)
        reduces = collective.contributors == ContributorClass.ALL
        datatype = datatype_by_name(posting.dtype if reduces else "u8")
        widening = operation_by_name(posting.operation).widening(datatype) if reduces and job.is_wide else 1
        bytes_of_segment = CHUNK // widening
        elements = posting.segments * bytes_of_segment // datatype.itemsize
        if collective.per_rank:
            elements = ranks * elements - 1
        if collective.contributors == ContributorClass.NONE:
            elements = 0
        shape = (ranks, elements) if reduces else (elements,)
        make = (
            order_dependent(datatype, shape, number)
            if posting.order_dependent
            else order_independent(datatype, posting.operation, shape, number)
        )
        root = posting.root % ranks
        return Message(posting.collective, make, ranks, operation=posting.operation, datatype=datatype, root=root)

    # Tables

    def _fill_vertices(self) -> None:
        self.record["vertex_count"] = len(self.vertices)
        switches = set(self.simulation.switches)
        for row, device in zip(self.vertices, self.simulation.vertices, strict=True):
            watched = np.zeros(1, _watched(device.engine))
            self._kept.append(watched)
            self.take_snapshot(row, device)
            row["keys"], row["watch_size"] = watched.ctypes.data, watched.nbytes
            row["positions"] = watched["positions"].ctypes.data
            row["address"], row["is_switch"] = device.address, device in switches
        for number, switch in enumerate(self.simulation.switches):
            row = self.vertices[self.workload.topology.nodes + number]
            row["group"] = switch.group
            row["group_members"] = sum(1 << child for child in self.workload.topology.children(number))

    def _fill_neighbours(self) -> None:
        """Fills in the neighbours of all devices and the scopes of NICs. All jobs have the same members."""
        placement = self.jobs[0].placement
        for index, found in neighbours(placement).items():
            for other in found.values():
                self.vertices[index]["neighbours"] |= np.uint64(1 << other)
                self.vertices[other]["neighbours"] |= np.uint64(1 << index)
        for node in placement.nodes:
            scopes = scopes_of(placement, node)
            table = np.zeros(max(1, len(scopes)), SCOPE)
            self._kept.append(table)
            for row, scope in zip(table, scopes, strict=False):
                row["parent"], row["count"] = scope.parent, len(scope.children)
                for bit, child in enumerate(scope.children):
                    row["child"][bit] = sum(1 << index for index in child)
            self.vertices[node]["scopes"], self.vertices[node]["scope_count"] = table.ctypes.data, len(scopes)

    def take_snapshot(self, row: np.void, device: Device) -> None:
        """Stores the state from which every schedule begins."""
        snapshot = device.engine.arena.copy()
        self._kept.append(snapshot)
        row["base"], row["size"], row["snapshot"] = device.engine.base, len(snapshot), snapshot.ctypes.data

    def _fill_ranks(self, posted: list[list[list[PostedMessage]]]) -> None:
        vertex = {device.address: number for number, device in enumerate(self.simulation.vertices)}
        per_rank = len(self.workload.postings)
        total = sum(map(len, posted))
        self.ranks = self._table("ranks", RANK, total)
        self.messages = self._table("messages", MESSAGE, total * per_rank)
        self.record["rank_count"] = total
        number = 0
        for job, rows in zip(self.jobs, posted, strict=True):
            for member, row in zip(job.members, rows, strict=True):
                rank = self.ranks[number]
                join = join_event(job.join_request(member))
                self._kept.append(join)
                rank["vertex"], rank["queue"] = vertex[job.device(member).address], job.queue(member)
                rank["key"], rank["job"] = job.key, self.jobs.index(job)
                rank["first_of_node"], rank["node_ranks"] = number - member.rank, self.workload.ranks
                rank["join"], rank["messages"] = join.ctypes.data, per_rank
                rank["first_message"] = number * per_rank
                for place, message in enumerate(row):
                    self._fill_message(self.messages[number * per_rank + place], message)
                number += 1

    def _fill_message(self, row: np.void, message: PostedMessage) -> None:
        self._kept += [message.wqe, message.result, message.reference, message.shared]
        row["wqe"], row["length"] = message.wqe.ctypes.data, message.result.nbytes
        row["is_unsignaled"] = message.is_unsignaled
        row["result"] = message.result.ctypes.data
        row["wanted_blocks"] = message.wqe["address"]["destination_blocks"].item()
        row["reference"] = message.reference.ctypes.data if message.reference.size else 0
        row["shared"] = message.shared.ctypes.data if message.shared.size else 0

    def _make_room(self) -> None:
        counters = len(self.vertices) ** 2 * OPCODES
        self._make_kernel_room(PACKETS, PACKET_STRIDE, counters, counters, TRACE_LINES)
        self._table("reads", ACTION, len(self.ranks))
        self.given = self._table("given", FAULT, MAX_FAULTS + 8)
        self.faults = self._table("faults", FAULT, MAX_FAULTS)


def _watched(engine: Engine) -> np.dtype:
    """The record of a device that `invariants.check` keeps."""
    return np.dtype([("keys", "u8", engine.limits.jobs), ("positions", "u4", engine.limits.slots)])


def _limits(workload: Workload) -> Limits:
    """Limits with tables just large enough, because they are copied for every schedule."""
    children = 1 if workload.reproducible == "none" else MAX_BUFFERS
    lease = MAX_SLOTS * children
    queues = workload.jobs * workload.ranks
    return Limits(
        jobs=workload.jobs + 1,
        slots=workload.slots or workload.jobs * lease,
        shared=int(workload.slots > 0),
        queues=queues,
        requests=4,
        addresses=1,
        regions=queues * (2 * len(workload.postings) + 1),
        actions=256,
        max_chunk=CHUNK,
        min_lease=4,
        max_lease=lease,
    )
