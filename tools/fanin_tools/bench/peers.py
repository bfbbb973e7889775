"""The peers: other implementations, each in an environment of its own with mpi4py, with the fastest options.

On one node both use shared memory and bind each rank to a core. Over namespaces both use TCP. With more processes than
cores ranks must yield while they wait: MPICH does if MPI_THREAD_MULTIPLE is requested, as by mpi4py; Open MPI needs an
option if it can not see the number of processes.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fanin_tools.bench.session import Command
from fanin_tools.fabric.description import Fabric
from fanin_tools.launch import launch_agent

NEEDED = ("mpiexec", "python")
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Peer:
    """folder: of its environment. local: options on one node. binding: options that bind its ranks to cores on one
    node. network: from the fabric and a folder for files to the options over namespaces."""

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
        program: Sequence[str],
        variables: Mapping[str, str] = NO_VARIABLES,
        bound: bool = False,
    ) -> Command:
        """The command that starts mpiexec with all ranks.

        binaries: folder of mpiexec and python. folder: for the launch agent. program: of each rank, with its arguments.
        variables: of the ranks' environment. bound: bind each rank on one node to a core.
        """
        line = [str(binaries / "mpiexec"), "-n", str(ranks), *(self.binding if bound else ()), *self.local]
        if fabric.netns:
            options = self.network(fabric, folder)
            line = [*launch_agent.inside_first(fabric), str(binaries / "mpiexec"), "-n", str(ranks), *options]
        given = ["env", *(f"{name}={value}" for name, value in variables.items())] if variables else []
        return Command([*line, *given, *program], environment(binaries))


# Rules for Open MPI on slow links, in the format of coll/tuned: for allreduce (2) from 2 ranks on, from 512 KiB the
# ring algorithm (4), which is faster there; below it the default (0).
SLOW_LINKS = """1
2
1
2
2
0 0 0 0
524288 4 0 0
"""


UNBOUND = ("--bind-to", "none")  # each namespace sees the whole machine: all ranks would get the first core


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
# Binds ranks to the cores in turn, as MPICH and `fanin run` do. With "core" alone neighbours share a core.
BOUND = ("--map-by", "core:OVERSUBSCRIBE:SPAN", "--bind-to", "core:overload-allowed")
PEERS = (
    Peer("Open MPI", "openmpi", SHARED_MEMORY, BOUND, _open_mpi),
    Peer("MPICH", "mpich", (), ("-bind-to", "core"), _mpich),
)


def installed(folder: Path) -> list[tuple[Peer, Path]]:
    """The peers with an environment in `folder`, each with its folder of programs."""
    found = [(peer, folder.absolute() / peer.folder / "bin") for peer in PEERS]
    return [(peer, binaries) for peer, binaries in found if all((binaries / name).exists() for name in NEEDED)]


def versions(folder: Path) -> dict[str, str]:
    """Of the installed peers, from their packages' metadata."""
    found = {}
    for peer, binaries in installed(folder):
        packages = sorted(binaries.parent.glob(f"lib/python*/site-packages/{peer.folder}-*.dist-info"))
        found[peer.title] = packages[0].name.split("-")[1].removesuffix(".dist") if packages else "unknown"
    return found


def environment(binaries: Path) -> dict[str, str]:
    """Environment variables of the launcher in `binaries`."""
    # Open MPI runs as root only with these two. Containers often have no other user.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return ours | root | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
