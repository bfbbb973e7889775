"""`fanin run -n N -- PROGRAM ARGUMENTS`, for programs of Fanin and, with `--mpi`, of MPI."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanin_tools.cli import options
from fanin_tools.cli.fabric import DEFAULT_NODES, FabricOptions
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress
from fanin_wire.limits import DEFAULT_DETECTION, DEFAULT_JOB_SLOTS

if TYPE_CHECKING:
    from fanin_tools.fabric.description import Fabric
    from fanin_tools.fabric.generate import Plan

NameOfRun = Annotated[
    str,
    typer.Option(
        "--name",
        "--fabric",
        help="Name of the fabric. Default: the one called default if it is up, else one for this run.",
        show_default=False,
    ),
]
# Options that go with --mpi.
OF_MPI = ("command", "ranks", "name", "route", "detection", "mpi", "mpirun", "json_output")


@reporting
def run(
    context: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENTS]...", show_default=False)],
    ranks: Annotated[int, options.ranks(1)] = 1,
    name: NameOfRun = "default",
    route: options.Route = "auto",
    reproducible: options.Reproducible = "none",
    wide: options.Wide = False,
    detection: options.Detection = DEFAULT_DETECTION,
    slots: options.Slots = DEFAULT_JOB_SLOTS,
    prefix: Annotated[bool, options.flag("--prefix", help="Put the rank before every line of output.")] = False,
    keep_going: Annotated[
        bool, options.flag("--keep-going", help="Do not end the other ranks after a failure.")
    ] = False,
    bind_to: options.BindTo = "none",
    mpi: Annotated[bool, options.flag("--mpi", help="PROGRAM uses MPI; mpirun starts it with the shim.")] = False,
    mpirun: Annotated[str, typer.Option(help="Launcher of --mpi, with its options.")] = "mpirun",
    pyverbs: Annotated[
        bool,
        options.flag("--pyverbs", help="PROGRAM imports pyverbs: let it find the system's (Debian: python3-pyverbs)."),
    ] = False,
    json_output: Annotated[
        bool, options.flag("--json", help="Print the result as JSON; the output of PROGRAM goes to the error output.")
    ] = False,
) -> None:
    """Run PROGRAM once for each rank on the local fabric. Brings a fabric up for the run if none is up."""
    from fanin_tools.fabric.lease import leased
    from fanin_tools.launch import core_binding, launcher
    from fanin_tools.launch import mpirun as mpi_launcher
    from fanin_tools.launch import pyverbs as system_pyverbs
    from fanin_tools.launch.placement import check_route, place

    check_route(route)
    _refuse_remote_devices()
    settings = options.job_settings(slots, reproducible, wide)
    core_binding.check(bind_to)
    if mpi:
        _refuse_beside_mpi(options.given(context, *OF_MPI))
        mpi_launcher.launcher_words(mpirun)
        launcher.require_program(command[0])
    else:
        _refuse_without_mpi(options.given(context, *(set(context.params) - {"mpirun"})))
        launcher.require_program(command[0])
        if ranks > 1 and (library := launcher.mpi_library_of(command[0])):
            print_progress(f"fanin: {command[0]} needs {library}: without --mpi each rank is a world of its own")
    is_named = "--name" in options.given(context)
    spread = not mpi or route != "auto"  # several NICs on one machine would be slower than the MPI
    with (
        system_pyverbs.added(command) if pyverbs else contextlib.nullcontext(command) as words,
        leased(fabric_of_run(name, is_named, ranks, route, detection, spread), print_progress) as running,
    ):
        placement = place(running.fabric, ranks, route)
        output = launcher.Output(prefix, to_errors=json_output)
        shown: dict[str, Any] = {"ranks": ranks, "nodes": len(placement.nics), "route": placement.route}
        if mpi:
            code = mpi_launcher.launch(running, placement, mpirun, command, output)
            failed = f"{mpirun} ended with exit code {code}" if code else ""
        else:
            bound = bind_to == "core"
            outcome = launcher.launch(
                running, placement, words, settings, output=output, keep_going=keep_going, bound=bound
            )
            code, shown["failed_rank"] = outcome.exit_code, outcome.failed_rank
            failed = "" if outcome.failed_rank is None else str(outcome)
    if failed:
        remedy = mpi_launcher.remedy_of_failure(mpirun) if mpi else "see its error output above"
        if not mpi and launcher.lacks_fanin(command):
            remedy += f"; {command[0]} has no fanin: activate its environment, or give the path: {sys.executable}"
        failure = ToolError("PROGRAM_FAILED", failed, remedy)
        print_progress(f"fanin: {failure}")
        shown["error"] = failure.as_dict()
    if json_output:
        print_json({"exit_code": code, **shown})
    raise typer.Exit(code)


def _refuse_remote_devices() -> None:
    """The ranks would run on, and use, devices of this host, whatever FANIN_SOCKET says."""
    from fanin_tools.fabric.tree import remote_addresses

    if addresses := remote_addresses(os.environ.get("FANIN_SOCKET", "")):
        cause = f"FANIN_SOCKET is {addresses[0]}, and fanin run starts ranks on devices of this host alone"
        remedy = "start an MPI program with mpirun and LD_PRELOAD=$(fanin mpi-lib) (docs/bluefield.md); or unset it"
        raise UsageError(cause, remedy, "NOT_SUPPORTED")


def _refuse_beside_mpi(given: list[str]) -> None:
    if given:
        cause = f"{', '.join(given)} can not be used with --mpi, where the shim makes the jobs and mpirun the ranks"
        raise UsageError(cause, "leave it out; FANIN_MPI_SLOTS and other variables set what the shim can: docs/mpi.md")


def _refuse_without_mpi(given: list[str]) -> None:
    if given:
        raise UsageError(f"{', '.join(given)} can not be used without --mpi", "add --mpi, or leave it out")


def fabric_of_run(
    name: str, is_named: bool, ranks: int, route: str, detection: float, spread: bool = True
) -> Fabric | Plan:
    """The fabric that is up, with its own detection time; else a plan with room for the ranks, for this run alone
    unless the user named the fabric. spread: over several nodes, not as few as have room."""
    from fanin_tools.fabric import lifecycle
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import private_name
    from fanin_wire.abi import MAX_CHILDREN

    present = lifecycle.find(name)
    if present is not None and (is_named or present.state.leaseholders is None):
        return present.fabric
    fewest = 1 if route == "local" else -(-ranks // MAX_CHILDREN)
    nodes = min(DEFAULT_NODES, ranks if spread and route != "local" else fewest)
    if ranks > nodes * MAX_CHILDREN:
        cause = f"{ranks} ranks do not fit on the {nodes} nodes that a run brings up, which take {MAX_CHILDREN} each"
        larger = "bring a fabric up: fanin fabric up --nodes 32 --ranks-per-node 64"
        remedy = f"start fewer, or {'use another --route' if route == 'local' else larger}"
        raise UsageError(cause, remedy, name="NO_RESOURCES")
    shape = FabricOptions(nodes, -(-ranks // nodes), detection=detection).shape()
    return Plan(name if is_named else private_name(), shape)
