"""The pictures of `fanin train-sim`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from fanin_train.staleness.simulation.comparison import Outcome

SHOWN_S = 12.0  # of a timeline


def draw_losses(outcomes: Sequence[Outcome], target: float, path: Path) -> None:
    """Losses against time, and against samples."""
    figure, sides = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    for outcome in outcomes:
        losses = [point.loss for point in outcome.points]
        sides[0].plot([point.time for point in outcome.points], losses, label=outcome.method)
        sides[1].plot([point.samples / 1000 for point in outcome.points], losses)
    for side, label in zip(sides, ("seconds", "thousand samples"), strict=True):
        side.axhline(target, color="0.7", linewidth=0.8, linestyle=":")
        side.set_xlabel(label)
    sides[0].set_ylabel("loss, held out")
    sides[0].legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_timeline(outcomes: Sequence[Outcome], nodes: int, path: Path) -> None:
    """When each node computed, and when it waited."""
    figure, sides = plt.subplots(len(outcomes), 1, figsize=(11, 2.4 * len(outcomes)), sharex=True, layout="constrained")
    for side, outcome in zip(sides, outcomes, strict=True):
        for computing, color in ((True, "tab:blue"), (False, "tab:orange")):
            for rank in range(nodes):
                spans = [
                    (each.begin, each.end - each.begin)
                    for each in outcome.intervals
                    if each.rank == rank and each.computing is computing and each.begin < SHOWN_S
                ]
                side.broken_barh(spans, (rank - 0.4, 0.8), facecolors=color, edgecolor="white", linewidth=0.4)
        side.set_title(f"{outcome.method}: computing (blue), waiting (orange)", fontsize=10, loc="left")
        side.set_ylabel("node")
        side.set_xlim(0, SHOWN_S)
    sides[-1].set_xlabel("seconds")
    figure.savefig(path, dpi=110)
    plt.close(figure)
