"""The engine as an object: one arena, events as methods, actions as an array.

    engine = Engine(address="127.0.0.2", slots=256)
    engine.packet(address_of_bth, length, source, now)
    actions, headers = engine.take_actions()

The simulator and the tests use it; the daemon calls the same machine code, `events`, on `engine.base`. Record 0001: why
the engine has no clock, no socket and one block of memory.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

import numpy as np

from fanin_nic.engine import events
from fanin_nic.engine.function_addresses import entry_table
from fanin_nic.engine.jobs.lease import share
from fanin_nic.engine.kernels import itemsize_table, kernel_table
from fanin_nic.engine.kernels.table import MAX_DTYPES, MAX_OPS
from fanin_nic.engine.records.accessors import NEVER
from fanin_nic.engine.records.tables import BODY_SIZE, COUNTERS, ENGINE, ENTRIES, FULL_BODIES, JOIN_EVENT, TABLES
from fanin_nic.native.arena import Arena
from fanin_wire import abi, fields
from fanin_wire.abi import MAX_CHILDREN
from fanin_wire.datatypes import DATATYPES
from fanin_wire.limits import DEFAULT_DETECTION

KEEPALIVES = 10  # in a detection time; at a loss of 20 % that many are lost in a row once in 10^7 times
WIDENED = max(entry.widening for entry in DATATYPES)  # a slot has room for a chunk of the smallest floats as f32


class Limits(NamedTuple):
    """Sizes of an engine's tables, and bounds of a job's lease and chunk."""

    jobs: int = 64
    slots: int = 4096
    queues: int = 256
    requests: int = abi.SQ_DEPTH
    regions: int = 1024
    actions: int = 4096
    max_chunk: int = 8192
    min_lease: int = 4
    max_lease: int = 4096
    receive_segments: int = 4096
    addresses: int = abi.MAX_ADDRESSES  # of a request
    shared: int = 0  # 1: no client, and no device below, can take all jobs or slots


class Timing(NamedTuple):
    """Intervals in nanoseconds."""

    rto: int = 20_000_000
    reorder: int = 20_000_000
    keepalive: int = 500_000_000
    detection: int = round(DEFAULT_DETECTION * 1e9)
    ageing: int = 60_000_000_000

    @classmethod
    def of_detection(cls, seconds: float) -> Timing:
        """Intervals for another detection time, in which all KEEPALIVES are lost only by an outage."""
        detection = round(seconds * 1e9)
        return cls(keepalive=detection // KEEPALIVES, detection=detection, ageing=max(cls().ageing, 2 * detection))


def _rows(limits: Limits) -> dict[str, int]:
    """`jobs`, `headers` and `bodies` have a spare row, for packets without a job or an action."""
    return {
        "jobs": limits.jobs + 1,
        "children": (limits.jobs + 1) * MAX_CHILDREN,
        "slots": limits.slots,
        "queues": limits.queues,
        "requests": limits.queues * limits.requests,
        "regions": limits.regions,
        "lists": limits.queues * limits.requests * (limits.addresses - 1),
        "actions": limits.actions,
        "headers": limits.actions + 1,
        "kernels": MAX_OPS * MAX_DTYPES,
        "counters": COUNTERS,
        "entries": ENTRIES,
        "bodies": (limits.actions + 1) * BODY_SIZE,
        "full_bodies": limits.jobs * FULL_BODIES * max(limits.max_chunk, BODY_SIZE),
        "payload": limits.slots * limits.max_chunk * WIDENED,
    }


class Engine(Arena):
    """The engine of one device, or of one of its `lanes`.

    group: multicast address of its results. group_size: devices that listen there. `header`: the ENGINE record.
    """

    def __init__(
        self,
        address: str,
        *,
        is_switch: bool = False,
        boot_id: int = 1,
        lanes: int = 1,
        group: str | None = None,
        group_size: int = 0,
        limits: Limits | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.limits = limits or Limits()
        timing = timing or Timing()
        super().__init__(ENGINE, TABLES, _rows(self.limits))
        header = self.header
        for name, value in {**self.limits._asdict(), **timing._asdict()}.items():
            header[name] = value
        header["address"] = int(ipaddress.IPv4Address(address))
        header["is_switch"], header["boot_id"], header["last_lane"] = is_switch, boot_id, lanes - 1
        header["group"], header["group_size"] = int(ipaddress.IPv4Address(group)) if group else 0, group_size
        header["stride"], header["queue_end"] = self.limits.max_chunk * WIDENED, self.limits.queues
        header["next_deadline"] = NEVER
        self.tables["kernels"][:] = kernel_table().reshape(-1)
        self.tables["kernels"][: len(itemsize_table())] = itemsize_table()
        self.tables["entries"][:] = entry_table()

    # Events

    def packet(self, address: int, length: int, source: int, now: int) -> None:
        """A packet with a right ICRC. address: of its BTH; length: bytes from there to the ICRC; source: IPv4."""
        events.packet(self.base, address, length, source, now)

    def batch_end(self, now: int) -> None:
        events.batch_end(self.base, now)

    def post(self, queue: int, wqe: np.ndarray, now: int) -> None:
        """A work request: one element of abi.WQE."""
        events.post(self.base, queue, wqe.ctypes.data, now)

    def serve(self, now: int, budget: int = 1 << 30) -> int:
        """Read the data that the ranks have posted, as far as the windows allow; returns the number of segments."""
        return events.serve(self.base, budget, now)

    def dma_done(self, action: np.void, address: int, status: int, now: int) -> None:
        """The data of a DMA_READ are at `address`, or `status` says why not."""
        events.dma_done(
            self.base,
            int(action["queue"]),
            int(action["position"]),
            int(action["count"]),
            int(action["address_index"]),
            address,
            status,
            now,
        )

    def tick(self, now: int) -> None:
        """Time has passed; useful from `next_deadline` on."""
        events.tick(self.base, now)

    def join(self, queue: int, request: np.void, now: int) -> None:
        """A JOIN: one element of abi.JOIN."""
        event = join_event(request)
        events.join(self.base, queue, event.ctypes.data, now)

    def leave(self, queue: int, tag: int, now: int) -> None:
        events.leave(self.base, queue, tag, now)

    def lose(self, queue: int, now: int) -> None:
        """The process behind a queue pair has ended without leaving."""
        events.lose(self.base, queue, int(abi.Status.PEER_LOST), now)

    def fail(self, queue: int, status: abi.Status, now: int) -> None:
        """The requests of a queue pair can no longer be performed."""
        events.fail(self.base, queue, int(status), now)

    # Results

    @staticmethod
    def share(held: int, free: int) -> int:
        """Rows of a table that a client with `held` of them may still take of `free` ones (`jobs.lease`)."""
        return share(held, free)

    def take_actions(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of the actions and their headers; empties the table."""
        count = int(self.header["action_count"])
        taken = self.tables["actions"][:count].copy(), self.tables["headers"][:count].copy()
        self.header["action_count"] = 0
        return taken

    def counters(self) -> dict[str, int]:
        """All counters by name: rx_ and tx_ by opcode, drops by reason."""
        values = self.tables["counters"]
        named = {}
        for opcode in fields.Opcode:
            named[f"rx_{opcode.name}"] = int(values[opcode & 15])
            named[f"tx_{opcode.name}"] = int(values[16 + (opcode & 15)])
        for counter in events.Counter:
            if counter >= events.Counter.ORDINARY_PACKETS:
                named[counter.name.lower()] = int(values[counter])
        return named


def join_event(request: np.void) -> np.ndarray:
    """A JOIN (abi.JOIN) for the engine: one element of JOIN_EVENT."""
    event = np.zeros(1, JOIN_EVENT)
    for name in ("jid", "key", "route", "rank_bitmap", "rank_mask", "slots", "chunk"):
        event[name] = request[name]
    for name in ("node_index", "node_count", "next_address", "previous_address", "hop_count", "flags"):
        event[name] = request[name]
    event["tag"] = request["head"]["tag"]
    event["digest_high"], event["digest_low"] = request["digest"]
    for name in ("address", "bit", "mask"):
        event[f"hop_{name}"][0] = request["hop"][name]
    return event
