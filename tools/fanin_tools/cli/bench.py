"""`fanin bench`: allreduce beside its peers. Subcommands measure other set-ups, or parts of the data path alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import bench_parts, bench_profile, bench_program, files, options
from fanin_tools.cli.help import App
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress
from fanin_wire.installation import make_command

if TYPE_CHECKING:
    from fanin_tools.bench.compare import Comparison
    from fanin_tools.bench.contenders import Contender
    from fanin_tools.bench.report import Circumstances
    from fanin_tools.bench.setups import Setup

app = App(invoke_without_command=True)
bench_parts.add_to(app)
app.command("profile")(bench_profile.profile)
app.command("program")(bench_program.program)

Peers = Annotated[Path, files.folder_to_read("The peers' environments (make bench makes it).")]
Sizes = Annotated[str, typer.Option(help="Message sizes, as in 8,4K,1M. Default: 8 B to --largest.")]
Largest = Annotated[str, typer.Option(help="Largest message.")]
Rounds = Annotated[int, options.count(min=1, help="Turns of each contender at each size.")]
PlotFile = Annotated[Path | None, files.output_file("--plot", help="Draw the result as this picture.")]
Ranks = Annotated[int, typer.Option(min=2, max=options.MAX_CHILDREN, help="Ranks on the node.")]
Contenders = Annotated[str, typer.Option(help="Only these, as in fanin,open-mpi,open-mpi-with-fanin. Default: all.")]
PEERS = Path(".bench")


@app.callback()
@reporting
def bench(
    context: typer.Context,
    contenders: Contenders = "",
    peers: Peers = PEERS,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Allreduce f32 beside its peers, in turns: a short form, on one node and, with root, over namespaces."""
    if context.invoked_subcommand is not None:
        _refuse_before_subcommand(options.given(context), context.invoked_subcommand)
        return
    from fanin_tools.bench import setups

    _measure(setups.short(), setups.SHORT_SIZES, setups.SHORT_ROUNDS, peers, contenders, name, json_output)


def _refuse_before_subcommand(given: list[str], subcommand: str) -> None:
    if given:
        cause = f"{', '.join(given)} stands before {subcommand}, which does not see it"
        raise UsageError(cause, f"write options after {subcommand}")


@app.command()
@reporting
def local(
    ranks: Ranks = 4,
    sizes: Sizes = "",
    largest: Largest = "256M",
    rounds: Rounds = 5,
    lanes: options.Lanes = None,
    bind_to: options.BindTo = "core",
    plot: PlotFile = None,
    contenders: Contenders = "",
    peers: Peers = PEERS,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Ranks on one node: registered and ordinary memory, beside the peers' shared memory."""
    from fanin_tools.bench.setups import Setup
    from fanin_tools.launch import core_binding

    core_binding.check(bind_to)
    setup = Setup(ranks, lanes=lanes, bound=bind_to == "core")
    _measure(
        [setup], _sizes(sizes, largest), rounds, peers, contenders, name, json_output, {setup: plot} if plot else {}
    )


@app.command()
@reporting
def netns(
    nodes: Annotated[
        int, typer.Option(min=2, max=options.MAX_CHILDREN, help="Hosts, a namespace and a rank each.")
    ] = 4,
    rate: Annotated[str, typer.Option(help="Shape every link, for example 1gbit.")] = "",
    multicast: options.Multicast = True,
    sizes: Sizes = "",
    largest: Largest = "256M",
    rounds: Rounds = 5,
    lanes: options.Lanes = None,
    plot: PlotFile = None,
    contenders: Contenders = "",
    peers: Peers = PEERS,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Hosts in namespaces, over tree and ring, beside the peers' TCP on the same links. Needs root."""
    from fanin_tools.bench.setups import OVER_NETWORK, Setup

    setup = Setup(nodes, netns=True, rate=rate, lanes=lanes, variants=OVER_NETWORK, multicast=multicast)
    _measure(
        [setup], _sizes(sizes, largest), rounds, peers, contenders, name, json_output, {setup: plot} if plot else {}
    )


@app.command("all")
@reporting
def every(
    into: Annotated[Path, files.output_folder(help="For results.md, results.json and a picture of each set-up.")],
    only: Annotated[str, typer.Option(help="Only these set-ups, by the names of their pictures.")] = "",
    sizes: Sizes = "",
    largest: Largest = "256M",
    rounds: Rounds = 5,
    contenders: Contenders = "",
    peers: Peers = PEERS,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Every set-up of the documentation. Takes a quarter of an hour; needs root."""
    from fanin_tools.bench import report
    from fanin_tools.bench.setups import chosen

    setups = chosen(only)
    _make_folder(into)
    plots = {setup: into / f"{setup.name}.png" for setup in setups}
    keep = functools.partial(report.save, folder=into)
    _measure(setups, _sizes(sizes, largest), rounds, peers, contenders, name, json_output, plots, keep)


def _sizes(sizes: str, largest: str) -> tuple[int, ...]:
    from fanin_tools.bench import setups
    from fanin_tools.quantities import parse_size

    if sizes:
        return setups.parse_sizes(sizes)
    limit = parse_size(largest)
    if limit < setups.SIZES[0]:
        raise UsageError(
            f"messages of up to {largest} are too short to be measured", f"use --largest {setups.SIZES[0]} or more"
        )
    return tuple(size for size in setups.SIZES if size <= limit)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--into {path}: {error.strerror}", "name a folder that exists or can be made") from error


def _measure(
    chosen: Sequence[Setup],
    sizes: Sequence[int],
    rounds: int,
    peers: Path,
    contenders: str,
    name: str,
    as_json: bool,
    plots: dict[Setup, Path] | None = None,
    keep: Callable[[list[Comparison], Circumstances], None] | None = None,
) -> None:
    """Measure one set-up after the other. Each is drawn, saved and shown at once, in case a later one fails. keep:
    called after each set-up with all comparisons so far."""
    from fanin_tools.bench import compare, machine, plot, report
    from fanin_tools.bench.contenders import contenders as select_contenders
    from fanin_tools.bench.peers import installed, versions

    if plots:
        plot.require_plot(plots.values())
    if not installed(peers):
        print_progress(f"no peer in {peers}: measuring ours alone; {make_command('peers')} installs them")
    circumstances = report.Circumstances(machine.describe(), versions(peers))
    names = contenders.split(",") if contenders else []
    present = {setup: select_contenders(setup, peers, names) for setup in chosen}
    sizes_that_fit = {
        setup: compare.sizes_that_fit(sizes, setup.ranks * len(present[setup]), print_progress) for setup in chosen
    }
    found = []
    for setup in chosen:
        found.append(_compare(setup, present[setup], sizes_that_fit[setup], rounds, name))
        if plots and setup in plots:
            plot.save(found[-1], plots[setup])
        if keep is not None:
            keep(found, circumstances)
        if not as_json:
            report.show(found[-1])
    if as_json:
        print_json(report.as_dict(found, circumstances))


def _compare(setup: Setup, present: Sequence[Contender], sizes: Sequence[int], rounds: int, name: str) -> Comparison:
    from fanin_tools.bench import compare
    from fanin_tools.bench.progress import steps_of
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import leased

    turns = len(present) * len(sizes) * rounds
    with steps_of(turns, print_progress) as steps, leased(Plan(name, setup.shape), steps.note) as running:
        return compare.compare(running, setup, present, sizes, rounds, steps)
