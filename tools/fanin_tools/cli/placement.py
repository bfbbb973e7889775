"""`fanin placement`: resource classes of a server, and the class for a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.help import App
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.cli.topology import read
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress

if TYPE_CHECKING:
    from fanin_cluster.placement.classes import ServerClasses
    from fanin_cluster.topology.machine import Machine

app = App(no_args_is_help=True, help="Give the workers of a job GPUs and NICs that fit each other.")


File = Annotated[Path | None, typer.Argument(help="A topology in XML. Default: this machine.", show_default=False)]
Subnets = Annotated[
    list[str] | None, typer.Option("--subnet", metavar="NIC=SUBNET", help="Of each NIC with GPUs: mlx5_0=10.1.0.0/24.")
]
Near = Annotated[str, typer.Option("--affinity", help="numa, or switch: how near a GPU must be to its NIC.")]


@app.command()
@reporting
def classes(
    file: File = None, subnet: Subnets = None, affinity: Near = "numa", json_output: options.Json = False
) -> None:
    """Show the resource classes of a server: pairs of a GPU and a virtual function, by subnet."""
    _, found = classes_of(file, subnet, affinity)
    if json_output:
        print_json(found)
        return
    rows = [[each.name, each.subnet or "-", ", ".join(pair.name for pair in each.pairs)] for each in found.classes]
    print_table("resource classes", ["resource", "subnet", "devices"], rows)
    for nic, count in found.needed.items():
        print_progress(f"{nic} needs {count} virtual functions")
    if found.without_nic:
        print_progress(f"no NIC with RDMA is near enough to {', '.join(found.without_nic)}")
    if found.without_vf:
        print_progress(f"there are too few virtual functions for {', '.join(found.without_vf)}")


def classes_of(file: Path | None, subnet: list[str] | None, affinity: str) -> tuple[Machine, ServerClasses]:
    """From the options of a command. Raises UsageError."""
    from fanin_cluster.placement.classes import Affinity, PlacementInvalid, server_classes

    if affinity not in tuple(Affinity):
        raise UsageError(f"--affinity {affinity} is not known", f"give {' or '.join(Affinity)}")
    subnets = {}
    for each in subnet or []:
        nic, equals, text = each.partition("=")
        if not equals:
            raise UsageError(f"--subnet {each}", "write NIC=SUBNET, as in mlx5_0=10.1.0.0/24")
        if nic in subnets:
            raise UsageError(f"--subnet is given twice for {nic}", "give one subnet for each NIC")
        subnets[nic] = text
    machine = read(file)
    try:
        return machine, server_classes(machine, subnets, Affinity(affinity))
    except PlacementInvalid as error:
        raise UsageError(error.cause, error.remedy) from None


@app.command()
@reporting
def slices(
    node: Annotated[str, typer.Option(help="Name of the node in Kubernetes.")],
    driver: Annotated[str, typer.Option(help="Name of the DRA driver, a DNS name.")] = "fanin",
    file: File = None,
    subnet: Subnets = None,
    affinity: Near = "numa",
) -> None:
    """Print the pairs of a server as objects of Kubernetes' dynamic resource allocation, in JSON."""
    from fanin_cluster.placement.classes import PlacementInvalid
    from fanin_cluster.placement.slices import objects

    machine, found = classes_of(file, subnet, affinity)
    try:
        items = objects(machine, found, node, driver)
    except PlacementInvalid as error:
        raise UsageError(error.cause, error.remedy) from None
    if not any(each.pairs for each in found.classes):
        raise ToolError("NO_RESOURCES", "this server has no pair of a GPU and a NIC", "see fanin placement classes")
    if unmade := [pair.name for each in found.classes for pair in each.pairs if not pair.address]:
        print_progress(
            f"the virtual functions of {', '.join(unmade)} are not made yet, or the source does not show them"
        )
    print_json({"apiVersion": "v1", "kind": "List", "items": items})


@app.command()
@reporting
def choose(
    nodes: Annotated[list[str], typer.Argument(help="Free pairs of each class, node by node: 0,3 1,0 3,2.")],
    workers: Annotated[int, options.count(min=1, help="Workers of the job.")] = 1,
    gpus: Annotated[int, options.count(min=1, help="GPUs of each worker.")] = 1,
    spread: Annotated[bool, options.flag("--spread", help="Each worker on a node of its own.")] = False,
    reading: Annotated[str, typer.Option(help="total, recommended or votes: docs/topology.md.")] = "total",
    json_output: options.Json = False,
) -> None:
    """Show which class a new job is given, and where its workers go."""
    from fanin_cluster.placement.choice import Job, Reading
    from fanin_cluster.placement.choice import choose as chosen
    from fanin_cluster.placement.classes import PlacementInvalid

    if reading not in tuple(Reading):
        raise UsageError(f"--reading {reading} is not known", f"give {', '.join(Reading)}")
    try:
        state = [[int(text) for text in node.split(",")] for node in nodes]
    except ValueError:
        raise UsageError(f"{' '.join(nodes)} are not lists of free pairs", "write 0,3 for each node") from None
    try:
        choice = chosen(state, Job(workers, gpus, spread), Reading(reading))
    except PlacementInvalid as error:
        raise UsageError(error.cause, error.remedy) from None
    if choice is None:
        cause = f"no class has room for {workers} workers with {gpus} GPUs"
        raise ToolError("NO_RESOURCES", cause, "wait for a job to end, or ask for less")
    if json_output:
        print_json(choice)
        return
    rows = [
        [str(each + 1), str(score), "yes" if each in choice.feasible else "no", "*" * (each == choice.resource_class)]
        for each, score in enumerate(choice.scores)
    ]
    print_table(f"classes by {reading}", ["class", "score", "holds the job", "chosen"], rows)
    print(f"workers on each node: {' '.join(map(str, choice.workers))}")
