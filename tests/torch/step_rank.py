"""One rank of tests.torch.step_times: python -m tests.torch.step_rank STEPS FOLDER WRAPPER ...

Rank 0 writes FOLDER/rows.json.
"""

# no `from __future__ import annotations`: DDP looks at the annotations of a hook

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from mpi4py import MPI
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import fanin_torch

SIDE, LAYERS = 2560, 4  # of each layer the weights are 25 MiB in f32
BUCKET_MIB = 25
WARM_UP = 3
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
TICKS = os.sysconf("SC_CLK_TCK")
Future = torch.futures.Future[torch.Tensor]
Contenders = dict[str, Callable[[nn.Module], nn.Module]]


def nothing(_: Any, bucket: dist.GradBucket) -> Future:
    """A hook that leaves the buckets as they are: the rest of the time is the same for all back-ends."""
    future = Future()
    future.set_result(bucket.buffer())
    return future


def by_mpi(thread: ThreadPoolExecutor, bucket: dist.GradBucket) -> Future:
    """A hook like torch's own back-end of MPI, which its wheels lack: one thread, one call after the other."""
    end, buffer = Future(), bucket.buffer()

    def reduce() -> torch.Tensor:
        MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, buffer.numpy())
        return buffer.div_(dist.get_world_size())

    reduced = thread.submit(reduce)
    reduced.add_done_callback(lambda _: end.set_result(None))
    return end.then(lambda _: reduced.result())  # raises what the thread has raised, also to C++


def data_parallel(dtype: torch.dtype, gloo: Any) -> Contenders:
    """DDP of each contender. MPI has no sums of bf16."""

    def plain(group: Any) -> Callable[[nn.Module], DistributedDataParallel]:
        return lambda model: DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=BUCKET_MIB, gradient_as_bucket_view=True
        )

    def hooked(hook: Any, state: Any = None) -> Callable[[nn.Module], nn.Module]:
        def wrap(model: nn.Module) -> nn.Module:
            parallel = plain(None)(model)
            parallel.register_comm_hook(state, hook)
            return parallel

        return wrap

    found: Contenders = {"Gloo": plain(gloo)}
    if dtype is not torch.bfloat16:
        found["MPICH"] = hooked(by_mpi, ThreadPoolExecutor(1))
    found["Fanin"] = plain(None)
    found["Fanin, registered memory"] = hooked(fanin_torch.registered_buckets)
    found["no communication"] = hooked(nothing)
    return found


def fully_sharded(_: torch.dtype, gloo: Any) -> Contenders:
    """FSDP2 of each contender, layer by layer."""

    def wrap_by(mesh: DeviceMesh, is_registered: bool = False) -> Callable[[nn.Module], nn.Module]:
        def wrap(model: nn.Module) -> nn.Module:
            for module in (*model, model):
                fully_shard(module, mesh=mesh)
                module.set_allocate_memory_from_process_group_for_comm(is_registered)
            return model

        return wrap

    mesh = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    return {
        "Gloo": wrap_by(DeviceMesh.from_group(gloo, "cpu")),
        "Fanin": wrap_by(mesh),
        "Fanin, registered memory": wrap_by(mesh, is_registered=True),
    }


WRAPPERS = {"DDP": data_parallel, "FSDP2": fully_sharded}


def make_model(dtype: torch.dtype) -> nn.Module:
    """The same on every rank, and nearly all gradients."""
    torch.manual_seed(5)
    return nn.Sequential(*(nn.Linear(SIDE, SIDE, bias=False) for _ in range(LAYERS))).to(dtype)


def cpu_of_devices(processes: list[int]) -> float:
    """Seconds of a core that the devices have used; they are visible from a network namespace, too."""
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


def rows_of(wrapper: str, name: str, steps: int, devices: list[int], gloo: Any) -> list[dict[str, Any]]:
    """One for each contender. They take turns, each step another one first."""
    data = torch.ones(1, SIDE, dtype=TYPES[name])
    contenders = WRAPPERS[wrapper](TYPES[name], gloo)
    models = {found: wrap(make_model(TYPES[name])) for found, wrap in contenders.items()}
    samples: dict[str, list[tuple[float, float]]] = {found: [] for found in models}
    order = list(models)
    for number in range(WARM_UP + steps):
        turn = number % len(order)
        for found in order[turn:] + order[:turn]:
            sample = timed(lambda found=found: step(models[found], data), devices)  # type: ignore[misc]
            if number >= WARM_UP:
                samples[found].append(sample)
    rows = []
    for found, taken in samples.items():
        lower, median, upper = statistics.quantiles([seconds for seconds, _ in taken], n=4)
        cores = statistics.median(cores for _, cores in taken)
        of = {"wrapper": wrapper, "type": name, "contender": found}
        rows.append({**of, "s": median, "lower": lower, "upper": upper, "cpu_s": cores})
    return rows


def main() -> None:
    steps, folder, wrappers = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)  # the ranks share the cores
    world = {
        "init_method": f"file://{folder / 'store'}",
        "rank": MPI.COMM_WORLD.rank,
        "world_size": MPI.COMM_WORLD.size,
    }
    dist.init_process_group("fanin", **world)
    gloo = dist.new_group(backend="gloo")
    devices = [int(word) for word in os.environ["FANIN_TEST_DEVICES"].split(",")]
    rows = [row for wrapper in wrappers for name in TYPES for row in rows_of(wrapper, name, steps, devices, gloo)]
    if dist.get_rank() == 0:
        (folder / "rows.json").write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
