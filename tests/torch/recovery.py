"""Training that goes on when a rank is killed in the middle of a step."""

import os  # no `from __future__ import annotations` above: DDP looks at the annotations of a hook
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fanin_torch
from tests.torch.rank import tell_test
from tests.torch.training import small_model

STEPS, LAST_OF_VICTIM, VICTIM = 6, 3, 2


class Training:
    """A model, its optimizer, and their number of steps."""

    def __init__(self) -> None:
        self.model, self.steps = small_model(), 0
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def to(self, steps: int) -> None:
        """Train up to this number of steps. A step's data depend on its number and the rank."""
        parallel = DistributedDataParallel(self.model, bucket_cap_mb=0.001)  # several buckets
        while self.steps < steps:
            generator = torch.Generator().manual_seed(1000 * self.steps + dist.get_rank())
            data, labels = torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(parallel(data), labels).backward()
            self.optimizer.step()
            self.steps += 1

    def agree(self) -> None:
        """Every rank gets the state of one with the most steps: others may see the loss of a rank before they have the
        sums of a step, or after it."""
        made: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(made, self.steps)
        furthest = made.index(max(made))
        states = [self.model.state_dict(), self.optimizer.state_dict(), self.steps]
        dist.broadcast_object_list(states, furthest)
        self.model.load_state_dict(states[0])
        self.optimizer.load_state_dict(states[1])
        self.steps = states[2]


def end_by_itself(training: Training, file: Path) -> None:
    """SIGKILL in the backward pass of a step, when the first bucket is under way and the last is not."""

    def at_gradient(_: torch.Tensor) -> None:
        if training.steps == LAST_OF_VICTIM:
            file.write_text(str(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)

    next(training.model.parameters()).register_hook(at_gradient)


def in_mid_step() -> None:
    """Survivors say how many seconds after the kill they had the error, and how long until they went on."""
    rank, file = dist.get_rank(), Path(os.environ["FANIN_TEST_KILLED"])
    training = Training()
    if rank == VICTIM:
        end_by_itself(training, file)
    with pytest.raises(RuntimeError, match="PEER_LOST"):
        training.to(STEPS)
    noticed = time.monotonic()
    left = fanin_torch.survivors()
    assert left == [other for other in range(dist.get_world_size()) if other != VICTIM]
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    dist.destroy_process_group()
    dist.init_process_group("fanin", store=store, rank=left.index(rank), world_size=len(left))
    training.agree()
    assert training.steps == LAST_OF_VICTIM
    going_on = time.monotonic()
    training.to(STEPS)
    bits = nn.utils.parameters_to_vector(training.model.parameters()).detach()
    rows = [torch.empty_like(bits) for _ in left]
    dist.all_gather(rows, bits)
    assert all(torch.equal(row, bits) for row in rows)
    killed = float(file.read_text())
    tell_test(f"error after {noticed - killed:.3f} s, training after {going_on - killed:.3f} s")
