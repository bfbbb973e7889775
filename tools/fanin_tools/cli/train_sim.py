"""`fanin train-sim`: ways to train with stragglers, in virtual time."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import files, options
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress
from fanin_wire.installation import install_command

if TYPE_CHECKING:
    from fanin_train.staleness.simulation.comparison import Comparison, Outcome
    from fanin_train.staleness.simulation.scenario import Scenario


@reporting
def train_sim(
    nodes: Annotated[int, typer.Option(min=2, max=63, help="Nodes that train.")] = 8,
    stale: Annotated[str, typer.Option(help="Bounds to compare, as in 4,8,16.")] = "4,8,16",
    local_steps: Annotated[int, options.count(min=1, help="Steps of local SGD between two means.")] = 8,
    seconds: Annotated[float, options.seconds(min=1.0, help="Duration, in virtual time.")] = 60.0,
    compute: Annotated[float, options.seconds(min=0.001, help="Seconds of one iteration.")] = 0.1,
    latency: Annotated[float, options.seconds(help="Seconds of a message, one way.")] = 0.02,
    transfer: Annotated[
        float, options.seconds(min=0.0, help="Seconds in which a gradient passes a link; an allreduce takes as long.")
    ] = 0.0,
    pause: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the iterations that are paused.")] = 0.05,
    factor: Annotated[float, options.count(min=1.0, help="How much longer a paused iteration takes.")] = 6.0,
    slow: Annotated[int, typer.Option(min=0, max=62, help="Nodes whose iterations all take three times as long.")] = 0,
    death: Annotated[float, options.seconds(help="Second in which node 1 dies; 0: never.")] = 0.0,
    data: Annotated[str, typer.Option(help="drawn, or digits: those of scikit-learn.")] = "drawn",
    model: Annotated[str, typer.Option(help="softmax or mlp.")] = "mlp",
    rate: Annotated[float, typer.Option(min=0.0, max=1000.0, help="Learning rate.")] = 0.3,
    target: Annotated[float, typer.Option(min=0.0, max=1000.0, help="Loss to reach; its time is shown.")] = 1.0,
    seed: options.Seed = 1,
    forms: Annotated[
        bool, options.flag("--forms", help="Instead: the forms of the protocol, from the document to the repaired one.")
    ] = False,
    pictures: Annotated[
        Path | None, files.output_folder(help="Folder for losses.png and timeline.png; needs matplotlib.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Compare synchronous training, bounded staleness, no bound, and local SGD: losses at equal time and samples."""
    from fanin_train.errors import TrainingError
    from fanin_train.staleness.replica import SGD
    from fanin_train.staleness.simulation.comparison import Comparison
    from fanin_train.staleness.simulation.learning import task
    from fanin_train.staleness.simulation.scenario import Events, Network, Pauses, Scenario

    if pictures is not None:
        _require_matplotlib()
    if not all(text.strip().isdecimal() for text in stale.split(",")):
        raise UsageError(f"--stale {stale}", "write whole numbers from 0 on, as in 4,8,16")
    bounds = [int(text) for text in stale.split(",")]
    try:
        if death >= seconds:
            raise UsageError(
                f"--death {death} is not within {seconds} seconds", "give an earlier one, or more --seconds"
            )
        if slow >= nodes:
            raise UsageError(
                f"--slow {slow} leaves none of {nodes} nodes that is not slow", "leave one that is not slow"
            )
        pauses = Pauses(pause, factor, tuple(range(nodes - slow, nodes)))
        events = Events({1: death} if death else {})
        scenario = Scenario(nodes, compute, Network(latency, transfer), pauses, events, seconds, seed=seed)
        if forms:
            _print_forms(scenario, bounds[0], json_output)
            return
        comparison = Comparison(scenario, task(data, model), lambda: SGD(rate), every=seconds / 120)
        outcomes = _outcomes(comparison, bounds, local_steps)
    except TrainingError as error:
        raise UsageError(error.cause, error.remedy) from None
    if pictures is not None:
        _draw(pictures, outcomes, scenario, target)
    if json_output:
        print_json([{"method": each.method, "points": each.points, "iterations": each.iterations} for each in outcomes])
    else:
        _print_outcomes(outcomes, target)


def _outcomes(comparison: Comparison, bounds: list[int], local_steps: int) -> list[Outcome]:
    found = []
    runs = [
        comparison.synchronous,
        *(lambda bound=bound: comparison.bounded(bound) for bound in bounds),
        comparison.asynchronous,
        lambda: comparison.local_descent(local_steps),
    ]
    for number, run in enumerate(runs, start=1):
        print_progress(f"simulating method {number} of {len(runs)} ...")
        found.append(run())
    return found


def _print_outcomes(outcomes: list[Outcome], target: float) -> None:
    first = outcomes[0]
    end = min(each.points[-1].time for each in outcomes)
    samples = min(each.points[-1].samples for each in outcomes)
    to_target = first.time_to(target)
    rows = []
    for each in outcomes:
        time = each.time_to(target)
        faster = f"{to_target / time:.2f}" if time and to_target else "-"
        rows.append(
            [
                each.method,
                f"{each.iterations}",
                f"{each.loss_at(end):.3f}",
                f"{each.loss_after(samples):.3f}",
                "never" if time is None else f"{time:.1f} s",
                faster,
                f"{each.bytes_sent / first.bytes_sent:.2f}",
                f"{each.bytes_without / first.bytes_sent:.2f}",
            ]
        )
    columns = ["method", "steps", f"loss at\n{end:.0f} s", f"loss at\n{samples}\nsamples", f"to loss\n{target}"]
    columns += ["times\nfaster", "bytes\nsent", "without\nswitch"]
    print_table("training with stragglers; bytes of a step, an allreduce in a ring being 1", columns, rows)


def _print_forms(scenario: Scenario, stale_max: int, json_output: bool) -> None:
    from dataclasses import replace

    from fanin_train.staleness.messages import forms
    from fanin_train.staleness.simulation.cluster import Cluster
    from fanin_train.staleness.simulation.scenario import Network, Pauses

    rows = []
    found = forms(stale_max)
    for number, (name, rules) in enumerate(found.items(), start=1):
        print_progress(f"simulating form {number} of {len(found)} ...")
        counts = []
        for jitter in (0.0, 0.25):
            network = Network(scenario.network.latency, jitter=jitter)
            cluster = Cluster(replace(scenario, network=network, pauses=Pauses()), rules)
            cluster.run()
            parts = [node.synchronisation for node in cluster.nodes.values()]
            counts += [cluster.iterations, sum(part.completed for part in parts), sum(part.refused for part in parts)]
        rows.append([name, *map(str, counts)])
    columns = ["form", "iterations", "completed", "refusals", "random latency: iterations", "completed", "refusals"]
    if json_output:
        print_json(
            [
                dict(zip(["form", *columns[1:4], *(f"random {c}" for c in columns[1:4])], row, strict=True))
                for row in rows
            ]
        )
    else:
        print_table(f"{scenario.nodes} nodes, bound {stale_max}, {scenario.duration:.0f} s", columns, rows)


def _require_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        remedy = f"{install_command('plot')}, or leave out --pictures"
        raise ToolError("NOT_SUPPORTED", "pictures need matplotlib", remedy)


def _draw(folder: Path, outcomes: list[Outcome], scenario: Scenario, target: float) -> None:
    from fanin_tools.cli.train_sim_pictures import draw_losses, draw_timeline

    try:
        folder.mkdir(parents=True, exist_ok=True)
        draw_losses(outcomes, target, folder / "losses.png")
        draw_timeline(outcomes[:2], scenario, folder / "timeline.png")
    except OSError as error:
        raise UsageError(f"--pictures {folder}: {error.strerror}", "name a folder that can be written") from None
    print_progress(f"pictures in {folder}: losses.png, timeline.png")
