"""UCC's own tests with its layer `sharp` over the devices: python -m tests.sharp_lib.ucc INSTALLED [COUNT].

INSTALLED is where UCC has been installed, with libsharp_coll; `make ucc` makes it. COUNT: seeds of ucc_test_mpi, 1 if it
is left out. Four ranks of one MPI program have a NIC each, below one switch, on loopback. UCC compares every result; its
table of scores says to which layer it gives each collective, and the library how many it was given.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Shape, make

RANKS = 4
BOUND_S = 3000
COLLECTIVES = ("allreduce", "bcast", "barrier", "allgather", "reduce_scatter")
NAMES = {"allreduce": "allreduces", "bcast": "broadcasts", "barrier": "barriers", "allgather": "allgathers",
         "reduce_scatter": "reduce-scatters"}  # fmt: skip
SETTINGS = {
    "UCC_TLS": "sharp,ucp",
    "UCC_CLS": "basic",
    "UCC_TL_SHARP_TEAM_MAX_PPN": str(RANKS),  # all ranks are of this machine
    # As UCC's default leaves messages of less than 16 KiB of these two to others. Devices take any length.
    "UCC_TL_SHARP_TUNE": "allgather:0-inf:inf#reduce_scatter:0-inf:inf",
    "UCC_LOG_LEVEL": "info",
    "FANIN_SHARP_REPORT": "1",
}
# Of types and operations that devices compute. sum of bf16 is compared by UCC with what MPI has for it, which is none.
INTEGERS = ["-d", "int8,uint8,int16,uint16,int32,uint32,int64,uint64", "-o", "sum,max,min,land,lor,lxor,band,bor,bxor"]
FLOATS = ["-d", "float32,float64", "-o", "sum,max,min"]
TESTS = [
    ["-c", "allreduce,reduce_scatter", *INTEGERS],
    ["-c", "allreduce,reduce_scatter", *FLOATS],
    ["-c", "bcast,allgather,barrier", "-r", "all"],
]
COMMON = ["-t", "world,reverse,half,odd_even", "-M", "host", "-I", "2", "-P", "2", "-O", "0", "-m", "8:1048576"]
LEFT = re.compile(r"has left job \d+, after (.*)")
SCORE = re.compile(r"(Allreduce|Bcast|Barrier|Allgather|Reduce_scatter):\n.*?(\{.*)")
JOBS = re.compile(r"rank \d of \d has joined job (\d+)")


def mpirun(installed: Path, sockets: str, command: list[str]) -> str:
    """What a program of UCC has written, of four ranks. Ends the process if it has failed."""
    settings = SETTINGS | {"FANIN_SOCKET": sockets, "LD_LIBRARY_PATH": str(installed / "lib")}
    names = [word for name in settings for word in ("-x", name)]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # The MPI that compares must not be UCC's as well.
    line = [
        "mpirun",
        *root,
        "--oversubscribe",
        "-n",
        str(RANKS),
        "--mca",
        "pml",
        "ob1",
        "--mca",
        "btl",
        "self,vader,tcp",
    ]
    line += [*names, str(installed / "bin" / command[0]), *command[1:]]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        done = subprocess.run(line, env=os.environ | settings, text=True, timeout=BOUND_S, **pipe)  # type: ignore[call-overload]
    except FileNotFoundError:
        sys.exit("fanin: NOT_SUPPORTED: mpirun is missing; install an MPI (Debian: openmpi-bin)")
    output: str = done.stdout
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{output[-8000:]}")
    return output


def given(output: str) -> dict[str, int]:
    """How many collectives of each kind the library was given, in all jobs and by all ranks."""
    counts: dict[str, int] = {}
    for line in LEFT.findall(output):
        for number, name in re.findall(r"(\d+) ([\w-]+)", line):
            counts[name] = counts.get(name, 0) + int(number)
    return counts


def require_given(output: str, collectives: tuple[str, ...]) -> str:
    """The counts in words. Ends the process if the library was given none of a kind."""
    counts = given(output)
    missing = [name for name in collectives if not counts.get(NAMES[name])]
    if missing:
        sys.exit(f"UCC gave none of {', '.join(missing)} to sharp:\n{output[-8000:]}")
    jobs = len(set(JOBS.findall(output)))
    return f"{jobs} jobs: " + ", ".join(f"{counts[NAMES[name]]} {NAMES[name]}" for name in collectives)


def check(installed: Path, sockets: str, seeds: int) -> None:
    """Run UCC's tests, and its benchmark for the sake of the longest messages."""
    for seed in range(1, seeds + 1):
        for test in TESTS:
            collectives = tuple(test[1].split(","))
            output = mpirun(installed, sockets, ["ucc_test_mpi", *COMMON, *test, "-s", str(seed)])
            passed = re.search(r"passed: +(\d+).*?failed: +(\d+)", output, re.S)
            if not passed or int(passed[2]) or not int(passed[1]):
                sys.exit(f"ucc_test_mpi {' '.join(test)}:\n{output[-8000:]}")
            print(
                f"ucc_test_mpi {' '.join(test)}: {passed[1]} passed; {require_given(output, collectives)}", flush=True
            )
    for collective in COLLECTIVES:
        output = mpirun(installed, sockets, ["ucc_perftest", "-c", collective, "-b", "1", "-e", "1048576", "-n", "20"])
        print(f"ucc_perftest -c {collective}: {require_given(output, (collective,))}")
        scores = [line for line in output.splitlines() if "TL_SHARP" in line]
        if not scores:
            sys.exit(f"UCC's table of scores has no sharp:\n{output[-8000:]}")
    print("UCC's table of scores:", *scores, sep="\n")


def main() -> None:
    if len(sys.argv) not in (2, 3) or not (installed := Path(sys.argv[1]).resolve() / "bin/ucc_test_mpi").exists():
        sys.exit("give the folder where UCC is installed: it has bin/ucc_test_mpi")
    fabric = make("ucc", Shape(nodes=RANKS, ranks_per_node=RANKS), f"127.79.{os.getpid() % 256}")
    running = lifecycle.up(fabric, lambda _: None)
    try:
        sockets = ":".join(str(running.state.socket(nic.name)) for nic in fabric.nics)
        check(installed.parents[1], sockets, int(sys.argv[2]) if len(sys.argv) == 3 else 1)
    finally:
        lifecycle.down(fabric.name)


if __name__ == "__main__":
    main()
