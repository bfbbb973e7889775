"""The pause of a training when a node fails: real processes, five nodes in namespaces, links of unequal rates.

    python -m tests.training.replacement.measure [--runs 3] [--model linear] [--only "link cut"]

Three workers train a network of PyTorch, or a linear model in numpy; two spares wait. For each kind of failure it
prints the seconds from the failure to the end of the next step of all workers, and whether the losses equal those of a
run without failure, bit by bit. Needs root. Minutes, on an idle machine.
"""

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

import pytest

from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.training.replacement.scenes import MEASURED_S, Scene, run, unequal_links

SCENES = {
    "kill -9": {1: ["kill=3"]},
    "SIGSTOP": {1: ["stop=3"]},
    "link cut": {1: ["cut=3"]},
    "two killed at once": {1: ["kill=3"], 2: ["kill=3"]},
    "replacement dies while loading": {1: ["kill=3"], 3: ["kill-loading"]},
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Time from a failure to the next step.")
    parser.add_argument("--runs", type=int, default=3, help="of each way to fail")
    has_torch = importlib.util.find_spec("torch") is not None
    parser.add_argument("--model", choices=("torch", "linear"), default="torch" if has_torch else "linear")
    parser.add_argument("--only", choices=SCENES, help="one way to fail")
    options = parser.parse_args()
    model = options.model
    print(f"model: {model}", flush=True)
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        undisturbed = _scene(None, model)
        different = 0
        for name, faults in SCENES.items():
            if options.only not in (None, name):
                continue
            scenes = [_scene(faults, model) for _ in range(options.runs)]
            equal = all(scene.losses == undisturbed.losses for scene in scenes)
            different += not equal
            seconds = ", ".join(f"{scene.interruption():.2f}" for scene in scenes)
            taken = {line for scene in scenes for member in (0, 2, 4) for line in scene.recoveries(member)}
            print(f"{name}: {seconds} s; losses {'equal' if equal else 'DIFFERENT'}; {sorted(taken)}", flush=True)
    return min(different, 1)


def _scene(faults: dict[int, list[str]] | None, model: str) -> Scene:
    """Each with its own fabric, since a link may be cut."""
    bench = Bench("lost")
    running: Running = bench.build(unequal_links(bench))
    try:
        with tempfile.TemporaryDirectory() as folder:
            return run(running, Path(folder), faults or {}, model=model, limit=MEASURED_S)
    finally:
        bench.down(running)


if __name__ == "__main__":
    sys.exit(main())
