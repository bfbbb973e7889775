"""A rank of a test over devices: it trains models of PyTorch with and without Fanin, and writes both.

    python -m tests.training.staleness.torch_rank FOLDER '{"last": 6, "bounds": [0], "bits": [32], "device": "cpu"}'

One model for each number of bits and each bound, one after the other. With 16 bits, or on "cuda", the optimiser has the
parameters in float32 in the memory of the host. Each rank writes FOLDER/RANK.npz: "BITS at BOUND" for each model, and
"BITS expected".
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import fanin
from fanin_train.staleness.data_parallel import StaleDataParallel
from fanin_train.staleness.replica import Adam

SEED, INPUTS, CLASSES, ROWS = 5, 12, 4, 16


def make_model(bits: int, device: str, rank: int = 0) -> nn.Module:
    """Another one on each rank; all train that of rank 0."""
    torch.manual_seed(SEED + rank)
    model = nn.Sequential(nn.Linear(INPUTS, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, CLASSES))
    return model.to(device, {16: torch.bfloat16, 32: torch.float32, 64: torch.float64}[bits])


def loss_of(model: nn.Module, rank: int, number: int) -> torch.Tensor:
    """Of a rank's batch of a step."""
    draw = np.random.default_rng((SEED, rank, number))
    inputs = torch.from_numpy(draw.standard_normal((ROWS, INPUTS), np.float32)).to(next(model.parameters()))
    labels = torch.from_numpy(draw.integers(0, CLASSES, ROWS)).to(inputs.device)
    return nn.functional.cross_entropy(model(inputs), labels)


def synchronous(model: nn.Module, nodes: int, last: int) -> np.ndarray:
    """The parameters after synchronous training in one process, by PyTorch's own gradients."""
    learnt = list(model.parameters())
    full = torch.promote_types(learnt[0].dtype, torch.float32)
    flat, optimiser = nn.utils.parameters_to_vector(learnt).detach().to("cpu", full).numpy().copy(), Adam(0.01)
    for number in range(1, last + 1):
        total = np.zeros_like(flat)
        for rank in range(nodes):
            gradients = torch.autograd.grad(loss_of(model, rank, number), learnt)
            total += torch.cat([each.flatten() for each in gradients]).to("cpu", full).numpy() / flat.dtype.type(nodes)
        optimiser.step(flat, total)
        nn.utils.vector_to_parameters(torch.from_numpy(flat.copy()).to(learnt[0]), learnt)
    return flat


def assert_given(model: StaleDataParallel) -> None:
    of_module = nn.utils.parameters_to_vector(model.module.parameters()).detach()
    assert torch.equal(of_module, torch.from_numpy(model.flat.values).to(of_module))


def train(model: nn.Module, communicator: fanin.Communicator, stale_max: int, last: int) -> np.ndarray:
    parallel = StaleDataParallel(model, communicator, Adam(0.01), stale_max, "fixed")
    for number in range(1, last + 1):
        if number == 2:
            parallel.checkpoint()
            assert_given(parallel)
        if number % 2:
            parallel.zero_grad()  # of a program that has it from its time without Fanin: it takes the gradients away
        loss_of(parallel, communicator.rank, number).backward()
        parallel.step()
    parallel.finish()
    assert_given(parallel)
    return np.array(parallel.flat.values)


def main(folder: Path, options: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    device, last = options.get("device", "cpu"), options["last"]
    found: dict[str, Any] = {}
    with fanin.Communicator() as communicator:
        for bits in options["bits"]:
            for bound in options["bounds"]:
                model = make_model(bits, device, communicator.rank)
                found[f"{bits} at {bound}"] = train(model, communicator, bound, last)
            found[f"{bits} expected"] = synchronous(make_model(bits, device), communicator.size, last)
        np.savez(folder / f"{communicator.rank}.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
