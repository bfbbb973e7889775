"""The models of trainees: a linear one in numpy, and a network of PyTorch with dropout and Adam."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

FEATURES, ROWS = 200, 8


class Model(Protocol):
    """A model and its optimiser. steady: as of Training."""

    steady: tuple[str, ...]

    def parts(self) -> dict[str, Any]:
        """The state of the training, by name; "model" is loaded first."""

    def gradient(self, draw: np.random.Generator) -> np.ndarray:
        """Of the loss on a random batch; the loss is its last element."""

    def update(self, gradient: np.ndarray) -> None:
        """A step of the optimiser."""


class Linear:
    """A linear model with momentum, as torch's modules and optimisers keep their state."""

    rate, momentum, noise = 0.01, 0.9, 0.05
    steady = ("model",)

    def __init__(self, on_load: Callable[[], None]) -> None:
        self.weights, self.velocity = np.zeros(FEATURES), np.zeros(FEATURES)
        self.random = np.random.default_rng(5)
        self._on_load = on_load

    def parts(self) -> dict[str, Any]:
        return {"model": self, "random": self.random}

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights, "velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._on_load()
        self.weights[:], self.velocity[:] = state["weights"], state["velocity"]

    def gradient(self, draw: np.random.Generator) -> np.ndarray:
        """The gradient with noise on the weights, like dropout, drawn before the collective."""
        inputs = draw.standard_normal((ROWS, FEATURES))
        targets = inputs @ np.arange(FEATURES) / FEATURES
        errors = inputs @ (self.weights + self.random.standard_normal(FEATURES) * self.noise) - targets
        return np.append(errors @ inputs / ROWS, (errors**2).mean())

    def update(self, gradient: np.ndarray) -> None:
        self.velocity *= self.momentum
        self.velocity += gradient
        self.weights -= self.rate * self.velocity
