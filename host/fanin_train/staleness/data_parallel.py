"""Training over a fabric with bounded staleness, for programs of PyTorch.

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
from fanin_train.staleness.replica import Checkpoint, Optimiser
from fanin_train.staleness.trainer import BoundedStaleness

MASTER = {  # type of a module's parameters -> of the master weights, which the optimiser changes
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}


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


class FlatParameters:
    """The parameters of a module.

    values, gradients: of shape (count,), in the memory of the host, float64 if the module has that, else float32. The
    parameters of a module with such floats on the CPU are views of them. Those on a GPU, or with smaller floats, are
    views of flat tensors like them, and `fetch` and `give` copy.

    Raises TrainingError for parameters of several types, on several devices, or of a type without master weights.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        learnt = self._trainable()
        kinds = {(each.dtype, each.device) for each in learnt}
        if len(kinds) != 1 or not all(dtype in MASTER for dtype, _ in kinds):
            names = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds)) or "none"
            raise TrainingError(
                f"parameters of {names} are not supported",
                "give a module in bfloat16, float32 or float64, on one device",
            )
        [(dtype, device)] = kinds
        count, full = sum(each.numel() for each in learnt), MASTER[dtype]
        pinned = device.type == "cuda"  # so that a GPU copies without the processor
        self._host_values = self._values = torch.empty(count, dtype=full, pin_memory=pinned)
        self._host_gradients = self._gradients = torch.zeros(count, dtype=full, pin_memory=pinned)
        self._copies = device.type != "cpu" or dtype != full
        if self._copies:
            self._values, self._gradients = (torch.zeros(count, dtype=dtype, device=device) for _ in range(2))
        self.values: np.ndarray = self._host_values.numpy()
        self.gradients: np.ndarray = self._host_gradients.numpy()
        self._parts: list[tuple[nn.Parameter, torch.Tensor, torch.Tensor]] = []  # with gradient and value
        begin = 0
        for each in learnt:
            place = slice(begin, begin + each.numel())
            self._host_values[place].view_as(each).copy_(each.data)
            each.data, each.grad = self._values[place].view_as(each), self._gradients[place].view_as(each)
            self._parts.append((each, each.grad, self._values[place].view_as(each)))
            begin = place.stop
        self._versions = [each._version for each in learnt]
        self.give()

    def _trainable(self) -> list[nn.Parameter]:
        return [each for each in self._module.parameters() if each.requires_grad]

    def fetch(self) -> None:
        """Bring the gradients to the host, after backward().

        Raises TrainingError if the module was moved or loaded since it was given, and would train without effect.
        """
        if list(map(id, self._trainable())) != [id(parameter) for parameter, _, _ in self._parts]:
            raise TrainingError(
                "the parameters of the module are not those that were wrapped",
                "load and change it before it is wrapped",
            )
        for parameter, part, place in self._parts:
            if parameter.data_ptr() != place.data_ptr() or parameter.dtype != place.dtype:
                raise TrainingError("a parameter has been moved", "move the module before it is wrapped")
            if parameter.grad is not part:  # zero_grad of the program takes it away
                part.zero_() if parameter.grad is None else part.zero_().add_(parameter.grad)
                parameter.grad = part
        if self._copies:
            if [each._version for each, _, _ in self._parts] != self._versions:
                raise TrainingError("the parameters have been changed", "load and change them before they are wrapped")
            self._host_gradients.copy_(self._gradients)

    def give(self) -> None:
        """Copy the values to the module."""
        if self._copies:
            self._values.copy_(self._host_values)

    def clear(self) -> None:
        """Set the gradients to zero."""
        self._gradients.zero_()
