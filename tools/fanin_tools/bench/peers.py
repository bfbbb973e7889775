"""Other implementations, each in an environment of its own with mpi4py, and the options with which each is fastest.

On one node both use shared memory, and bind each rank to a core. Over namespaces both use TCP; nothing of a host's
memory is shared there. More processes than cores wait by yielding: MPICH does so where MPI_THREAD_MULTIPLE is asked
for, as mpi4py does, and spins elsewhere; Open MPI must be told if it can not see it by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fanin_tools.bench.session import Command
from fanin_tools.fabric.description import Fabric
from fanin_tools.launch import launch_agent

NEEDED = ("mpiexec", "python")
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
PROGRAM = Path(__file__).with_name("rank_program.py")  # run with -P: beside it lie names of standard modules


@dataclass(frozen=True)
class Peer:
    """An MPI. folder: of its environment; local: options on one node, binding: those that bind its ranks to cores
    there; network: a function of the fabric and a folder for what it needs, to options over namespaces."""

    title: str
    folder: str
    local: tuple[str, ...]
    binding: tuple[str, ...]
    network: Callable[[Fabric, Path], list[str]]

    def command(
        self,
        binaries: Path,
        ranks: int,
        fabric: Fabric,
        folder: Path,
        variables: Mapping[str, str] = NO_VARIABLES,
        bound: bool = False,
    ) -> Command:
        """mpiexec with all ranks; folder: for their sockets and the launch agent; variables: of the ranks; bound: on
        one node, to a core each."""
        line = [str(binaries / "mpiexec"), "-n", str(ranks), *(self.binding if bound else ()), *self.local]
        if fabric.netns:
            options = self.network(fabric, folder)
            line = [*launch_agent.inside_first(fabric), str(binaries / "mpiexec"), "-n", str(ranks), *options]
        program = [str(binaries / "python"), "-P", str(PROGRAM), "mpi", str(folder / "ranks")]
        given = ["env", *(f"{name}={value}" for name, value in variables.items())] if variables else []
        return Command([*line, *given, *program], _environment(binaries))


# Of Open MPI where links are slow: from 512 KiB on a ring (4), which it would not choose by itself and which is faster
# there; else what it chooses (0). As coll/tuned reads it: one collective, allreduce (2), from 2 ranks on.
SLOW_LINKS = """1
2
1
2
2
0 0 0 0
524288 4 0 0
"""


UNBOUND = ("--bind-to", "none")  # each host takes the whole machine for its own: all would bind to its first core


def _open_mpi(fabric: Fabric, folder: Path) -> list[str]:
    places = ",".join(f"{nic.address}:1" for nic in fabric.nics)
    agent = launch_agent.write(fabric, folder / "agent")
    settings = {"pml": "ob1", "btl": "tcp,self", "mpi_yield_when_idle": "1"}
    if any(link.rate for link in fabric.links):
        rules = folder / "rules"
        rules.write_text(SLOW_LINKS)
        settings |= {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_dynamic_rules_filename": str(rules)}
    chosen = [word for name, value in settings.items() for word in ("--mca", name, value)]
    return ["--host", places, *UNBOUND, "--prtemca", "plm_ssh_agent", str(agent), *chosen]


def _mpich(fabric: Fabric, folder: Path) -> list[str]:
    agent = launch_agent.write(fabric, folder / "agent")
    hosts = [nic.address for nic in fabric.nics]
    transport = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "MPIR_CVAR_NOLOCAL": "1"}
    settings = [word for name, value in transport.items() for word in ("-env", name, value)]
    return ["-hosts", ",".join(hosts), "-ppn", "1", "-launcher", "ssh", "-launcher-exec", str(agent), *settings]


SHARED_MEMORY = ("--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "sm,self")
# To the cores in turn, as MPICH does and we do; with "core" alone neighbours share one, and 8 B take longer.
BOUND = ("--map-by", "core:OVERSUBSCRIBE:SPAN", "--bind-to", "core:overload-allowed")
PEERS = (
    Peer("Open MPI", "openmpi", SHARED_MEMORY, BOUND, _open_mpi),
    Peer("MPICH", "mpich", (), ("-bind-to", "core"), _mpich),
)


def installed(folder: Path) -> list[tuple[Peer, Path]]:
    """The peers that have an environment under `folder`, each with the `bin` of it."""
    found = [(peer, folder.absolute() / peer.folder / "bin") for peer in PEERS]
    return [(peer, binaries) for peer, binaries in found if all((binaries / name).exists() for name in NEEDED)]


def versions(folder: Path) -> dict[str, str]:
    """Of the peers that are installed, as their packages say."""
    found = {}
    for peer, binaries in installed(folder):
        packages = sorted(binaries.parent.glob(f"lib/python*/site-packages/{peer.folder}-*.dist-info"))
        found[peer.title] = packages[0].name.split("-")[1].removesuffix(".dist") if packages else "unknown"
    return found


def _environment(binaries: Path) -> dict[str, str]:
    # Open MPI refuses to run as root without these two; in a container there is often nobody else.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return ours | root | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
