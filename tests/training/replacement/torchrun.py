"""The same training under torchrun, which starts all workers again when one is killed: beside `measure`.

    python -m tests.training.replacement.torchrun

Three nodes in namespaces, with one worker each. Prints the seconds from the kill to the end of the next step of all
workers. Needs root, and torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fanin_tools.fabric import namespaces
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.training.replacement.scenes import BOUND_S, ROOT, STEPS, WORKERS, Scene, unequal_links

PORT = 29411
WORKER = Path(__file__).with_name("torchrun_worker.py")


def main() -> int:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch), tempfile.TemporaryDirectory() as folder:
        bench = Bench("torchrun")
        fabric = bench.build(unequal_links(bench)).fabric
        where = f"{fabric.nics[0].address}:{PORT}"
        options = [f"--nnodes={WORKERS}", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint={where}"]
        options += ["--max-restarts=2", "--rdzv-id=scene"]
        processes = [
            subprocess.Popen(
                [
                    *namespaces.prefix_command(fabric, nic.host),
                    *[sys.executable, "-m", "torch.distributed.run", *options, f"--local-addr={nic.address}"],
                    f"--rdzv-conf=is_host={int(nic is fabric.nics[0])}",
                    *[str(WORKER), folder, str(STEPS)],
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "eth0"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for nic in fabric.nics[:WORKERS]
        ]
        try:
            outputs = [process.communicate(timeout=BOUND_S) for process in processes]
        except subprocess.TimeoutExpired:
            for process in processes:
                process.terminate()
            outputs = [process.communicate() for process in processes]
        codes = [process.returncode for process in processes]
        if any(codes):
            print(*(text for output in outputs for text in output), file=sys.stderr)
            return 1
        print(f"torchrun, kill -9: {Scene([text for text, _ in outputs], codes).interruption():.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
