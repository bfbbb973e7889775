"""A training in separate processes, which are killed and stopped, and their output."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench, assert_released
from tests.e2e.members import across
from tests.waiting import DETECTION_S, TORCH_BOUND_S

TRAINEE = "tests.training.replacement.trainee"
ROOT = Path(__file__).parents[3]
WORKERS, SPARES, STEPS = 3, 2, 8
MEMBERS = WORKERS + SPARES
# Limits: if no member stands still, if one does, and for measurements on an idle machine.
PATIENT_S, IMPATIENT_S, MEASURED_S = 60.0, 15.0, 3.0
RATES = ("1gbit", "1gbit", "500mbit", "200mbit", "800mbit")  # of the links of the members, where they are shaped
PIPE = subprocess.PIPE


@dataclass
class Scene:
    """The output of the members, by their rank in the pool. losses: by step, of all members that had them."""

    outputs: list[str]
    codes: list[int]
    losses: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for output in self.outputs:
            for step, loss in re.findall(r"loss (\d+) (\S+)", output):
                self.losses.setdefault(int(step), set()).add(loss)

    def last(self, member: int) -> str:
        """The end of a member: its last line except those about recoveries."""
        lines = [
            line for line in self.outputs[member].splitlines() if not re.match("loss|fault|recovered|seconds", line)
        ]
        return lines[-1] if lines else ""

    def recoveries(self, member: int) -> list[str]:
        """A member's lines about its recoveries, without their time."""
        return re.findall(r"^recovered (.*)$", self.outputs[member], re.MULTILINE)

    def interruption(self) -> float:
        """Seconds from the first fault to the end of all workers' steps that began after it."""
        text = "\n".join(self.outputs)
        begin = min(map(float, re.findall(r"^fault (\S+)$", text, re.MULTILINE)))
        ends: dict[int, list[float]] = {}
        for step, time in re.findall(r"^loss (\d+) \S+ (\S+)$", text, re.MULTILINE):
            ends.setdefault(int(step), []).append(float(time))
        return min(max(times) for times in ends.values() if min(times) > begin) - begin


def unequal_links(bench: Bench) -> Fabric:
    """A node for each member, in namespaces. The second spare has the faster link of the two."""
    fabric = bench.describe(Shape(MEMBERS, 1, netns=True, detection=DETECTION_S))
    nics = [nic.name for nic in fabric.nics]
    links = []
    for link in fabric.links:
        (nic,) = set(link.ends) & set(nics)
        links.append(msgspec.structs.replace(link, rate=RATES[nics.index(nic)]))
    return msgspec.structs.replace(fabric, links=tuple(links))


def set_link(running: Running, member: int, to: str) -> list[str]:
    """The command that sets the link of a member's node `up` or `down`; it needs a namespace, or it would be ours."""
    if not running.fabric.netns:
        raise ValueError(f"fabric {running.fabric.name} has no namespaces, whose links could be set")
    nic = running.fabric.nics[member]
    return [*namespaces.prefix_command(running.fabric, nic.host), "ip", "link", "set", "eth0", to]


def run(
    running: Running,
    folder: Path,
    faults: dict[int, list[str]],
    route: str = "ring",
    model: str = "linear",
    limit: float = PATIENT_S,
) -> Scene:
    """Run a training to its end. A member that stops itself continues when the others have ended; then a cut link is
    mended, too. limit: seconds after which a member that stands still counts as lost."""
    job, sockets = across(running, range(MEMBERS), route)
    path = folder / "job"
    path.write_text(msgspec.structs.replace(job, reproducible="run", slots=64).to_text())
    processes = []
    cut = [member for member, kinds in faults.items() if any(kind.startswith("cut") for kind in kinds)]
    for member in range(MEMBERS):
        line = [sys.executable, "-m", TRAINEE, path, str(member), sockets[member], str(WORKERS), str(STEPS), model]
        line += [str(limit)]
        line += faults.get(member, [])
        environment = dict(os.environ)
        if member in cut:
            environment["FANIN_TEST_CUT"] = " ".join(set_link(running, member, "down"))
        processes.append(subprocess.Popen(line, cwd=ROOT, env=environment, stdout=PIPE, stderr=PIPE, text=True))
    stopped = [member for member, kinds in faults.items() if any(kind.startswith("stop") for kind in kinds)]
    outputs = [""] * MEMBERS
    try:
        for member in sorted(range(MEMBERS), key=lambda member: member in stopped):
            if member in stopped:
                processes[member].send_signal(signal.SIGCONT)
            outputs[member], errors = processes[member].communicate(timeout=TORCH_BOUND_S)
            assert "Traceback" not in errors, errors
            print(f"member {member}: {outputs[member].replace(chr(10), '; ')}")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for member in cut:
        subprocess.run(set_link(running, member, "up"), check=True)
    if not cut:  # else a device keeps a tombstone until it ages out, since the others have left behind its back
        assert_released(running)
    return Scene(outputs, [process.returncode for process in processes])
