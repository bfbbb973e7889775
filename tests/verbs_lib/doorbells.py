"""WRITE with immediate data against polling memory, for the requests of a rank over RDMA.

`python -m tests.verbs_lib.doorbells` measures both between two NICs of Fanin, through the verbs library; `python -m
tests.verbs_lib.doorbells rxe1 rxe2` between two verbs devices. It prints rows of a table.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fanin.verbs_lib import library_path
from fanin_tools.fabric import lease
from fanin_tools.fabric.generate import Plan, Shape

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("programs") / "doorbells.c"
CORE = ROOT / "host/fanin/core"
SOURCES = (SOURCE, CORE / "complaint.c", *sorted((CORE / "rdma").glob("*.c")))
FLAGS = ("-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")
OF_FANIN = ("fanin0", "fanin1")
ROUNDS = 2000
SECONDS = 300.0


class Figures(NamedTuple):
    """us one way, messages a second, messages that were incomplete when they were noticed."""

    microseconds: float
    rate: float
    torn: int


def build(folder: Path) -> Path:
    program = folder / "doorbells"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    includes = [f"-I{CORE}", f"-I{ROOT / 'protocol/fanin_wire'}"]
    subprocess.run([*compiler, *FLAGS, *includes, *map(str, SOURCES), "-o", str(program), "-ldl"], check=True)
    return program


def measure(
    program: Path, devices: Sequence[str], rounds: int, variables: Mapping[str, str] = os.environ
) -> dict[str, Figures]:
    """The figures of both ways."""
    line = [str(program), *devices, str(rounds)]
    done = subprocess.run(line, env=variables, stdout=subprocess.PIPE, text=True, check=True, timeout=SECONDS)
    rows = (row.split() for row in done.stdout.splitlines())
    return {name: Figures(float(time), float(rate), int(torn)) for name, time, rate, torn in rows}


def on_fanin(program: Path, sockets: Sequence[str], rounds: int) -> dict[str, Figures]:
    """Between the NICs at two sockets."""
    variables = {"FANIN_SOCKET": ":".join(sockets), "LD_PRELOAD": str(library_path())}
    return measure(program, OF_FANIN, rounds, os.environ | variables)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fanin-doorbells-") as folder:
        program = build(Path(folder))
        if devices := sys.argv[1:]:
            found = measure(program, devices, ROUNDS)
        else:
            plan = Plan(lease.private_name(), Shape(2, 1, direct=True, lanes=1))
            with lease.leased(plan, lambda text: None) as running:
                sockets = [str(running.state.socket(nic.name)) for nic in running.fabric.nics]
                found = on_fanin(program, sockets, ROUNDS)
    print("| way | one way | messages a second | not whole |\n| --- | --- | --- | --- |")
    for name, figures in found.items():
        print(f"| {name} | {figures.microseconds:.1f} us | {figures.rate:.0f} | {figures.torn} |")


if __name__ == "__main__":
    main()
