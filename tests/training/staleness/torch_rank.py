"""A rank of a test over devices: it trains a model of PyTorch, and the same one without Fanin, and writes both.

    python -m tests.training.staleness.torch_rank FOLDER '{"last": 6}'

Each rank writes FOLDER/RANK.npz.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import fanin
from fanin_train.staleness.data_parallel import StaleDataParallel
from fanin_train.staleness.optimisers import Adam

SEED, INPUTS, CLASSES, ROWS = 5, 12, 4, 16


def make_model() -> nn.Module:
    """The same on all ranks."""
    torch.manual_seed(SEED)
    return nn.Sequential(nn.Linear(INPUTS, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, CLASSES))


def loss_of(model: nn.Module, rank: int, number: int) -> torch.Tensor:
    """Of a rank's batch of a step."""
    draw = np.random.default_rng((SEED, rank, number))
    inputs = torch.from_numpy(draw.standard_normal((ROWS, INPUTS), np.float32))
    return nn.functional.cross_entropy(model(inputs), torch.from_numpy(draw.integers(0, CLASSES, ROWS)))


def synchronous(nodes: int, last: int) -> np.ndarray:
    """The parameters after synchronous training in one process, by PyTorch's own gradients."""
    model = make_model()
    learnt = list(model.parameters())
    flat, optimiser = nn.utils.parameters_to_vector(learnt).detach().numpy().copy(), Adam(0.01)
    for number in range(1, last + 1):
        total = np.zeros_like(flat)
        for rank in range(nodes):
            gradients = torch.autograd.grad(loss_of(model, rank, number), learnt)
            total += torch.cat([each.flatten() for each in gradients]).numpy() / np.float32(nodes)
        optimiser.step(flat, total)
        nn.utils.vector_to_parameters(torch.from_numpy(flat.copy()), learnt)
    return flat


def main(folder: Path, options: dict[str, int]) -> None:
    torch.set_num_threads(1)
    with fanin.Communicator() as communicator:
        model = StaleDataParallel(make_model(), communicator, Adam(0.01), options["stale_max"], "fixed")
        for number in range(1, options["last"] + 1):
            loss_of(model, communicator.rank, number).backward()
            model.step()
        model.finish()
        trained = nn.utils.parameters_to_vector(model.module.parameters()).detach().numpy()
        expected = synchronous(communicator.size, options["last"])
        np.savez(folder / f"{communicator.rank}.npz", parameters=trained, expected=expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
