"""One rank of tests.torch.step_times: python -m tests.torch.step_rank STEPS FOLDER. Rank 0 writes FOLDER/rows.json."""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fanin_torch

SIDE, LAYERS = 2560, 4  # of each layer the weights are 25 MiB in f32
BUCKET_MIB = 25
WARM_UP = 3
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
TICKS = os.sysconf("SC_CLK_TCK")


def contenders(gloo: Any) -> dict[str, Callable[[nn.Module], nn.Module]]:
    """DDP as each of them has it."""

    def registered(model: nn.Module) -> nn.Module:
        parallel = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MIB)
        parallel.register_comm_hook(None, fanin_torch.registered_buckets)
        return parallel

    return {
        "Gloo": lambda model: DistributedDataParallel(model, process_group=gloo, bucket_cap_mb=BUCKET_MIB),
        "Fanin": lambda model: DistributedDataParallel(model, bucket_cap_mb=BUCKET_MIB),
        "Fanin, registered buckets": registered,
    }


def make_model(dtype: torch.dtype) -> nn.Module:
    """The same on every rank; its gradients are nearly all that it has."""
    torch.manual_seed(5)
    return nn.Sequential(*(nn.Linear(SIDE, SIDE, bias=False) for _ in range(LAYERS))).to(dtype)


def cpu_of_devices(processes: list[int]) -> float:
    """Seconds of a core that the devices have used; in a namespace of the network they are visible as elsewhere."""
    words = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in processes]
    return sum(int(row[11]) + int(row[12]) for row in words) / TICKS


def cpu_of_this() -> float:
    """Seconds of a core that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def step(model: nn.Module, data: torch.Tensor) -> None:
    """Forward and backward; an optimizer would take the same time whatever the back-end."""
    model.zero_grad()
    model(data).sum().backward()


def timed(act: Callable[[], None], devices: list[int]) -> tuple[float, float]:
    """Seconds of the slowest rank, and seconds of cores of all ranks and devices."""
    dist.barrier()
    at_devices = cpu_of_devices(devices)
    begin, at_begin = time.perf_counter(), cpu_of_this()
    act()
    seconds, used = time.perf_counter() - begin, cpu_of_this() - at_begin
    slowest, cores = torch.tensor([seconds]), torch.tensor([used])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    dist.all_reduce(cores)
    return slowest.item(), cores.item() + cpu_of_devices(devices) - at_devices


def rows_of(name: str, steps: int, devices: list[int], gloo: Any) -> list[dict[str, Any]]:
    """One for each contender. They take turns, each step another one first."""
    data = torch.ones(1, SIDE, dtype=TYPES[name])
    models = {found: wrap(make_model(TYPES[name])) for found, wrap in contenders(gloo).items()}
    samples: dict[str, list[tuple[float, float]]] = {found: [] for found in models}
    order = list(models)
    for number in range(WARM_UP + steps):
        for found in order[number % len(order) :] + order[: number % len(order)]:
            sample = timed(lambda found=found: step(models[found], data), devices)  # type: ignore[misc]
            if number >= WARM_UP:
                samples[found].append(sample)
    rows = []
    for found, taken in samples.items():
        lower, median, upper = statistics.quantiles([seconds for seconds, _ in taken], n=4)
        cores = statistics.median(cores for _, cores in taken)
        rows.append({"contender": found, "type": name, "s": median, "lower": lower, "upper": upper, "cpu_s": cores})
    return rows


def main() -> None:
    steps, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)  # the ranks share the cores
    dist.init_process_group("fanin")
    gloo = dist.new_group(backend="gloo")
    devices = [int(word) for word in os.environ["FANIN_TEST_DEVICES"].split(",")]
    rows = [row for name in TYPES for row in rows_of(name, steps, devices, gloo)]
    if dist.get_rank() == 0:
        (folder / "rows.json").write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
