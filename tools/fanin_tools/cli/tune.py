"""`fanin tune`: measures which collectives of MPI programs are faster on the devices, and keeps the answer."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from fanin_tools.cli import files, options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.cli.run import fabric_of_run
from fanin_tools.progress import activity, print_progress
from fanin_wire.limits import DEFAULT_DETECTION


@reporting
def tune(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PROGRAM [ARGUMENTS]...]", show_default=False)
    ] = None,
    ranks: Annotated[int, options.ranks(2)] = 4,
    name: options.Name = "default",
    route: options.Route = "local",
    mpirun: Annotated[str, typer.Option(help="Launcher of the MPI, with its options.")] = "mpirun",
    output: Annotated[Path | None, files.output_file(help="The result. Default: the file that the shim reads.")] = None,
    json_output: options.Json = False,
) -> None:
    """Measure each collective of an MPI beside the devices, in a minute or two, and keep what is worth offloading.

    PROGRAM is any program of that MPI, which measures in MPI_Init. Without it, mpicc compiles one.
    """
    from fanin_tools.fabric.lease import leased
    from fanin_tools.launch import mpirun as mpi_launcher
    from fanin_tools.launch import tuning
    from fanin_tools.launch.placement import check_route, place

    check_route(route)
    mpi_launcher.launcher_words(mpirun)
    path = output or tuning.tuned_file()
    is_named = "--name" in options.given(context)
    with tempfile.TemporaryDirectory(prefix="fanin-tune-") as folder:
        program = command or [str(tuning.build(mpirun, Path(folder)))]
        plan = fabric_of_run(name, is_named, ranks, route, DEFAULT_DETECTION, spread=route != "auto")
        with leased(plan, print_progress) as running:
            placement = place(running.fabric, ranks, route)
            with activity("measuring each collective", print_progress) as measuring:
                found = tuning.measure(running, placement, mpirun, program, Path(folder), measuring.update)
    if json_output:
        print_json({"file": str(path), "thresholds": found})
    else:
        typer.echo("\n".join(f"{head}: {thresholds}" for head, thresholds in found.items()))
    tuning.save(found, path)
    print_progress(f"kept in {path}")
