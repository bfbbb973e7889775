"""`fanin topology`: how near the GPUs of a server are to its NICs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress

if TYPE_CHECKING:
    from rich.tree import Tree

    from fanin_cluster.topology.machine import Component, Machine

SHORT = ("switch", "bridge", "NUMA", "other")
GBIT = 8e-9


@reporting
def topology(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Topologies of NCCL, RCCL or hwloc, in XML. Default: this machine.", show_default=False),
    ] = None,
    table: Annotated[bool, options.flag("--table", help="One row for each file.")] = False,
    json_output: options.Json = False,
) -> None:
    """Show the GPUs and NICs of a server as a tree, and how near they are to each other as a matrix."""
    from fanin_cluster.topology.report import as_dict

    paths: list[Path | None] = [*files] if files else [None]
    machines = [read(path) for path in paths]
    if json_output:
        found = [as_dict(machine) for machine in machines]
        print_json(found if table or len(found) > 1 else found[0])
    elif table:
        _print_table(machines)
    else:
        for machine in machines:
            _print_machine(machine)


def read(path: Path | None) -> Machine:
    """Of a file, or this machine. Raises UsageError."""
    from fanin_cluster.topology.machine import TopologyInvalid
    from fanin_cluster.topology.reading import read_machine

    try:
        return read_machine(path)
    except TopologyInvalid as error:
        raise UsageError(error.cause, error.remedy) from None


def _print_machine(machine: Machine) -> None:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    from fanin_cluster.topology.report import matrix, nearest

    tree = Tree(Text(f"{machine.source} ({machine.format})"))
    _grow(tree, machine.root, machine)
    Console().print(tree, highlight=False)
    if machine.gpus and machine.nics:
        rows = []
        for gpu, classes in matrix(machine):
            best = nearest(machine, gpu)
            names = ", ".join(nic.name for nic in best[1]) if best else "-"
            rows.append([gpu.name, *(SHORT[each] for each in classes), names])
        print_table("nearness", ["", *(nic.name for nic in machine.nics), "nearest RDMA"], rows)
    if not machine.gpus:
        print_progress(f"{machine.source}: there is no GPU")
    if not machine.rdma_nics:
        print_progress(f"{machine.source}: there is no NIC with an RDMA device")
    for note in machine.notes:
        print_progress(f"{machine.source}: {note}")


def _grow(tree: Tree, component: Component, machine: Machine) -> None:
    from rich.text import Text

    from fanin_cluster.topology.report import shown_children

    for child in shown_children(component):
        _grow(tree.add(Text(_label(child, machine))), child, machine)


def _label(component: Component, machine: Machine) -> str:
    from fanin_cluster.topology.machine import Kind

    if component.kind not in (Kind.GPU, Kind.NIC):
        return component.name
    parts = [component.name, component.address, *(each for each in component.devices if each != component.name)]
    if component.rate:
        parts.append(f"{component.rate * GBIT:.0f} Gbit/s")
    if component.kind is Kind.NIC and component.rdma is False:
        parts.append("no RDMA device")
    if functions := machine.virtual_functions(component):
        parts.append(f"{len(functions)} virtual functions")
    for link in machine.links:
        if component.name in link.ends:
            other = link.ends[link.ends[0] == component.name]
            parts.append(f"{link.kind} x{link.count} {other}")
    return "  ".join(filter(None, parts))


def _print_table(machines: list[Machine]) -> None:
    from fanin_cluster.topology.report import class_counts

    rows = []
    for machine in machines:
        counts = len(machine.gpus), len(machine.nics), len(machine.rdma_nics), *class_counts(machine).values()
        rows.append([Path(machine.source).stem, *map(str, counts)])
    columns = ["file", "GPUs", "NICs", "RDMA", *SHORT]
    print_table("GPUs, NICs, NICs with RDMA, GPUs by the class of their nearest one", columns, rows)
