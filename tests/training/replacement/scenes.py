"""A training in processes of its own, which are killed and stopped, and what they have said."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import assert_released
from tests.e2e.members import across

TRAINEE = Path(__file__).with_name("trainee.py")
ROOT = Path(__file__).parents[3]
WORKERS, SPARES, STEPS = 3, 2, 8
MEMBERS = WORKERS + SPARES
BOUND_S = 120.0
PIPE = subprocess.PIPE


@dataclass
class Scene:
    """What the members have printed, by their rank in the pool. losses: by step, of all members that had them."""

    outputs: list[str]
    codes: list[int]
    losses: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for output in self.outputs:
            for step, loss in re.findall(r"loss (\d+) (\S+)", output):
                self.losses.setdefault(int(step), set()).add(loss)

    def last(self, member: int) -> str:
        """What became of a member: its last line but those about recoveries."""
        lines = [line for line in self.outputs[member].splitlines() if not re.match("loss|recovered|seconds", line)]
        return lines[-1] if lines else ""

    def recoveries(self, member: int) -> list[str]:
        """What a member says of its recoveries, but for their time."""
        return re.findall(r"^recovered (.*)$", self.outputs[member], re.MULTILINE)


def run(running: Running, folder: Path, faults: dict[int, list[str]], route: str = "ring") -> Scene:
    """Run a training to its end. A member that stops itself goes on when the others have ended."""
    job, sockets = across(running, range(MEMBERS), route)
    path = folder / "job"
    path.write_text(msgspec.structs.replace(job, reproducible="run", slots=64).to_text())
    processes = []
    for member in range(MEMBERS):
        line = [sys.executable, TRAINEE, path, str(member), sockets[member], str(WORKERS), str(STEPS)]
        line += faults.get(member, [])
        processes.append(subprocess.Popen(line, cwd=ROOT, stdout=PIPE, stderr=PIPE, text=True))
    stopped = [member for member, kinds in faults.items() if any(kind.startswith("stop") for kind in kinds)]
    outputs = [""] * MEMBERS
    try:
        for member in sorted(range(MEMBERS), key=lambda member: member in stopped):
            if member in stopped:
                processes[member].send_signal(signal.SIGCONT)
            outputs[member], errors = processes[member].communicate(timeout=BOUND_S)
            assert "Traceback" not in errors, errors
            print(f"member {member}: {outputs[member].replace(chr(10), '; ')}")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert_released(running)
    return Scene(outputs, [process.returncode for process in processes])
