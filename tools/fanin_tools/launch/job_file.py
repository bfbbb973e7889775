"""The description of a job for every rank: a file and environment variables."""

import secrets
from pathlib import Path

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.placement import Placement
from fanin_wire import abi, fields
from fanin_wire.job_text import job_text
from fanin_wire.limits import MAX_JOB_CHUNK, MIN_CHUNK, MIN_JOB_SLOTS
from fanin_wire.settings import JobSettings

EXIT_CAUSES_VARIABLE = "FANIN_CONSEQUENCES"  # names the file of exit causes; the library reads it
LOCAL_TIMES = abi.LOCAL_CHUNK // MAX_JOB_CHUNK  # so much longer are segments that no packet carries


def chunk_for(mtu: int) -> int:
    """The largest chunk, a power of two, with packets that fit into `mtu`; both in bytes."""
    room = mtu - fields.IPV4_UDP_SIZE - fields.TRANSPORT_SIZE - fields.ICRC_SIZE
    return max(MIN_CHUNK, min(MAX_JOB_CHUNK, 1 << (room.bit_length() - 1)))


def describe(running: Running, placement: Placement, settings: JobSettings | None = None) -> dict[str, object]:
    """jid and key are random; the key tells this job from all earlier ones with its jid.

    A job within one node has longer and fewer segments: no packet limits them, and their buffers then stay in a core's
    cache.
    """
    settings = settings or JobSettings()
    times = LOCAL_TIMES if len(placement.nics) == 1 else 1
    chunk = chunk_for(running.fabric.path_mtu) * times
    nodes = [
        {"address": nic.address, "ranks": list(ranks), "switches": list(uplink.switches), "ring": uplink.ring}
        for nic, ranks, uplink in zip(placement.nics, placement.ranks, placement.uplinks, strict=True)
    ]
    return {
        "jid": 1 + secrets.randbelow(0xFFFFFFFE),
        "key": secrets.randbits(32),
        "route": placement.route,
        "chunk": chunk,
        "slots": max(MIN_JOB_SLOTS, settings.slots // times),
        "reproducible": settings.reproducible,
        "wide": settings.wide,
        "nodes": nodes,
    }


def write(running: Running, job: dict[str, object]) -> Path:
    """Into the folder of its fabric. The caller removes the file."""
    path = running.state.folder / f"job-{job['jid']:08x}.txt"
    path.write_text(job_text(job))
    return path


def exit_causes(job: Path) -> Path:
    """The file beside a job's description in which ranks note that others have ended the job."""
    return job.with_suffix(".exit-causes")


def environment(running: Running, placement: Placement, rank: int, job: Path) -> dict[str, str]:
    node = placement.node_of(rank)
    return {
        "FANIN_RANK": str(rank),
        "FANIN_SIZE": str(placement.size),
        "FANIN_LOCAL_RANK": str(placement.ranks[node].index(rank)),
        "FANIN_SOCKET": str(running.state.socket(placement.nics[node].name)),
        "FANIN_JOB": str(job),
        EXIT_CAUSES_VARIABLE: str(exit_causes(job)),
    }
