"""Training over a fabric with bounded staleness: the front door for programs of PyTorch.

model = StaleDataParallel(model, communicator, Adam(1e-3), stale_max=4)
for images, labels in batches:
    loss(model(images), labels).backward()
    model.step()
model.finish()
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import fanin
from fanin_train.errors import TrainingError
from fanin_train.staleness.checkpoint import Checkpoint
from fanin_train.staleness.optimisers import Optimiser
from fanin_train.staleness.trainer import BoundedStaleness


class StaleDataParallel(nn.Module):
    """A module whose parameters are trained by all ranks, as DistributedDataParallel but without waiting.

    The parameters become parts of one flat array in the memory of the host, which `optimiser` changes there; their
    gradients are summed into another one. module: with all its parameters in float32, on the CPU. The other arguments
    are those of BoundedStaleness. Buffers, as of BatchNorm, stay those of each rank.
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
        learnt = [each for each in module.parameters() if each.requires_grad]
        others = {f"{each.dtype} on {each.device}" for each in learnt} - {"torch.float32 on cpu"}
        if others or not learnt:
            raise TrainingError(
                f"the parameters are {', '.join(sorted(others)) or 'none'}", "give a module with float32 on the CPU"
            )
        count = sum(each.numel() for each in learnt)
        self.flat, self.gradient = np.empty(count, np.float32), np.zeros(count, np.float32)
        begin = 0
        for each in learnt:
            place = slice(begin, begin + each.numel())
            part = torch.from_numpy(self.flat[place]).view_as(each)
            part.copy_(each.data)
            each.data, each.grad = part, torch.from_numpy(self.gradient[place]).view_as(each)
            begin = place.stop
        self.trainer = BoundedStaleness(
            communicator, self.flat, optimiser, stale_max, apply, checkpoint, survive, joins
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As of the module."""
        return self.module(*args, **kwargs)

    def step(self) -> None:
        """After backward(), in the place of the optimiser's step and zero_grad."""
        self.trainer.step(self.gradient)
        self.gradient[:] = 0

    def admit(self, communicator: fanin.Communicator) -> None:
        """As BoundedStaleness.admit."""
        self.trainer.admit(communicator)

    def finish(self) -> None:
        """After the last step: all ranks have the same parameters then."""
        self.trainer.finish()
