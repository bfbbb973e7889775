"""Capabilities: what a communicator's path offloads."""

from typing import NamedTuple

from fanin.job import Job
from fanin.verbs import Lease
from fanin_wire.abi import MAX_CHILDREN
from fanin_wire.collectives import COLLECTIVES
from fanin_wire.datatypes import DATATYPES
from fanin_wire.operations import OPERATIONS, supports

MAX_POSITIONS = (1 << 30) - 1  # of one message: positions are compared modulo 2^32


class Capabilities(NamedTuple):
    """What one path offloads. Collectives that only move data take elements of any type."""

    collectives: tuple[str, ...]
    operations: dict[str, tuple[str, ...]]  # types that each operation computes with
    max_bytes: int  # of one message
    max_ranks_per_node: int
    route: str
    chunk: int  # payload bytes of a segment
    slots: int  # seg buffers that the job has at each device
    window: int  # segments in flight
    reproducible: str
    wide: bool


def capabilities_of(job: Job, lease: Lease) -> Capabilities:
    operations = {
        operation.name: tuple(entry.name for entry in DATATYPES if supports(operation.code, entry.code))
        for operation in OPERATIONS
    }
    return Capabilities(
        collectives=tuple(row.name for row in COLLECTIVES),
        operations=operations,
        max_bytes=MAX_POSITIONS * lease.chunk,
        max_ranks_per_node=MAX_CHILDREN,
        route=job.chosen_route,
        chunk=lease.chunk,
        slots=lease.slots,
        window=lease.window,
        reproducible=job.reproducible,
        wide=job.sends_wide,
    )
