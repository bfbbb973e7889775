"""The contenders: Fanin in each variant, every installed peer, and every peer with the MPI shim."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fanin_tools.bench import c_program, mpi_shim, peers
from fanin_tools.bench.peers import Peer
from fanin_tools.bench.session import Command, Session
from fanin_tools.bench.setups import Setup, Variant
from fanin_tools.errors import UsageError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import place

# Run with -P: modules of the folder have names of standard modules.
PROGRAM = Path(__file__).with_name("rank_program.py")


@dataclass(frozen=True)
class Contender:
    """start: starts its ranks on a fabric for the time of a block. shim: whether it is an MPI with the shim."""

    title: str
    ours: bool
    start: Callable[[Running], AbstractContextManager[Session]]
    shim: bool = False

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.title.lower().replace(" ", "-")


def contenders(setup: Setup, folder: Path, names: Sequence[str] = ()) -> list[Contender]:
    """Those called `names`, or all; ours first. folder: of the peers' environments. Raises UsageError."""
    every = [ours(setup, variant) for variant in setup.variants if not variant.in_c or c_program.can_build()]
    for peer, binaries in peers.installed(folder):
        every += [_other(setup, peer, binaries), _with_shim(setup, peer, binaries)]
    if unknown := sorted(set(names) - {contender.name for contender in every}):
        present = ", ".join(contender.name for contender in every)
        raise UsageError(f"{setup.title}: there is no contender {', '.join(unknown)}", f"use some of {present}")
    return [contender for contender in every if not names or contender.name in names]


def ours(setup: Setup, variant: Variant) -> Contender:
    return Contender(variant.title, True, lambda running: _our_session(running, setup, variant))


def _other(setup: Setup, peer: Peer, binaries: Path) -> Contender:
    return Contender(peer.title, False, lambda running: _peer_session(running, setup, peer.title, peer, binaries, {}))


def _with_shim(setup: Setup, peer: Peer, binaries: Path) -> Contender:
    title, route = f"{peer.title} with Fanin", setup.variants[0].route

    def start(running: Running) -> AbstractContextManager[Session]:
        variables = mpi_shim.environment(running, setup.ranks, route)
        return _peer_session(running, setup, title, peer, binaries, variables)

    return Contender(title, True, start, shim=True)


@contextlib.contextmanager
def _our_session(running: Running, setup: Setup, variant: Variant) -> Iterator[Session]:
    placement = place(running.fabric, setup.ranks, variant.route)
    job = job_file.write(running, job_file.describe(running, placement))
    try:
        with tempfile.TemporaryDirectory(prefix="fanin-bench-") as folder:
            kind = "registered" if variant.registered else "ordinary"
            launcher = [str(c_program.build(Path(folder)))] if variant.in_c else [sys.executable, "-P", str(PROGRAM)]
            program = [*launcher, kind, str(Path(folder) / "ranks")]
            commands = []
            for rank in range(setup.ranks):
                host = placement.nics[placement.node_of(rank)].host
                line = [*namespaces.prefix_command(running.fabric, host), *program]
                environment = os.environ | job_file.environment(running, placement, rank, job)
                commands.append(Command(line, environment, rank if setup.binds else None))
            yield from _open(Session(variant.title, True, setup.ranks, Path(folder), commands))
    finally:
        job.unlink(missing_ok=True)


@contextlib.contextmanager
def _peer_session(
    running: Running, setup: Setup, title: str, peer: Peer, binaries: Path, variables: dict[str, str]
) -> Iterator[Session]:
    """variables: further environment variables, only for the ranks."""
    with tempfile.TemporaryDirectory(prefix="fanin-bench-") as folder:
        program = [str(binaries / "python"), "-P", str(PROGRAM), "mpi", str(Path(folder) / "ranks")]
        command = peer.command(binaries, setup.ranks, running.fabric, Path(folder), program, variables, setup.binds)
        yield from _open(Session(title, bool(variables), setup.ranks, Path(folder), [command]))


def _open(session: Session) -> Iterator[Session]:
    with contextlib.closing(session):
        yield session
