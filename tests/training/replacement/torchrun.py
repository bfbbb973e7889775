"""The same training under torchrun, which restarts all workers when one is killed: beside `measure`.

    python -m tests.training.replacement.torchrun

Three nodes in namespaces, with one worker each. Prints the seconds from the kill to the end of the next step of all
workers. Needs root, and torch.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Device, Fabric
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.training.replacement.scenes import ROOT, STEPS, WORKERS, Scene, unequal_links
from tests.waiting import BOUND_S

PORT = 29411
END_S = 30.0  # until torchrun has ended its worker
WORKER = Path(__file__).with_name("torchrun_worker.py")


def main() -> int:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch), tempfile.TemporaryDirectory() as name:
        folder, bench = Path(name), Bench("torchrun")
        fabric = bench.build(unequal_links(bench)).fabric
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for nic in fabric.nics[:WORKERS]:
                processes.append(start(fabric, nic, folder))
            wait(processes)
        finally:
            end(processes)
        codes = [process.returncode for process in processes]
        if any(codes):
            print(*(each.read_text() for each in sorted(folder.glob("*.txt"))), file=sys.stderr)
            return 1
        outputs = [output(folder, nic).read_text() for nic in fabric.nics[:WORKERS]]
        print(f"torchrun, kill -9: {Scene(outputs, codes).interruption():.2f} s")
    return 0


def wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all have ended, or the time is over."""
    deadline = time.monotonic() + BOUND_S
    with contextlib.suppress(subprocess.TimeoutExpired):
        for process in processes:
            process.wait(max(0.0, deadline - time.monotonic()))


def start(fabric: Fabric, nic: Device, folder: Path) -> subprocess.Popen[bytes]:
    """torchrun on a node. The first node has the rendezvous."""
    first = fabric.nics[0]
    options = [f"--nnodes={WORKERS}", "--nproc-per-node=1", "--max-restarts=10", "--rdzv-id=scene"]
    options += ["--rdzv-backend=c10d", f"--rdzv-endpoint={first.address}:{PORT}", f"--local-addr={nic.address}"]
    options += [f"--rdzv-conf=is_host={int(nic is first)}"]
    program = [sys.executable, "-m", "torch.distributed.run", *options, str(WORKER), str(folder), str(STEPS)]
    command = [*namespaces.prefix_command(fabric, nic.host), *program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "eth0"}
    with output(folder, nic).open("wb") as out, (folder / f"{nic.name}-errors.txt").open("wb") as errors:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=errors)


def output(folder: Path, nic: Device) -> Path:
    """The output of torchrun and its worker."""
    return folder / f"{nic.name}.txt"


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End the remaining ones. torchrun ends its worker, unless it is killed."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
