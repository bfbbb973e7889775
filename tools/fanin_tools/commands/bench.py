"""`fanin bench`: allreduce beside its peers; its subcommands measure more, or parts alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools import options
from fanin_tools.commands import bench_parts, bench_profile
from fanin_tools.errors import UsageError
from fanin_tools.output import print_json, reporting, say

if TYPE_CHECKING:
    from fanin_tools.bench.compare import Comparison
    from fanin_tools.bench.report import Circumstances
    from fanin_tools.bench.setups import Setup

app = typer.Typer(invoke_without_command=True)
bench_parts.add_to(app)
app.command("profile")(bench_profile.profile)

Peers = Annotated[Path, typer.Option(help="Folder of the peers' environments (make bench makes it).")]
Sizes = Annotated[str, typer.Option(help="Bytes of the message, as in 8,4K,1M; else 8 B to --largest.")]
Largest = Annotated[str, typer.Option(help="Largest message.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often each contender has its turn at each size.")]
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Draw it as this picture.")]
Ranks = Annotated[int, typer.Option(min=2, help="Ranks on the node.")]
PEERS = Path(".bench")


@app.callback()
@reporting
def bench(
    context: typer.Context, peers: Peers = PEERS, name: options.Name = "bench", json_output: options.Json = False
) -> None:
    """Allreduce f32 beside its peers, in turns: a short form, on one node and, with root, over namespaces."""
    if context.invoked_subcommand is not None:
        _refuse_before_subcommand(options.given(context), context.invoked_subcommand)
        return
    from fanin_tools.bench import setups

    _measure(setups.short(), setups.SHORT_SIZES, setups.SHORT_ROUNDS, peers, name, json_output)


def _refuse_before_subcommand(given: list[str], subcommand: str) -> None:
    if given:
        cause = f"{', '.join(given)} before {subcommand}, which does not see it"
        raise UsageError(cause, f"write options behind {subcommand}")


@app.command()
@reporting
def local(
    ranks: Ranks = 4,
    sizes: Sizes = "",
    largest: Largest = "256M",
    rounds: Rounds = 5,
    lanes: options.Lanes = 1,
    plot: PlotFile = None,
    peers: Peers = PEERS,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Ranks on one node: registered and ordinary memory, beside the peers' shared memory."""
    from fanin_tools.bench.setups import Setup

    setup = Setup(ranks, lanes=lanes)
    _measure([setup], _sizes(sizes, largest), rounds, peers, name, json_output, {setup: plot} if plot else {})


@app.command()
@reporting
def netns(
    nodes: Annotated[int, typer.Option(min=2, help="Hosts, a namespace and a rank each.")] = 4,
    rate: Annotated[str, typer.Option(help="Shape every link, for example 1gbit.")] = "",
    sizes: Sizes = "",
    largest: Largest = "256M",
    rounds: Rounds = 5,
    lanes: options.Lanes = 1,
    plot: PlotFile = None,
    peers: Peers = PEERS,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Hosts in namespaces, over tree and ring, beside the peers' TCP on the same links. Needs root."""
    from fanin_tools.bench.setups import OVER_NETWORK, Setup

    setup = Setup(nodes, netns=True, rate=rate, lanes=lanes, ways=OVER_NETWORK)
    _measure([setup], _sizes(sizes, largest), rounds, peers, name, json_output, {setup: plot} if plot else {})


@app.command("all")
@reporting
def every(
    into: Annotated[Path, typer.Option(help="Folder for results.md, results.json and a picture of each set-up.")],
    only: Annotated[str, typer.Option(help="Some of the set-ups, by the names of their pictures.")] = "",
    sizes: Sizes = "",
    largest: Largest = "256M",
    rounds: Rounds = 5,
    peers: Peers = PEERS,
    name: options.Name = "bench",
    json_output: options.Json = False,
) -> None:
    """Every set-up of the documentation. Takes half an hour; needs root."""
    from fanin_tools.bench import report
    from fanin_tools.bench.setups import chosen

    setups = chosen(only)
    into.mkdir(parents=True, exist_ok=True)
    plots = {setup: into / f"{setup.name}.png" for setup in setups}
    keep = functools.partial(report.save, folder=into)
    _measure(setups, _sizes(sizes, largest), rounds, peers, name, json_output, plots, keep)


def _sizes(sizes: str, largest: str) -> tuple[int, ...]:
    from fanin_tools.bench import setups
    from fanin_tools.quantities import parse_size

    limit = parse_size(largest)
    return setups.parse_sizes(sizes) if sizes else tuple(size for size in setups.SIZES if size <= limit)


def _measure(
    chosen: Sequence[Setup],
    sizes: Sequence[int],
    rounds: int,
    peers: Path,
    name: str,
    as_json: bool,
    plots: dict[Setup, Path] | None = None,
    keep: Callable[[list[Comparison], Circumstances], None] | None = None,
) -> None:
    """Measure, show, and draw. keep: what is there so far, after each set-up."""
    from fanin_tools.bench import compare, machine, plot, report
    from fanin_tools.bench.peers import installed, versions
    from fanin_tools.bench.progress import steps_of
    from fanin_tools.fabric.borrow import borrowed
    from fanin_tools.fabric.generate import Plan

    if plots:
        plot.require_plot()
    found = []
    others = installed(peers)
    if not others:
        say(f"no peer in {peers}: measuring ours alone (make bench installs them)")
    circumstances = report.Circumstances(machine.describe(), versions(peers))
    turns = sum((len(setup.ways) + len(others)) * len(sizes) * rounds for setup in chosen)
    with steps_of(turns) as steps:
        for setup in chosen:
            with borrowed(Plan(name, setup.shape), say) as running:
                found.append(compare.compare(running, setup, sizes, rounds, peers, steps))
            if plots and setup in plots:
                plot.save(found[-1], plots[setup])
            if keep is not None:
                keep(found, circumstances)
    if as_json:
        print_json(report.as_dict(found, circumstances))
    else:
        report.show(found)
