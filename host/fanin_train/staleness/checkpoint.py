"""A start for training: parameters that contain all gradients up to an order, and the vector clock."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fanin_train.errors import TrainingError
from fanin_train.staleness.optimisers import State

PREFIX = "optimiser."


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
