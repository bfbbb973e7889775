"""The network of PyTorch of a trainee: some 100,000 parameters, dropout, Adam."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.training.replacement.models import FEATURES, ROWS

HIDDEN, CLASSES = 400, 10


class GlobalRandom:
    """The random numbers of torch, for dropout."""

    def state_dict(self) -> dict[str, Any]:
        return {"state": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["state"])


class Network:
    """As models.Model."""

    steady = ("model", "optimizer")

    def __init__(self, on_load: Callable[[], None]) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(5)
        self.module = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Dropout(0.1), nn.Linear(HIDDEN, CLASSES))
        self.module.register_load_state_dict_pre_hook(lambda *arguments: on_load())
        self.optimizer = torch.optim.Adam(self.module.parameters(), 1e-2)

    def parts(self) -> dict[str, Any]:
        return {"model": self.module, "optimizer": self.optimizer, "random": GlobalRandom()}

    def gradient(self, draw: np.random.Generator) -> np.ndarray:
        inputs = torch.from_numpy(draw.standard_normal((ROWS, FEATURES), np.float32))
        self.module.zero_grad()
        loss = nn.functional.cross_entropy(self.module(inputs), inputs[:, :CLASSES].argmax(1))
        loss.backward()
        gradients = [each.grad.flatten() for each in self.module.parameters() if each.grad is not None]
        return torch.cat([*gradients, loss.detach().reshape(1)]).numpy()

    def update(self, gradient: np.ndarray) -> None:
        begin = 0
        for each in self.module.parameters():
            each.grad = torch.from_numpy(gradient[begin : begin + each.numel()]).view_as(each)
            begin += each.numel()
        self.optimizer.step()
