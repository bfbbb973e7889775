"""Signal handlers raise, or call collectives, at any time: results stay right, and jobs can be made and left."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fanin import device_status
from tests.waiting import BOUND_S

PROGRAM = Path(__file__).with_name("signal_program.py")


@pytest.mark.parametrize("action", ["raise", "call"])
def test_alarms_at_random_times(device, make_job, action):
    seed = random.randrange(1 << 32)
    arguments = [json.dumps(make_job(2).to_dict()), str(device.socket), str(seed), action]
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    assert ended.returncode == 0, f"seed {seed}: {ended.stderr[-2000:]}"
    collectives, derived, made = map(int, ended.stdout.split())
    assert (min(collectives, derived) if action == "raise" else made) > 10, f"seed {seed}"
    assert not device_status(device.socket)["jobs"]
