"""The same training under torchft, whose spares compute as well: beside `measure`.

    python -m tests.training.replacement.torchft

Five nodes in namespaces, with one member each: three train, two are spares. The lighthouse, which keeps the membership,
is on the first one. Prints the seconds from the kill of a member to the end of the next step of all workers, and
whether the losses equal those of a run without failure, bit by bit. Needs root, torch and torchft.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Device, Fabric
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.training.replacement.scenes import ROOT, STEPS, WORKERS, Scene, unequal_links
from tests.training.replacement.torchrun import end, output, wait
from tests.waiting import DETECTION_S

PORT = 29510
FAULTY, FAULT_STEP = 1, 3
LIGHTHOUSE = str(Path(sys.executable).with_name("torchft_lighthouse"))
WORKER = "tests.training.replacement.torchft_worker"


def main() -> int:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        bench = Bench("torchft")
        fabric = bench.build(unequal_links(bench)).fabric
        undisturbed, scene = run(fabric, {}), run(fabric, {FAULTY: FAULT_STEP})
    if undisturbed is None or scene is None:
        return 1
    print(f"torchft, kill -9: {scene.interruption():.2f} s; losses {difference(undisturbed, scene)}")
    return 0


def difference(undisturbed: Scene, scene: Scene) -> str:
    different = [step for step, losses in undisturbed.losses.items() if scene.losses[step] != losses]
    if not different:
        return "equal"
    one, other = (float.fromhex(min(each.losses[different[0]])) for each in (undisturbed, scene))
    return f"DIFFERENT from step {different[0]} on, in it by {abs(other - one) / one:.1e} of the loss"


def run(fabric: Fabric, faults: dict[int, int]) -> Scene | None:
    """A training to its end. faults: the step in which a member kills itself. Returns None if it has failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = [start(fabric, fabric.nics[0], folder / "lighthouse.txt", lighthouse_command(fabric))]
        members: list[subprocess.Popen[bytes]] = []
        try:
            for number, nic in enumerate(fabric.nics):
                members.append(start(fabric, nic, output(folder, nic), member_command(fabric, number, folder, faults)))
            wait(members)
        finally:
            end(members)
            end(service)
        codes = [process.returncode for process in members]
        if any(code for member, code in enumerate(codes) if member not in faults):
            print(*(each.read_text() for each in sorted(folder.glob("*.txt"))), file=sys.stderr)
            return None
        return Scene([output(folder, nic).read_text() for nic in fabric.nics], codes)


def lighthouse_command(fabric: Fabric) -> list[str]:
    """With the detection time of the devices instead of 5 s."""
    options = [f"--bind={fabric.nics[0].address}:{PORT}", f"--min_replicas={WORKERS}"]
    return [LIGHTHOUSE, *options, f"--heartbeat_timeout_ms={int(1000 * DETECTION_S)}"]


def member_command(fabric: Fabric, number: int, folder: Path, faults: dict[int, int]) -> list[str]:
    nics = fabric.nics
    arguments = [nics[number].address, f"http://{nics[0].address}:{PORT}", str(number), str(STEPS), str(folder)]
    return [sys.executable, "-m", WORKER, *arguments, *(str(step) for at, step in faults.items() if at == number)]


def start(fabric: Fabric, nic: Device, out: Path, command: list[str]) -> subprocess.Popen[bytes]:
    """A process on a node. Its errors go to a file beside its output."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0"}
    line = [*namespaces.prefix_command(fabric, nic.host), *command]
    with out.open("wb") as output, out.with_name(f"{out.stem}-errors.txt").open("wb") as errors:
        return subprocess.Popen(line, cwd=ROOT, env=environment, stdout=output, stderr=errors)


if __name__ == "__main__":
    sys.exit(main())
