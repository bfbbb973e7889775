"""The example of docs/hand-off.md, as a user runs it."""

import subprocess
import sys

import pytest

from fanin_tools.fabric.generate import Shape
from fanin_wire.limits import MAX_JOB_CHUNK
from tests.e2e.fabrics import Bench, statuses
from tests.fabric.fixtures import own_state_folder
from tests.waiting import BOUND_S

pytestmark = pytest.mark.process
DATA = 8 * 524_288  # bytes of all micro-batches


def test_pipeline() -> None:
    """Its results are those of one server; its data cross the network once, besides headers of messages."""
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        running = Bench("pipeline").up(Shape(4, direct=True))
        command = [sys.executable, "examples/handoff/pipeline.py", running.fabric.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
        assert done.returncode == 0, done.stderr
        *batches, last = done.stdout.splitlines()
        assert batches == [f"micro-batch {number}: 256 x 16 as on one server" for number in range(8)]
        assert last == "2 links, 4 GPUs, 524288 bytes of activations in each micro-batch"
        found = statuses(running)
        sent = sum(link["tx_payload_bytes"] for nic in ("nic0", "nic1") for link in found[nic]["links"].values())
        assert DATA <= sent < DATA + 8 * (8192 + MAX_JOB_CHUNK)
