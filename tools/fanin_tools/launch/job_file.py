"""What every rank is told of its job: a JSON file and environment variables."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from fanin_tools.errors import UsageError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.placement import Placement
from fanin_wire import abi, fields

CHUNK_LIMITS = (256, 4096)  # InfiniBand's path MTUs
LOCAL_TIMES = abi.LOCAL_CHUNK // CHUNK_LIMITS[1]  # so much longer are segments that no packet carries
DEFAULT_SLOTS = 256
SMALLEST_SLOTS = 4  # of a lease
LARGEST_SLOTS = 1 << 20  # that a device may have
REPRODUCIBLE = ("none", "run", "shape")


@dataclass(frozen=True)
class JobOptions:
    """How a job is computed.

    slots: segment buffers asked of each device
    reproducible: "none": in order of arrival; "run": the same bits in every run; "shape": in a ring those of a tree too
    wide: partials of f16 and bf16 travel as f32
    """

    slots: int = DEFAULT_SLOTS
    reproducible: str = "none"
    wide: bool = False

    def check(self) -> None:
        """Raise UsageError for a value that no job can have."""
        if not SMALLEST_SLOTS <= self.slots <= LARGEST_SLOTS or self.slots & (self.slots - 1):
            cause = f"--slots {self.slots} is no power of two from {SMALLEST_SLOTS} to {LARGEST_SLOTS}"
            raise UsageError(cause, f"use for example {DEFAULT_SLOTS}")
        if self.reproducible not in REPRODUCIBLE:
            cause = f"--reproducible {self.reproducible!r} is not a mode"
            raise UsageError(cause, f"use one of {', '.join(REPRODUCIBLE)}")


def chunk_for(mtu: int) -> int:
    """Largest chunk in bytes, a power of two, whose packet fits into `mtu`."""
    room = mtu - fields.IPV4_UDP_SIZE - fields.TRANSPORT_SIZE - fields.ICRC_SIZE
    return max(CHUNK_LIMITS[0], min(CHUNK_LIMITS[1], 1 << (room.bit_length() - 1)))


def describe(running: Running, placement: Placement, job_options: JobOptions | None = None) -> dict[str, object]:
    """The job as ranks read it. jid and key are random: the key tells this incarnation from every other.

    Within one node segments are longer, and so fewer: as many would not stay in a core's cache. Those of a reproducible
    job need a buffer for each rank, and stay short.
    """
    job_options = job_options or JobOptions()
    times = LOCAL_TIMES if len(placement.nics) == 1 and job_options.reproducible == "none" else 1
    chunk = chunk_for(running.fabric.mtu) * times
    nodes = [
        {"address": nic.address, "ranks": list(ranks), "switches": list(uplink.switches), "ring": uplink.ring}
        for nic, ranks, uplink in zip(placement.nics, placement.ranks, placement.uplinks, strict=True)
    ]
    return {
        "jid": 1 + secrets.randbelow(0xFFFFFFFE),
        "key": secrets.randbits(32),
        "route": placement.route,
        "chunk": chunk,
        "slots": max(SMALLEST_SLOTS, job_options.slots // times),
        "reproducible": job_options.reproducible,
        "wide": job_options.wide,
        "nodes": nodes,
    }


def write(running: Running, job: dict[str, object]) -> Path:
    """Write `job` into the folder of its fabric; whoever calls removes it again."""
    path = running.state.folder / f"job-{job['jid']:08x}.json"
    path.write_text(json.dumps(job))
    return path


def exit_causes(job: Path) -> Path:
    """The file, beside the description of a job, in which ranks note that others have ended it."""
    return job.with_suffix(".consequences")


def environment(running: Running, placement: Placement, rank: int, job: Path) -> dict[str, str]:
    """Environment variables of one rank."""
    node = placement.node_of(rank)
    return {
        "FANIN_RANK": str(rank),
        "FANIN_SIZE": str(placement.size),
        "FANIN_LOCAL_RANK": str(placement.ranks[node].index(rank)),
        "FANIN_SOCKET": str(running.state.socket(placement.nics[node].name)),
        "FANIN_JOB": str(job),
        "FANIN_CONSEQUENCES": str(exit_causes(job)),
    }
