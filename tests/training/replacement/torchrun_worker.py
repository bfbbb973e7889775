"""A worker of torchrun: `torchrun_worker.py FOLDER STEPS`. It trains the network of the trainees by Gloo, writes a
checkpoint after each step, and restarts from it. Rank 1 kills itself once, in step 3."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import distributed

from tests.training.replacement.torch_models import Network

FAULTY, FAULT_STEP = 1, 3


def main(folder: Path, steps: int) -> None:
    network = Network(lambda: None)
    parts = network.parts()
    distributed.init_process_group("gloo")
    rank, first = distributed.get_rank(), 0
    checkpoint = folder / "checkpoint"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        first = saved.pop("step")
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    for number in range(first, steps):
        gradient = torch.from_numpy(network.gradient(np.random.default_rng((rank, number))))
        if rank == FAULTY and number == FAULT_STEP and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            print(f"fault {time.monotonic():.3f}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        distributed.all_reduce(gradient, distributed.ReduceOp.SUM)
        network.update((gradient / distributed.get_world_size()).numpy()[:-1])
        if rank == 0:
            torch.save(
                {"step": number + 1, **{name: part.state_dict() for name, part in parts.items()}}, folder / "new"
            )
            (folder / "new").rename(checkpoint)
        distributed.barrier()
        print(f"loss {number} {float(gradient[-1]).hex()} {time.monotonic():.3f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
