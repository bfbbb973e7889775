"""Several ranks of NCCL on one GPU, with the devices of Fanin as their collective network, and beside it without.

    fanin fabric up --nodes 4
    python examples/nccl/one_gpu.py            # needs a GPU and PyTorch with NCCL

NCCL takes ranks with different NCCL_HOSTID for different hosts, so they can share one GPU, and all between them uses
the network. Every result is compared with the sum; NCCL's own log must say that each rank's data used the collective
network, since NCCL silently falls back to others.
"""

import argparse
import json
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (4096, 65536, 1 << 20, 16 << 20)  # bytes
TURNS = 20
BOUND_S = 300
COLLECTIVE = {"NCCL_COLLNET_ENABLE": "1", "NCCL_COLLNET_NODE_THRESHOLD": "2"}
ALGORITHMS = os.environ.get("NCCL_ALGO", "allreduce:collnetchain")
ALONE = {"NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
JOINED = re.compile(r"Fanin: rank \d+ of \d+ of a collective group has joined job")
FELL_BACK = "using point-to-point network instead"


def losses_of_ddp(rank: int) -> list[float]:
    """Of an ordinary program: a model on the GPU, trained by DDP."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda(), device_ids=[0]
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    inputs, labels = torch.randn(64, 256, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
    losses = []
    for _ in range(TURNS):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def rank_main() -> None:
    """One rank: collectives, checked; the time of an allreduce of each size; and a training."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    checked = 0
    for length in (1, 1000, 1 << 18):
        mine = torch.full((length,), rank + 1.0, device="cuda")
        gathered = torch.empty(ranks * length, device="cuda")
        dist.all_gather_into_tensor(gathered, mine)
        assert bool((gathered.view(ranks, length) == torch.arange(1, ranks + 1, device="cuda").view(-1, 1)).all())
        dist.reduce_scatter_tensor(mine, gathered)
        assert bool((mine == ranks * (rank + 1)).all()), f"reduce_scatter {length}: {mine[:4]}"
        checked += 2
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.float64):
        for op, expected in ((dist.ReduceOp.SUM, ranks * (ranks + 1) // 2), (dist.ReduceOp.MAX, ranks)):
            for length in (1, 1000, 1 << 18):
                data = torch.full((length,), rank + 1, dtype=dtype, device="cuda")
                dist.all_reduce(data, op)
                assert bool((data == expected).all()), f"{dtype} {op} {length}: {data[:4]}"
                checked += 1
    times = {}
    for size in SIZES:
        data = torch.ones(size // 4, device="cuda")
        spent = []
        for _ in range(TURNS):
            torch.cuda.synchronize()
            dist.barrier()
            begun = time.perf_counter()
            dist.all_reduce(data, dist.ReduceOp.MAX)
            torch.cuda.synchronize()
            spent.append(time.perf_counter() - begun)
        times[size] = statistics.median(spent)
    losses = losses_of_ddp(rank)
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({"checked": checked, "times": times, "losses": losses}))


def run(sockets: list[str], variables: dict[str, str], folder: Path) -> dict:
    """All ranks, one for each NIC, with logs in the folder. Returns rank 0's output."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    processes = []
    for rank, path in enumerate(sockets):
        own = {"RANK": str(rank), "WORLD_SIZE": str(len(sockets)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        own |= {"NCCL_HOSTID": f"fanin-{rank}", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV"}
        own |= {"NCCL_DEBUG_FILE": str(folder / f"rank{rank}.log"), "FANIN_SOCKET": path} | variables
        command = [sys.executable, __file__, "--rank"]
        inherited = {name: value for name, value in os.environ.items() if name != "NCCL_ALGO"}  # of the plugin only
        processes.append(subprocess.Popen(command, env=inherited | own, stdout=subprocess.PIPE, text=True))
    try:
        outputs = [process.communicate(timeout=BOUND_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        sys.exit(f"a rank has failed; the logs are in {folder}")
    return json.loads(outputs[0])


def main() -> None:
    """Run with the plugin and without, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fabric", default="default", help="name of the fabric that is up")
    parser.add_argument("--logs", type=Path, help="folder for NCCL's logs; default: a new one")
    options = parser.parse_args()
    if options.rank:
        rank_main()
        return
    from fanin.nccl_lib import library_path
    from fanin_tools.fabric.lifecycle import find

    fabric = find(options.fabric)
    if fabric is None:
        sys.exit(f"no fabric {options.fabric} is up; run `fanin fabric up --nodes 4` first")
    sockets = [str(fabric.state.socket(nic.name)) for nic in fabric.fabric.nics]
    logs = options.logs or Path(tempfile.mkdtemp(prefix="fanin-nccl-"))
    results = {}
    with_plugin = COLLECTIVE | {"NCCL_ALGO": ALGORITHMS, "NCCL_NET_PLUGIN": str(library_path())}
    for name, variables in (("fanin", with_plugin), ("sockets", ALONE)):
        folder = logs / name
        folder.mkdir(parents=True, exist_ok=True)
        results[name] = run(sockets, variables, folder)
    for rank in range(len(sockets)):
        text = (logs / "fanin" / f"rank{rank}.log").read_text()
        if FELL_BACK in text or not JOINED.search(text):
            sys.exit(f"rank {rank} did not use the collective network; NCCL's log is in {logs}")
    print(f"{results['fanin']['checked']} collectives right on {len(sockets)} ranks; the collective network was used")
    ours, theirs = (results[name]["losses"] for name in ("fanin", "sockets"))
    if not all(math.isclose(one, other, rel_tol=1e-4) for one, other in zip(ours, theirs, strict=True)):
        sys.exit(f"DDP has other losses with Fanin, {ours}, than over NCCL's sockets, {theirs}")
    print(f"{len(ours)} steps of DDP: loss {ours[0]:.4f} -> {ours[-1]:.4f}, as over NCCL's sockets")
    for size, plain in results["sockets"]["times"].items():
        with_fanin = results["fanin"]["times"][size]
        print(f"{int(size):10} bytes: {with_fanin * 1e6:8.0f} us with Fanin, {plain * 1e6:8.0f} us over NCCL's sockets")


if __name__ == "__main__":
    main()
