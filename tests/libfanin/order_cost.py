"""What the order of the ranks costs: python -m tests.libfanin.order_cost. docs/collectives.md has its ratios.

An allreduce of f32 in two jobs of the same processes, in turns: one adds as data come, the other in the order of the
ranks. On one node, below a switch, and in a ring; ranks and devices share the cores of this machine.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from fanin_tools.errors import ToolError
from fanin_tools.fabric import lease
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import place
from fanin_wire.settings import JobSettings
from tests.libfanin.conftest import PROGRAMS

CORE = Path(__file__).parents[2] / "host/fanin"
SHAPES = {
    "one node, 4 ranks": (Shape(nodes=1, ranks_per_node=4), 4),
    "one node, 16 ranks": (Shape(nodes=1, ranks_per_node=16), 16),
    "a switch, 4 nodes": (Shape(nodes=4, ranks_per_node=1), 4),
    "a ring, 4 nodes": (Shape(nodes=4, ranks_per_node=1, direct=True), 4),
}


def ranks_of(running: Running, ranks: int, program: Path, rounds: int, most: int) -> list[list[str]]:
    """The command of each rank."""
    placement = place(running.fabric, ranks, "auto")
    settings = [JobSettings(), JobSettings(reproducible="run")]
    jobs = [str(job_file.write(running, job_file.describe(running, placement, each))) for each in settings]
    sockets = [str(running.state.socket(placement.nics[placement.node_of(rank)].name)) for rank in range(ranks)]
    return [[str(program), socket, str(rank), *jobs, str(rounds), str(most)] for rank, socket in enumerate(sockets)]


def measure(name: str, program: Path, rounds: int, most: int) -> None:
    """Print the rows of one shape."""
    shape, ranks = SHAPES[name]
    with lease.leased(Plan(lease.private_name(), shape), lambda text: print(text, file=sys.stderr)) as running:
        first, *others = ranks_of(running, ranks, program, rounds, most)
        beside = [subprocess.Popen(command) for command in others]
        with subprocess.Popen(first, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                size, arrival, rank, ratio = line.split()
                print(
                    f"| {name} | {size} | {float(arrival):.1f} | {float(rank):.1f} | {float(ratio):.2f} |", flush=True
                )
        if any([process.wait(), *(other.wait() for other in beside)]):
            raise ToolError("PROGRAM_FAILED", f"ranks of {name} have failed", "read what they say above")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.libfanin.order_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--bytes", type=int, default=4 << 20, help="of the longest message")
    given = parser.parse_args()
    print(
        "| | bytes | as data come, us | order of the ranks, us | ratio |\n| --- | --- | --- | --- | --- |", flush=True
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "order_cost"
            options = [f"-I{CORE}/include", f"-L{CORE}", "-lfanin", f"-Wl,-rpath,{CORE}", "-O2", "-o", str(program)]
            subprocess.run(["cc", PROGRAMS / "order_cost.c", *options], check=True)
            for name in SHAPES:
                measure(name, program, given.rounds, given.bytes)
    except ToolError as error:
        sys.exit(f"fanin: {error}")


if __name__ == "__main__":
    main()
