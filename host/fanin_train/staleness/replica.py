"""The parameters of one node with their optimiser: what the actions Step and Adopt do."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fanin_train.errors import TrainingError
from fanin_train.staleness.messages import Contribution
from fanin_train.staleness.optimisers import Optimiser, State


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
                "give SGD or Adam of fanin_train.staleness.optimisers, or one with their methods",
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
