"""The gain of bounded staleness: real processes, nodes in namespaces, links of 1 Gbit/s.

    python -m tests.training.staleness.measure [--only 4-small]

Runs examples/training/stragglers.py for digits and, if torch is installed, for a small transformer and with PyTorch's
PostLocalSGD: with random pauses, and with one rank that is slow in every step. Needs root. Minutes, on an idle machine.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
NAME = "training-stale"
FANIN = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()"]
PERSISTENT = "--pause 0 --slow 1 --factor 3 --runs 1"
TORCH = ("--transformer", "--local")


class Scene(NamedTuple):
    """nodes, each with one rank; slots of each job; options of the program."""

    nodes: int
    slots: int
    options: str


SCENES = {
    "4-small": Scene(4, 16, "--local 8"),
    "4-transformer": Scene(4, 16, "--transformer --local 8"),
    "4-large": Scene(4, 32, "--hidden 5400 --step-ms 60 --steps 110 --target 0.6"),
    "8-small": Scene(8, 16, "--steps 250"),
    "8-transformer": Scene(8, 16, "--transformer --step-ms 40 --steps 200"),
    "4-persistent": Scene(4, 16, PERSISTENT),
    "4-transformer-persistent": Scene(4, 16, f"--transformer {PERSISTENT}"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Time to a target loss with stragglers.")
    parser.add_argument("--only", choices=SCENES, help="one scene")
    only = parser.parse_args().only
    found = [measure(name, scene) for name, scene in SCENES.items() if only in (None, name)]
    return max(found)


def measure(name: str, scene: Scene) -> int:
    """Run one scene on its own fabric. Returns an exit code."""
    if any(option in scene.options for option in TORCH) and not importlib.util.find_spec("torch"):
        print(f"== {name}: left out, torch is not installed (make .venv/.with-torch installs it)", flush=True)
        return 0
    shape = ["--nodes", str(scene.nodes), "--netns", "--rate", "1gbit"]
    if subprocess.run([*FANIN, "fabric", "up", "--name", NAME, *shape]).returncode:
        return 1
    try:
        print(f"== {name}: {scene.nodes} nodes, stragglers.py {scene.options}", flush=True)
        program = [sys.executable, "examples/training/stragglers.py", *scene.options.split()]
        ranks = ["-n", str(scene.nodes), "--slots", str(scene.slots)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
        command = [*FANIN, "run", "--name", NAME, *ranks, "--", *program]
        return subprocess.run(command, cwd=ROOT, env=environment).returncode
    finally:
        subprocess.run([*FANIN, "fabric", "down", "--name", NAME], check=False)


if __name__ == "__main__":
    sys.exit(main())
