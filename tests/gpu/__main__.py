"""`python -m tests.gpu`: what needs a GPU. Ends with 1 if a step fails, with 2 where there is no GPU.

| step | what |
| --- | --- |
| training | bounded staleness with a model on the GPU: with a bound of 0 it is synchronous training, to the last bit |
| hand-off | a tensor of the GPU to the processes of the next stage |
| nccl | `examples/nccl/one_gpu.py`: allreduce and DDP over NCCL with the plugin, and over its sockets |
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from tests.cluster.sending_node import GPUS
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.ordinary.sides import sockets

ROOT = Path(__file__).parents[2]
RANKS, STEPS, BOUND_S = 4, 20, 400.0
FAILED, NOT_POSSIBLE = 1, 2
BENCH = Bench("gpu")
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # which torch wants for equal bits


def output_of(command: list[str]) -> str:
    """What a program prints. Raises AssertionError with all it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, env=os.environ | DETERMINISTIC)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def training() -> str:
    """Bounded staleness with models on the GPU."""
    name = BENCH.up(Shape(RANKS, 2)).fabric.name
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"last": STEPS, "bounds": [0, 1], "bits": [32, 16], "device": "cuda"}
        fanin = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()"]
        command = [*fanin, "run", "--name", name, "-n", str(RANKS), "--slots", "16", "--prefix", "--"]
        output_of([*command, sys.executable, "-m", "tests.training.staleness.torch_rank", folder, json.dumps(options)])
        found = [dict(np.load(path)) for path in Path(folder).glob("*.npz")]
        assert len(found) == RANKS
    for each in found:
        for bits in options["bits"]:
            expected = each[f"{bits} expected"].tobytes()
            same = each[f"{bits} at 0"].tobytes() == expected
            assert same, f"{bits} bits: other parameters than of synchronous training"
            assert each[f"{bits} at 1"].tobytes() != expected, "with a bound of 1 it can not be synchronous training"
    return (
        f"{RANKS} ranks, {STEPS} steps: parameters of 32 and of 16 bits on the GPU equal those of synchronous training"
    )


def hand_off() -> str:
    """A tensor of the GPU to the eight processes of the next stage."""
    running = BENCH.up(Shape(2, GPUS, direct=True))
    ends = list(zip(sockets(running), (nic.address for nic in running.fabric.nics), strict=True))
    told = {"first": ends[:1], "second": ends[1:], "sizes": [1], "kill": 0, "senders": 1, "tensors": 1, "gpu": 1}
    said = [
        json.loads(line)
        for line in output_of([sys.executable, "-m", "tests.cluster.broadcast_ranks", json.dumps(told)]).splitlines()
    ]
    received = [each["tensors"][1] for each in said if "second_gpu" in each]
    assert received == [[["torch.bfloat16", [3], [7.0, 7.0, 7.0]]]] * GPUS, said
    return f"{GPUS} processes have received a tensor of the GPU"


def nccl() -> str:
    """NCCL with the plugin."""
    running = BENCH.up(Shape(RANKS))
    return output_of([sys.executable, str(ROOT / "examples/nccl/one_gpu.py"), "--fabric", running.fabric.name])


def main() -> int:
    """Entry point of the module."""
    try:
        import torch
    except ImportError:
        torch = None  # type: ignore[assignment]
    if torch is None or not torch.cuda.is_available():
        print("fanin: NOT_SUPPORTED: no GPU, or a PyTorch without CUDA; take a machine with both", file=sys.stderr)
        return NOT_POSSIBLE
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, NCCL {torch.cuda.nccl.version()}", flush=True)
    failed = False
    for step in (training, hand_off, nccl):
        with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
            try:
                print(f"{step.__name__}: {step()}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed = True
                print(f"{step.__name__} FAILED: {error}", flush=True)
    return FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
