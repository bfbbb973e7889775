"""What every rank is told of its job: a JSON file and environment variables."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.job.placement import Placement
from fanin_wire import fields

CHUNK_LIMITS = (256, 4096)  # InfiniBand's path MTUs
DEFAULT_SLOTS = 256


def chunk_for(mtu: int) -> int:
    """Largest chunk in bytes, a power of two, whose packet fits into `mtu`."""
    room = mtu - fields.IPV4_UDP_SIZE - fields.TRANSPORT_SIZE - fields.ICRC_SIZE
    return max(CHUNK_LIMITS[0], min(CHUNK_LIMITS[1], 1 << (room.bit_length() - 1)))


def describe(running: Running, placement: Placement, slots: int = DEFAULT_SLOTS) -> dict[str, object]:
    """The job as ranks read it. jid and key are random: the key tells this incarnation from every other."""
    fabric = running.fabric
    nodes = [
        {"address": nic.address, "ranks": list(ranks)}
        for nic, ranks in zip(placement.nics, placement.ranks, strict=True)
    ]
    return {
        "jid": 1 + secrets.randbelow(0xFFFFFFFE),
        "key": secrets.randbits(32),
        "route": placement.route,
        "chunk": chunk_for(fabric.mtu),
        "slots": slots,
        "nodes": nodes,
        "switch": fabric.switch.address if fabric.switch is not None else None,
    }


def write(running: Running, job: dict[str, object]) -> Path:
    """Write `job` into the folder of its fabric; whoever calls removes it again."""
    path = running.state.folder / f"job-{job['jid']:08x}.json"
    path.write_text(json.dumps(job))
    return path


def environment(running: Running, placement: Placement, rank: int, job: Path) -> dict[str, str]:
    """Environment variables of one rank."""
    node = placement.node_of(rank)
    return {
        "FANIN_RANK": str(rank),
        "FANIN_SIZE": str(placement.size),
        "FANIN_LOCAL_RANK": str(placement.ranks[node].index(rank)),
        "FANIN_SOCKET": str(running.state.socket(placement.nics[node].name)),
        "FANIN_JOB": str(job),
    }
