"""Training over a fabric with bounded staleness: the entry for programs of PyTorch.

model = StaleDataParallel(model, communicator, Adam(1e-3), stale_max=4)
for images, labels in batches:
    loss(model(images), labels).backward()
    model.step()
model.finish()
"""

from __future__ import annotations

from typing import Any

from torch import nn

import fanin
from fanin_train.staleness.checkpoint import Checkpoint
from fanin_train.staleness.flat_parameters import FlatParameters
from fanin_train.staleness.optimisers import Optimiser
from fanin_train.staleness.trainer import BoundedStaleness


class StaleDataParallel(nn.Module):
    """A module whose parameters are trained by all ranks, as DistributedDataParallel but without waiting.

    `optimiser` changes the parameters in the memory of the host; the module may compute on a GPU, and in bfloat16
    (`FlatParameters`). Load and move it before. The other arguments are those of BoundedStaleness. Buffers, as of
    BatchNorm, stay those of each rank.
    """

    def __init__(
        self,
        module: nn.Module,
        communicator: fanin.Communicator,
        optimiser: Optimiser,
        stale_max: int = 4,
        apply: str = "arrived",
        checkpoint: Checkpoint | None = None,
        survive: bool = False,
        joins: bool = False,
    ) -> None:
        super().__init__()
        self.module = module
        self.flat = FlatParameters(module)
        self.trainer = BoundedStaleness(
            communicator, self.flat.values, optimiser, stale_max, apply, checkpoint, survive, joins
        )
        self.flat.give()  # what the others have, or the checkpoint

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def step(self) -> None:
        """After backward(), in the place of the optimiser's step and zero_grad."""
        self.flat.fetch()
        self.trainer.step(self.flat.gradients)
        self.flat.give()
        self.flat.clear()

    def checkpoint(self) -> Checkpoint | None:
        """As BoundedStaleness.checkpoint, without the buffers of the module."""
        made = self.trainer.checkpoint()
        self.flat.give()
        return made

    def admit(self, communicator: fanin.Communicator) -> None:
        """As BoundedStaleness.admit."""
        self.trainer.admit(communicator)
        self.flat.give()

    def finish(self) -> None:
        """Call after the last step: then all ranks have the same parameters."""
        self.trainer.finish()
        self.flat.give()
