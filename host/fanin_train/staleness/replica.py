"""The parameters of one node with their optimiser, and what a training can begin anew from.

Optimisers run on the CPU. A worker computes gradients only; the parameters of a node are one flat array. Each optimiser
computes by numpy in the type of the parameters, in a fixed order: equal gradients give equal bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fanin_train.errors import TrainingError
from fanin_train.staleness.messages import Contribution

State = dict[str, np.ndarray]
PREFIX = "optimiser."


@runtime_checkable
class Optimiser(Protocol):
    """Moves parameters, of shape (count,), in place."""

    def step(self, parameters: np.ndarray, gradient: np.ndarray) -> None:
        """Take one step with the mean gradient of all nodes, of the same shape."""

    def state(self) -> State:
        """A copy of all that the next steps depend on, except the parameters."""

    def load(self, state: State) -> None:
        """Go on from such a copy."""


class SGD:
    """Stochastic gradient descent: v = momentum v + g; w = w - rate v."""

    def __init__(self, rate: float = 0.1, momentum: float = 0.0) -> None:
        _require_rate(rate)
        self.rate, self.momentum = rate, momentum
        self._velocity: np.ndarray | None = None

    def step(self, parameters: np.ndarray, gradient: np.ndarray) -> None:
        rate = parameters.dtype.type(self.rate)
        if self.momentum:
            if self._velocity is None:
                self._velocity = np.zeros_like(parameters)
            self._velocity *= parameters.dtype.type(self.momentum)
            self._velocity += gradient
            gradient = self._velocity
        parameters -= rate * gradient

    def state(self) -> State:
        return {} if self._velocity is None else {"velocity": self._velocity.copy()}

    def load(self, state: State) -> None:
        velocity = state.get("velocity")
        self._velocity = None if velocity is None else velocity.copy()


class Adam:
    """Adam (Kingma and Ba, 2015), algorithm 1."""

    def __init__(self, rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        _require_rate(rate)
        self.rate, self.beta1, self.beta2, self.epsilon = rate, beta1, beta2, epsilon
        self._steps = 0
        self._first: np.ndarray | None = None
        self._second: np.ndarray | None = None

    def step(self, parameters: np.ndarray, gradient: np.ndarray) -> None:
        if self._first is None or self._second is None:
            self._first, self._second = np.zeros_like(parameters), np.zeros_like(parameters)
        of = parameters.dtype.type
        self._steps += 1
        self._first *= of(self.beta1)
        self._first += of(1 - self.beta1) * gradient
        self._second *= of(self.beta2)
        self._second += of(1 - self.beta2) * gradient * gradient
        rate = of(self.rate * np.sqrt(1 - self.beta2**self._steps) / (1 - self.beta1**self._steps))
        parameters -= rate * self._first / (np.sqrt(self._second) + of(self.epsilon))

    def state(self) -> State:
        if self._first is None or self._second is None:
            return {}
        return {"steps": np.array(self._steps), "first": self._first.copy(), "second": self._second.copy()}

    def load(self, state: State) -> None:
        if not state:
            self._steps, self._first, self._second = 0, None, None
            return
        self._steps = int(state["steps"])
        self._first, self._second = state["first"].copy(), state["second"].copy()


def _require_rate(rate: float) -> None:
    if not rate > 0:
        raise TrainingError(f"the learning rate is {rate}", "give a number above 0")


class Content(NamedTuple):
    parameters: np.ndarray
    optimiser: State


class Replica:
    """Parameters, a flat array of floats that is changed in place, and the optimiser that changes them."""

    def __init__(self, parameters: np.ndarray, optimiser: Optimiser) -> None:
        if parameters.ndim != 1 or not np.issubdtype(parameters.dtype, np.floating):
            raise TrainingError(
                f"the parameters are {parameters.dtype} of shape {parameters.shape}",
                "give one flat array of floats, np.concatenate([each.ravel() for each in ...])",
            )
        if not isinstance(optimiser, Optimiser):
            raise TrainingError(
                f"the optimiser is a {type(optimiser).__module__}.{type(optimiser).__name__}",
                "give SGD or Adam of fanin_train.staleness.replica, or one with their methods",
            )
        self.parameters, self.optimiser = parameters, optimiser

    def step(self, contributions: Iterable[Contribution]) -> None:
        """One step with the sum of the gradients, in this order."""
        total: np.ndarray | None = None
        for each in contributions:
            total = each.gradient.astype(self.parameters.dtype) if total is None else total + each.gradient
        if total is not None:
            self.optimiser.step(self.parameters, total)

    def content(self) -> Content:
        return Content(self.parameters.copy(), self.optimiser.state())

    def adopt(self, content: Content, contributions: Iterable[Contribution]) -> None:
        """Become a copy of another replica, and step with the gradients that it lacks."""
        self.parameters[:] = content.parameters
        self.optimiser.load(content.optimiser)
        self.step(contributions)


class Checkpoint(NamedTuple):
    """Contains the gradients of all nodes up to `order`, no others. clock: finished orders at that time, by rank."""

    order: int
    parameters: np.ndarray
    optimiser: State
    clock: dict[int, int]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        target = Path(path)
        partial = target.with_name(f"{target.name}.partial")
        arrays: dict[str, Any] = {f"{PREFIX}{name}": array for name, array in self.optimiser.items()}
        clock = np.array(sorted(self.clock.items()), np.int64)
        with partial.open("wb") as file:
            np.savez(file, order=np.array(self.order), parameters=self.parameters, clock=clock, **arrays)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Raises TrainingError for an invalid file."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            optimiser = {name.removeprefix(PREFIX): arrays[name] for name in arrays if name.startswith(PREFIX)}
            clock = {int(rank): int(order) for rank, order in arrays["clock"]}
            return cls(int(arrays["order"]), arrays["parameters"], optimiser, clock)
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise TrainingError(
                f"{path} is not a checkpoint: {error}", "name a file that Checkpoint.save has written"
            ) from error
