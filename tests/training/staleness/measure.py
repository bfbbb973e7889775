"""How much bounded staleness gains: real processes, four nodes in namespaces, links of 1 Gbit/s.

    python -m tests.training.staleness.measure

Runs examples/training/stragglers.py for digits and, where torch is installed, for a small transformer: with random
pauses, and with one rank that is slow in every step. Needs root. Minutes, on a machine that does nothing else.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAME, NODES, SLOTS = "training-stale", 4, 16
FANIN = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()"]
PERSISTENT = ["--pause", "0", "--slow", "1", "--factor", "3", "--runs", "1"]


def main() -> int:
    shape = ["--nodes", str(NODES), "--netns", "--rate", "1gbit"]
    if subprocess.run([*FANIN, "fabric", "up", "--name", NAME, *shape]).returncode:
        return 1
    try:
        models = [[], ["--transformer"]] if importlib.util.find_spec("torch") else [[]]
        if len(models) == 1:
            print("torch is not installed: without the transformer (make .venv/.with-torch installs it)", flush=True)
        for model in models:
            for stragglers in ([], PERSISTENT):
                print(f"== {' '.join(['stragglers.py', *model, *stragglers])}", flush=True)
                program = [sys.executable, "examples/training/stragglers.py", *model, *stragglers]
                command = [*FANIN, "run", "--name", NAME, "-n", str(NODES), "--slots", str(SLOTS), "--", *program]
                if subprocess.run(command, cwd=ROOT).returncode:
                    return 1
        return 0
    finally:
        subprocess.run([*FANIN, "fabric", "down", "--name", NAME], check=False)


if __name__ == "__main__":
    sys.exit(main())
