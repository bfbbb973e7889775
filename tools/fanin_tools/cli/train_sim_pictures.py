"""The pictures of `fanin train-sim`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from fanin_train.staleness.simulation.comparison import Outcome

if TYPE_CHECKING:
    from fanin_train.staleness.simulation.scenario import Scenario

SHOWN_S = 12.0  # of a timeline
KINDS = {True: ("computes", "tab:blue"), False: ("waits for others", "tab:orange")}


def draw_losses(outcomes: Sequence[Outcome], target: float, path: Path) -> None:
    """Against time, and against samples. A dot is the end of a run."""
    figure, sides = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    for outcome in outcomes:
        losses = [point.loss for point in outcome.points]
        for side, places in zip(
            sides,
            ([point.time for point in outcome.points], [point.samples / 1000 for point in outcome.points]),
            strict=True,
        ):
            side.plot(places, losses, linewidth=1.2, marker="o", markersize=4, markevery=[-1], label=outcome.method)
    for side, title, label in zip(
        sides,
        ("at equal time", "after equally many samples"),
        ("seconds", "thousand samples of all nodes"),
        strict=True,
    ):
        side.axhline(target, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
        side.set_title(title, fontsize=10, loc="left")
        side.set_xlabel(label)
        side.set_xlim(left=0)
    sides[0].set_ylabel("loss on images held out")
    right = sides[1].get_yaxis_transform()  # x from 0 to 1 across the picture, y in losses
    sides[1].text(0.01, target, f"target {target:g}", transform=right, ha="left", va="bottom", color="0.4", fontsize=9)
    sides[0].legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_timeline(outcomes: Sequence[Outcome], scenario: Scenario, path: Path) -> None:
    """When each node computes or waits: in the first seconds, or around the first death."""
    deaths = scenario.events.deaths
    begin = max(0.0, min(deaths.values(), default=0.0) - SHOWN_S / 2)
    end = min(begin + SHOWN_S, scenario.duration)
    height = 0.8 + 0.2 * scenario.nodes
    figure, sides = plt.subplots(
        len(outcomes), 1, figsize=(11, 0.6 + height * len(outcomes)), sharex=True, layout="constrained"
    )
    for side, outcome in zip(sides, outcomes, strict=True):
        for each in outcome.intervals:
            if each.begin < end and each.end > begin:
                span = [(each.begin, each.end - each.begin)]
                color = KINDS[each.computing][1]
                side.broken_barh(span, (each.rank - 0.4, 0.8), facecolors=color, edgecolor="white", linewidth=0.4)
        for rank, at in deaths.items():
            side.plot(at, rank, marker="x", color="black", markersize=7, markeredgewidth=2)
            side.annotate("dies", (at, rank), xytext=(8, 0), textcoords="offset points", va="center", fontsize=9)
        side.set_title(outcome.method, fontsize=10, loc="left")
        side.set_ylabel("node")
        side.set_yticks(range(0, scenario.nodes, 1 + scenario.nodes // 16))
        side.set_ylim(scenario.nodes - 0.4, -0.6)
        side.set_xlim(begin, end)
    sides[-1].set_xlabel("seconds; each block is an iteration, or a wait")
    figure.legend(
        handles=[Patch(color=color, label=label) for label, color in KINDS.values()],
        loc="outside upper right",
        ncols=len(KINDS),
        frameon=False,
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)
