"""The RTL broken in one place at a time: the tests of the broken module must fail.

    python -m fpga_cosim.tb.mutants [PART_OF_A_NAME ...]

A mutant is a copy of the RTL with one text replaced. The tests named beside it run against the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from fpga_cosim.tb.tools import BUILD, ROOT, RTL


class Mutant(NamedTuple):
    """name: what is wrong. module: the file. test: the folder or file of tests that must fail."""

    name: str
    module: str
    right: str
    wrong: str
    test: str = ""


MUTANTS = tuple(Mutant(**each) for each in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["mutant"])


def folder_of(mutant: Mutant) -> Path:
    """Where a mutant is made."""
    return BUILD / "mutants" / mutant.name.replace(" ", "_")


def make(mutant: Mutant) -> Path:
    """The RTL with the mutant in it."""
    folder = folder_of(mutant) / "rtl"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RTL, folder)
    source = folder / f"{mutant.module}.v"
    source.write_text(source.read_text().replace(mutant.right, mutant.wrong))
    return folder


def is_caught(mutant: Mutant) -> bool:
    """Whether the tests fail. An error of a tool is no catch: it is raised as RuntimeError."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--packets=20000"]
    command += [str(ROOT / "fpga_cosim/tb" / (mutant.test or mutant.module))]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "FANIN_RTL": str(make(mutant))}, capture_output=True, text=True
    )
    if "ToolFailed" in done.stdout or done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.name}: the tests did not run:\n{done.stdout[-3000:]}{done.stderr}")
    return done.returncode == 1


def main() -> int:
    """Try the mutants whose names or modules are given; 1 if one is not caught."""
    wanted = [
        each for each in MUTANTS if not sys.argv[1:] or any(arg in (each.name, each.module) for arg in sys.argv[1:])
    ]
    alive = 0
    for mutant in wanted:
        caught = is_caught(mutant)
        alive += not caught
        print(f"{'caught' if caught else 'ALIVE ':6}  {mutant.module}: {mutant.name}", flush=True)
        shutil.rmtree(folder_of(mutant), ignore_errors=True)
    print(f"{len(wanted) - alive} of {len(wanted)} caught")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
