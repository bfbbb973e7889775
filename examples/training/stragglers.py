"""Training with stragglers, synchronous and with bounded staleness, over the same fabric: an ordinary program of Fanin.

    fanin run -n 4 --slots 16 -- python examples/training/stragglers.py            # digits, by numpy
    fanin run -n 4 --slots 16 -- python examples/training/stragglers.py --transformer   # a small one, by PyTorch

Each rank is a node, or a worker of its node. In 5 % of the steps, chosen by a seed, a rank pauses for as long as five
more steps. Both ways have the same pauses, batches and start. Rank 0 prints, for each, the time to the target loss and
the bytes of a step beside an allreduce in a ring, and at the end the ratio of the medians.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import fanin
from fanin_train.staleness.optimisers import SGD, Adam, Optimiser
from fanin_train.staleness.simulation.tasks import task
from fanin_train.staleness.trainer import BoundedStaleness, Traffic

EVERY = 5  # steps between two looks at the loss
Gradient = Callable[[np.ndarray, int, int], np.ndarray]  # parameters, rank, number of the step


class Model(NamedTuple):
    """What is learnt. target: a loss."""

    start: np.ndarray
    gradient: Gradient
    loss: Callable[[np.ndarray], float]
    optimiser: Callable[[], Optimiser]
    target: float


class Outcome(NamedTuple):
    """seconds: to the target loss, inf where it was not reached."""

    seconds: float
    loss: float
    traffic: Traffic
    waited: float


def digits(hidden: int) -> Model:
    """Images of digits, by a network of two layers in numpy."""
    learnt = task("drawn", "mlp")._replace(hidden=hidden)
    return Model(
        learnt.parameters(2),
        lambda parameters, rank, number: learnt.gradient(parameters, learnt.batch(1, rank, number)),
        learnt.loss,
        lambda: SGD(0.3),
        0.9,
    )


def transformer() -> Model:
    """Which of two letters of a text is repeated at its end: a transformer of one layer, in PyTorch on the CPU."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(2)
    letters, length, width = 12, 8, 32

    class Copier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letter, self.place = nn.Embedding(letters, width), nn.Parameter(0.1 * torch.randn(length, width))
            self.layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
            self.out = nn.Linear(width, letters)

        def forward(self, text: torch.Tensor) -> torch.Tensor:
            return self.out(self.layer(self.letter(text) + self.place)[:, -1])

    model = Copier()
    learnt = list(model.parameters())

    def batch(seed: tuple[int, ...], size: int) -> tuple[torch.Tensor, torch.Tensor]:
        text = torch.from_numpy(np.random.default_rng(seed).integers(0, letters, (size, length)))
        return text, text[:, 0]

    def loss_of(parameters: np.ndarray, seed: tuple[int, ...], size: int) -> torch.Tensor:
        nn.utils.vector_to_parameters(torch.from_numpy(parameters.copy()), learnt)
        text, answer = batch(seed, size)
        return nn.functional.cross_entropy(model(text), answer)

    def gradient(parameters: np.ndarray, rank: int, number: int) -> np.ndarray:
        model.zero_grad()
        loss_of(parameters, (1, rank, number), 32).backward()
        return torch.cat([each.grad.flatten() for each in learnt if each.grad is not None]).numpy()

    def loss(parameters: np.ndarray) -> float:
        with torch.no_grad():
            return float(loss_of(parameters, (3,), 512))

    start = nn.utils.parameters_to_vector(learnt).detach().numpy().copy()
    return Model(start, gradient, loss, lambda: Adam(3e-3), 1.0)


def train(
    communicator: fanin.Communicator, model: Model, stale_max: int, seed: int, options: argparse.Namespace
) -> Outcome:
    """One run. The look at the loss is not part of its time, and not of rank 0's alone: all pause for it alike."""
    parameters = model.start.copy()
    trainer = BoundedStaleness(communicator, parameters, model.optimiser(), stale_max)
    pauses = random.Random(f"{seed} {communicator.rank}")
    losses: list[tuple[float, np.ndarray]] = []
    communicator.barrier()
    begin = time.monotonic()
    for number in range(1, options.steps + 1):
        due = time.monotonic() + options.step_ms / 1000  # a step takes this long on every machine
        gradient = model.gradient(parameters, communicator.rank, number)
        if pauses.random() < options.pause or communicator.rank < options.slow:
            due += (options.factor - 1) * options.step_ms / 1000
        time.sleep(max(0.0, due - time.monotonic()))
        trainer.step(gradient)
        if communicator.rank == 0 and number % EVERY == 0:
            losses.append((time.monotonic() - begin, parameters.copy()))
    traffic, waited = trainer.traffic(), trainer.waited
    trainer.finish()
    reached = (seconds for seconds, copy in losses if model.loss(copy) <= model.target)
    return Outcome(next(reached, float("inf")), model.loss(parameters), traffic, waited)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to a target loss, synchronous and with bounded staleness.")
    parser.add_argument("--transformer", action="store_true", help="a small transformer; needs torch")
    parser.add_argument("--hidden", type=int, default=64, help="units of the network for digits")
    parser.add_argument("--stale-max", type=int, default=8)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--step-ms", type=float, default=20.0, help="length of a step; longer than its arithmetic")
    parser.add_argument("--pause", type=float, default=0.05, help="share of the steps that are paused")
    parser.add_argument("--factor", type=float, default=6.0, help="how much longer a paused step is")
    parser.add_argument("--slow", type=int, default=0, help="this many ranks pause in every step")
    parser.add_argument("--runs", type=int, default=3, help="of each way, in turns")
    options = parser.parse_args()
    model = transformer() if options.transformer else digits(options.hidden)
    with fanin.Communicator() as communicator:
        found: dict[int, list[Outcome]] = {0: [], options.stale_max: []}
        for seed in range(options.runs):
            for stale_max, outcomes in found.items():
                outcomes.append(train(communicator, model, stale_max, seed, options))
        if communicator.rank == 0:
            medians = {bound: statistics.median(each.seconds for each in runs) for bound, runs in found.items()}
            for bound, runs in found.items():
                last = runs[-1]
                name = f"stale {bound}" if bound else "synchronous"
                print(
                    f"{name}: {medians[bound]:.2f} s to loss {model.target} (median of {options.runs}), "
                    f"loss {last.loss:.3f} after {options.steps} steps, {last.waited:.2f} s at the bound; "
                    f"bytes a step: {last.traffic.sent} sent, {last.traffic.received} received, "
                    f"{last.traffic.without_switch} sent without a switch; {last.traffic.ring} each way in a ring"
                )
            if max(medians.values()) < float("inf"):
                print(f"ratio: {medians[0] / medians[options.stale_max]:.2f} times faster")
            else:
                print("no ratio: the target was not reached; give more --steps")


if __name__ == "__main__":
    main()
