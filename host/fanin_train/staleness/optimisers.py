"""Optimisers on the CPU. A worker computes gradients only; the parameters of a node are one flat array.

Each computes by numpy in the type of the parameters, in a fixed order: equal gradients give equal bits.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from fanin_train.errors import TrainingError

State = dict[str, np.ndarray]


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
