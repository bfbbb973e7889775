"""Time of single calls on Fanin beside Gloo, on one node: python -m tests.torch.call_times, a part of make torch-bench.

torchrun starts the ranks. Both back-ends are in the same processes and take turns, call by call. `message` is there and
back between ranks 0 and 1, `messages` several of these in a row; all others are timed on the slowest rank. It prints a
table.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

RANKS = 4
SIZES = [8, 128, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576, 2097152, 4194304]  # bytes
LEAST, MAX_BYTES = 30, 1 << 26  # calls of each size, and the bytes that they move together
MOST = 300  # calls
BACK_TO_BACK = 20  # messages


def message(tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    for sender in (0, 1):
        if dist.get_rank() == sender:
            dist.send(tensor, 1 - sender, group=group)
        elif dist.get_rank() == 1 - sender:
            dist.recv(tensor, sender, group=group)


def messages(tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    for _ in range(BACK_TO_BACK):
        message(tensor, group)


def all_to_all(tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    dist.all_to_all_single(torch.empty_like(tensor), tensor, group=group)


def all_gather(tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    dist.all_gather_into_tensor(torch.empty(tensor.numel() * dist.get_world_size(), dtype=tensor.dtype), tensor, group)


CALLS: dict[str, Callable[[torch.Tensor, dist.ProcessGroup], object]] = {
    "message": message,
    "messages": messages,
    "all_reduce": lambda tensor, group: dist.all_reduce(tensor, group=group),
    "broadcast": lambda tensor, group: dist.broadcast(tensor, 0, group=group),
    "all_gather": all_gather,
    "all_to_all": all_to_all,
}


def measure(call: str, size: int, groups: dict[str, dist.ProcessGroup]) -> dict[str, list[float]]:
    """Seconds of each call on the slowest rank, by back-end."""
    tensor = torch.zeros(max(dist.get_world_size(), size // 4))
    several = BACK_TO_BACK if call == "messages" else 1
    rounds = max(LEAST, min(MOST, MAX_BYTES // size)) // several + 3
    seconds: dict[str, list[float]] = {name: [] for name in groups}
    for number in range(-3, rounds):
        for name, group in groups.items():
            dist.barrier(group=groups["Gloo"])
            begin = time.perf_counter()
            CALLS[call](tensor, group)
            if number >= 0:
                seconds[name].append((time.perf_counter() - begin) / several)
    slowest = torch.tensor([seconds[name] for name in groups])
    if call not in ("message", "messages"):
        dist.all_reduce(slowest, dist.ReduceOp.MAX, group=groups["Gloo"])
    return dict(zip(groups, slowest.tolist(), strict=True))


def rank(calls: list[str], sizes: list[int]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("fanin")
    groups = {"Fanin": dist.group.WORLD, "Gloo": dist.new_group(backend="gloo")}
    for call in calls:
        for size in sizes:
            found = measure(call, size, groups)
            us = {name: 1e6 * statistics.median(times) for name, times in found.items()}
            late = {name: 1e6 * statistics.quantiles(times, n=100)[98] for name, times in found.items()}
            if dist.get_rank() == 0:
                cells = [f"{values[name]:.0f}" for values in (us, late) for name in groups]
                print("|", " | ".join([call, str(size), *cells, f"{us['Fanin'] / us['Gloo']:.2f}"]), "|", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torch.call_times", description=__doc__)
    parser.add_argument("--ranks", type=int, default=RANKS)
    parser.add_argument("--calls", nargs="+", choices=CALLS, default=list(CALLS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="bytes of a rank's tensor")
    given = parser.parse_args()
    if "RANK" in os.environ:
        rank(given.calls, given.sizes)
        return
    print(
        "| call | bytes | Fanin, us | Gloo, us | Fanin, p99 | Gloo, p99 | Fanin / Gloo |\n|" + " --- |" * 7, flush=True
    )
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={given.ranks}"]
    sys.exit(subprocess.run([*launcher, "-m", "tests.torch.call_times", *sys.argv[1:]]).returncode)


if __name__ == "__main__":
    main()
