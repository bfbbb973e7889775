"""Training with stragglers, synchronous and with bounded staleness, over the same fabric: an ordinary program of Fanin.

    fanin run -n 4 --slots 16 -- python examples/training/stragglers.py            # digits, by numpy
    fanin run -n 4 --slots 16 -- python examples/training/stragglers.py --transformer   # a small one, by PyTorch
    fanin run -n 4 --slots 16 -- python examples/training/stragglers.py --local 8   # PyTorch's PostLocalSGD beside it

Ranks of PostLocalSGD find each other by a file: all have to be on one machine.

Each rank is a node, or a worker of its node. In 5 % of the steps, chosen by a seed, a rank pauses as long as five more.
All methods have the same pauses, batches and start. Synchronous training makes an allreduce in each step. Rank 0
prints, for each method, the time to the target loss and the bytes of a step; at the end, the ratio of the medians.
"""

import argparse
import contextlib
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

import fanin
from fanin_train.staleness.replica import SGD, Adam, Optimiser
from fanin_train.staleness.simulation.learning import task
from fanin_train.staleness.trainer import BoundedStaleness
from fanin_train.transfer import share

EVERY = 5  # steps between two looks at the loss
Gradient = Callable[[np.ndarray, int, int], np.ndarray]  # parameters, rank, number of the step


class Model(NamedTuple):
    """target: a loss. rate: of the optimiser, Adam or plain descent."""

    start: np.ndarray
    gradient: Gradient
    loss: Callable[[np.ndarray], float]
    rate: float
    is_adam: bool
    target: float

    def optimiser(self) -> Optimiser:
        return Adam(self.rate) if self.is_adam else SGD(self.rate)


class Outcome(NamedTuple):
    """seconds: to the target loss, inf if it was not reached. step_s: mean length of a step. waited: seconds for other
    ranks. sent, received: bytes of data of a step."""

    seconds: float
    loss: float
    step_s: float
    waited: float
    sent: int
    received: int


class Trainer(Protocol):
    """A method. waited: seconds for other ranks. sent, received: bytes of data of a step."""

    waited: float
    sent: int
    received: int

    def step(self, gradient: np.ndarray) -> None:
        """Take part with this rank's gradient; the parameters change in place."""

    def finish(self) -> None:
        """After the last step."""


class Synchronous:
    """Each step takes the mean of all gradients, by an allreduce in the devices."""

    def __init__(self, communicator: fanin.Communicator, parameters: np.ndarray, model: Model) -> None:
        self.communicator, self.parameters, self.optimiser = communicator, parameters, model.optimiser()
        self.mean = communicator.alloc(parameters.shape, parameters.dtype)
        self.waited = 0.0
        self.sent = self.received = parameters.nbytes

    def step(self, gradient: np.ndarray) -> None:
        self.mean[:] = gradient
        begin = time.monotonic()
        self.communicator.allreduce(self.mean, out=self.mean, op="mean")
        self.waited += time.monotonic() - begin
        self.optimiser.step(self.parameters, self.mean)

    def finish(self) -> None:
        """As Trainer.finish."""


class Stale(BoundedStaleness):
    def __init__(self, communicator: fanin.Communicator, parameters: np.ndarray, model: Model, stale_max: int) -> None:
        super().__init__(communicator, parameters, model.optimiser(), stale_max)
        self.sent, self.received, *_ = self.traffic()


class Local:
    """PyTorch's PostLocalSGD over Gloo: each rank makes `period` steps by itself, then all take the mean."""

    def __init__(self, communicator: fanin.Communicator, parameters: np.ndarray, model: Model, period: int) -> None:
        import torch
        from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        from torch.distributed.optim import PostLocalSGDOptimizer

        self.torch: Any = torch
        self.parameters, self.flat = parameters, torch.nn.Parameter(torch.from_numpy(parameters.copy()))
        kind: Any = torch.optim.Adam if model.is_adam else torch.optim.SGD
        own = kind([self.flat], lr=model.rate)
        own.register_step_post_hook(self._own_step_ends)
        self.optimiser = PostLocalSGDOptimizer(own, PeriodicModelAverager(period, warmup_steps=0))
        self.waited = self._own_step_ended = 0.0
        ring = 2 * (communicator.size - 1) * parameters.nbytes // communicator.size
        self.sent = self.received = ring // period

    def step(self, gradient: np.ndarray) -> None:
        self.flat.grad = self.torch.from_numpy(gradient)
        self.optimiser.step()
        self.waited += time.monotonic() - self._own_step_ended
        self.parameters[:] = self.flat.detach().numpy()  # the averager gives `flat` other memory

    def _own_step_ends(self, *_: object) -> None:
        """The rest of a step belongs to the averager."""
        self._own_step_ended = time.monotonic()

    def finish(self) -> None:
        """As Trainer.finish."""


@contextlib.contextmanager
def process_group(communicator: fanin.Communicator) -> Iterator[None]:
    """PyTorch's, of the same ranks, by Gloo."""
    import torch

    folder = share(communicator, 0, tempfile.mkdtemp() if communicator.rank == 0 else None)
    try:
        place, size = communicator.rank, communicator.size
        torch.distributed.init_process_group("gloo", f"file://{folder}/ranks", rank=place, world_size=size)
        yield
        torch.distributed.destroy_process_group()
        communicator.barrier()  # nobody needs the file now
    finally:
        if communicator.rank == 0:
            shutil.rmtree(folder)


def digits(hidden: int) -> Model:
    """Images of digits, by a network of two layers in numpy."""
    learnt = task("drawn", "mlp")._replace(hidden=hidden)
    return Model(
        learnt.parameters(2),
        lambda parameters, rank, number: learnt.gradient(parameters, learnt.batch(1, rank, number)),
        learnt.loss,
        rate=0.3,
        is_adam=False,
        target=0.9,
    )


def transformer(width: int, layers: int) -> Model:
    """The letter with which a text began, asked at its end: a transformer, in PyTorch on the CPU."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(2)
    letters, length, rows = 12, 8, 32

    class Copier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letter, self.place = nn.Embedding(letters, width), nn.Parameter(0.1 * torch.randn(length, width))
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.out = nn.Linear(width, letters)

        def forward(self, text: torch.Tensor) -> torch.Tensor:
            return self.out(self.layers(self.letter(text) + self.place)[:, -1])

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
        loss_of(parameters, (1, rank, number), rows).backward()
        return torch.cat([each.grad.flatten() for each in learnt if each.grad is not None]).numpy()

    def loss(parameters: np.ndarray) -> float:
        with torch.no_grad():
            return float(loss_of(parameters, (3,), 512))

    start = nn.utils.parameters_to_vector(learnt).detach().numpy().copy()
    return Model(start, gradient, loss, rate=3e-3, is_adam=True, target=1.0)


Way = Callable[[fanin.Communicator, np.ndarray, Model], Trainer]


def train(communicator: fanin.Communicator, model: Model, way: Way, seed: int, options: argparse.Namespace) -> Outcome:
    """One run. The loss is computed after the run, from copies of the parameters."""
    parameters = model.start.copy()
    trainer = way(communicator, parameters, model)
    pauses = random.Random(f"{seed} {communicator.rank}")
    copies: list[tuple[float, np.ndarray]] = []
    communicator.barrier()
    begin = time.monotonic()
    for number in range(1, options.steps + 1):
        due = time.monotonic() + options.step_ms / 1000  # a step takes as long on every machine
        gradient = model.gradient(parameters, communicator.rank, number)
        if pauses.random() < options.pause or communicator.rank < options.slow:
            due += (options.factor - 1) * options.step_ms / 1000
        time.sleep(max(0.0, due - time.monotonic()))
        trainer.step(gradient)
        if communicator.rank == 0 and number % EVERY == 0:
            copies.append((time.monotonic() - begin, parameters.copy()))
    step_s, waited = (time.monotonic() - begin) / options.steps, trainer.waited
    trainer.finish()
    reached = (seconds for seconds, copy in copies if model.loss(copy) <= model.target)
    return Outcome(next(reached, float("inf")), model.loss(parameters), step_s, waited, trainer.sent, trainer.received)


def ways_of(options: argparse.Namespace) -> dict[str, Way]:
    bound, period = options.stale_max, options.local
    ways: dict[str, Way] = {"synchronous": Synchronous, f"stale {bound}": lambda *of: Stale(*of, bound)}
    if period:
        ways[f"PostLocalSGD {period}"] = lambda *of: Local(*of, period)
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to a target loss, synchronous and with bounded staleness.")
    parser.add_argument("--transformer", action="store_true", help="a small transformer; needs torch")
    parser.add_argument("--hidden", type=int, default=64, help="units of the network for digits")
    parser.add_argument("--width", type=int, default=32, help="of the transformer")
    parser.add_argument("--layers", type=int, default=1, help="of the transformer")
    parser.add_argument("--stale-max", type=int, default=8)
    parser.add_argument("--local", type=int, default=0, help="steps between two means of PostLocalSGD; needs torch")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--step-ms", type=float, default=20.0, help="length of a step; longer than its arithmetic")
    parser.add_argument("--pause", type=float, default=0.05, help="share of the steps that are paused")
    parser.add_argument("--factor", type=float, default=6.0, help="how much longer a paused step is")
    parser.add_argument("--slow", type=int, default=0, help="this many ranks pause in every step")
    parser.add_argument("--rate", type=float, help="learning rate")
    parser.add_argument("--target", type=float, help="loss to reach")
    parser.add_argument("--runs", type=int, default=3, help="of each method, in turns")
    options = parser.parse_args()
    model = transformer(options.width, options.layers) if options.transformer else digits(options.hidden)
    model = model._replace(target=options.target or model.target, rate=options.rate or model.rate)
    with fanin.Communicator() as communicator, contextlib.ExitStack() as stack:
        if options.local:
            stack.enter_context(process_group(communicator))
        ways = ways_of(options)
        found: dict[str, list[Outcome]] = {name: [] for name in ways}
        for seed in range(options.runs):
            for name, way in ways.items():
                found[name].append(train(communicator, model, way, seed, options))
        if communicator.rank == 0:
            report(model, found, communicator.size, options)


def report(model: Model, found: dict[str, list[Outcome]], ranks: int, options: argparse.Namespace) -> None:
    medians = {name: statistics.median(each.seconds for each in runs) for name, runs in found.items()}
    for name, runs in found.items():
        is_reached = max(medians[name], medians["synchronous"]) < float("inf")
        faster = (
            f"{medians['synchronous'] / medians[name]:.2f} times as fast as synchronous" if is_reached else "no ratio"
        )
        step_ms = 1000 * statistics.median(each.step_s for each in runs)
        print(
            f"{name}: {medians[name]:.2f} s to loss {model.target} (median of {options.runs}), "
            f"{faster}, {step_ms:.0f} ms a step, loss {runs[-1].loss:.3f} after {options.steps} steps, "
            f"waited {runs[-1].waited:.2f} s; bytes a step: {runs[-1].sent} sent, {runs[-1].received} received"
        )
    size = model.start.nbytes
    print(f"an allreduce in a ring: {2 * (ranks - 1) * size // ranks} bytes a step, sent and received")
    if max(medians.values()) == float("inf"):
        print("no ratio where the target was not reached: give more --steps")


if __name__ == "__main__":
    main()
