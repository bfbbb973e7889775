"""Who takes part in a comparison: ours in each of its ways, and every peer that is installed."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fanin_tools.bench import peers
from fanin_tools.bench.peers import PROGRAM, Peer
from fanin_tools.bench.session import Command, Session
from fanin_tools.bench.setups import Setup, Way
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.job import job_file
from fanin_tools.job.placement import place


@dataclass(frozen=True)
class Contender:
    """start: its ranks, for the time of a block."""

    title: str
    ours: bool
    start: Callable[[], AbstractContextManager[Session]]


def contenders(running: Running, setup: Setup, folder: Path) -> list[Contender]:
    """Ours first. folder: of the peers' environments."""
    own = [ours(running, setup, way) for way in setup.ways]
    return own + [_other(running, setup, peer, binaries) for peer, binaries in peers.installed(folder)]


def ours(running: Running, setup: Setup, way: Way) -> Contender:
    """Our ranks, over a way."""
    return Contender(way.title, True, lambda: _our_session(running, setup, way))


def _other(running: Running, setup: Setup, peer: Peer, binaries: Path) -> Contender:
    return Contender(peer.title, False, lambda: _peer_session(running, setup, peer, binaries))


@contextlib.contextmanager
def _our_session(running: Running, setup: Setup, way: Way) -> Iterator[Session]:
    placement = place(running.fabric, setup.ranks, way.route)
    job = job_file.write(running, job_file.describe(running, placement))
    try:
        with tempfile.TemporaryDirectory(prefix="fanin-bench-") as folder:
            kind = "registered" if way.registered else "ordinary"
            program = [sys.executable, "-P", str(PROGRAM), kind, str(Path(folder) / "ranks")]
            commands = []
            for rank in range(setup.ranks):
                host = placement.nics[placement.node_of(rank)].host
                line = [*namespaces.prefix_command(running.fabric, host), *program]
                commands.append(Command(line, os.environ | job_file.environment(running, placement, rank, job)))
            yield from _open(Session(way.title, True, setup.ranks, Path(folder), commands))
    finally:
        job.unlink(missing_ok=True)


@contextlib.contextmanager
def _peer_session(running: Running, setup: Setup, peer: Peer, binaries: Path) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(prefix="fanin-bench-") as folder:
        command = peer.command(binaries, setup.ranks, running.fabric, Path(folder))
        yield from _open(Session(peer.title, False, setup.ranks, Path(folder), [command]))


def _open(session: Session) -> Iterator[Session]:
    with contextlib.closing(session):
        yield session
