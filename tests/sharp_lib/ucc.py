"""UCC's own tests and benchmark, with its layer `sharp` over the devices beside its layer `ucp` alone.

python -m tests.sharp_lib.ucc INSTALLED: where UCC has been installed, with libsharp_coll; `make ucc` makes it. UCX may
be beside it, in the folder `ucx`. Four ranks of one MPI program have a NIC each, below one switch, on loopback. UCC
compares every result with MPI's; its table of scores says to which layer it gives each collective, and the library how
many it was given. All that is not as it should be ends the process with an exit status.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Shape, make

RANKS = 4
BOUND_S = 1800  # of one program
WITHOUT, WITH = LAYERS = ("ucp", "sharp,ucp")
NAMES = {  # UCC's name of a collective -> its name in the table of scores, and in what the library says
    "allreduce": ("Allreduce", "allreduces"),
    "bcast": ("Bcast", "broadcasts"),
    "barrier": ("Barrier", "barriers"),
    "allgather": ("Allgather", "allgathers"),
    "reduce_scatter": ("Reduce_scatter", "reduce-scatters"),
}
SETTINGS = {
    "UCC_CLS": "basic",
    "UCC_TL_SHARP_TEAM_MAX_PPN": str(RANKS),  # all ranks are of this machine
    "UCC_TL_SHARP_MIN_TEAM_SIZE": "2",
    # UCC's default leaves messages of less than 16 KiB of these two to others. Devices take any length.
    "UCC_TL_SHARP_TUNE": "allgather:0-inf:inf#reduce_scatter:0-inf:inf",
    "UCC_LOG_LEVEL": "info",
    "FANIN_SHARP_REPORT": "1",
}
# Of types and operations that devices compute. UCC compares sums of bf16 with MPI's, which has none.
INTEGERS = ["-d", "int8,uint8,int16,uint16,int32,uint32,int64,uint64", "-o", "sum,max,min,land,lor,lxor,band,bor,bxor"]
FLOATS = ["-d", "float32,float64", "-o", "sum,max,min"]
TESTS = [
    ["-c", "bcast,allgather,barrier", "-r", "all", "-d", "int8,float64", "-m", "8:1048576:32", "-P", "2"],
    ["-c", "allreduce,reduce_scatter", *FLOATS, "-m", "8:1048576:32", "-P", "2"],
    ["-c", "allreduce,reduce_scatter", *INTEGERS, "-m", "2048:2048", "-P", "0"],
]
COMMON = ["-t", "world,reverse,half,odd_even", "-M", "host", "-I", "2", "-O", "0"]
BENCHMARK = ["-b", "1024", "-e", "65536", "-n", "10", "-w", "2"]  # elements of f32; too few to measure
LEFT = re.compile(r"has left job \d+, after (.*)")
JOINED = re.compile(r"rank \d+ of (\d+) has joined job (\d+)")
SCORE = re.compile(r"UCC  INFO +(\w+):\n.*UCC  INFO \s*(Host: .*)")
TIME = re.compile(r"^ +(?:\d+|N/A) +(\d+|N/A) +([\d.]+) ", re.M)


def mpirun(installed: Path, sockets: str, layers: str, command: list[str]) -> str:
    """What a program of UCC has written, of four ranks that may use some layers. Ends the process if it has failed."""
    libraries = f"{installed / 'lib'}:{installed.parent / 'ucx/lib'}"
    settings = SETTINGS | {"UCC_TLS": layers, "FANIN_SOCKET": sockets, "LD_LIBRARY_PATH": libraries}
    names = [word for name in settings for word in ("-x", name)]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # The MPI that compares does not use UCX, and not the instructions with which its sums of 8 bits saturate.
    compares = ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp,vader", "--mca", "op", "^avx"]
    line = ["mpirun", *root, "--oversubscribe", "-n", str(RANKS), *compares]
    line += [*names, str(installed / "bin" / command[0]), *command[1:]]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        done = subprocess.run(line, env=os.environ | settings, text=True, timeout=BOUND_S, **pipe)  # type: ignore[call-overload]
    except FileNotFoundError:
        sys.exit("fanin: NOT_SUPPORTED: mpirun is missing; install an MPI (Debian: openmpi-bin)")
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(command)} has not ended within {BOUND_S} s")
    output: str = done.stdout
    if done.returncode:
        sys.exit(f"{' '.join(command)} with {layers} ended with {done.returncode}:\n{output[-8000:]}")
    return output


def given(output: str) -> dict[str, int]:
    """How many collectives of each kind the library was given, in all jobs and by all ranks."""
    counts: dict[str, int] = {}
    for line in LEFT.findall(output):
        for number, name in re.findall(r"(\d+) ([\w-]+)", line):
            counts[name] = counts.get(name, 0) + int(number)
    return counts


def require_given(output: str, layers: str, collectives: list[str]) -> str:
    """What the library was given, in words. Ends the process if that is none of a kind, or any where it has no part."""
    counts, jobs = given(output), {jid: size for size, jid in JOINED.findall(output)}
    if layers == WITHOUT:
        if jobs:
            sys.exit(f"sharp takes part where it is not listed:\n{output[-8000:]}")
        return "none by the devices"
    missing = [name for name in collectives if not counts.get(NAMES[name][1])]
    if missing:
        sys.exit(f"UCC gave none of {', '.join(missing)} to sharp:\n{output[-8000:]}")
    kinds = [f"{counts[NAMES[name][1]]} {NAMES[name][1]}" for name in collectives]
    return f"by the devices, counted at all ranks: {', '.join(kinds)}, in jobs of " + (
        " and ".join(f"{size} ranks" for size in sorted(set(jobs.values())))
    )


def require_scores(output: str) -> None:
    """Print UCC's choice of a layer for the five collectives. Ends the process if it is not sharp for all of them."""
    scores = dict(SCORE.findall(output))
    print("UCC's table of scores:")
    for score, _ in NAMES.values():
        line = scores.get(score, "")
        print(f"  {score}: {line}")
        if "TL_SHARP" not in line or "TL_UCP" in line:
            sys.exit(f"UCC does not give {score} to sharp:\n{output[-8000:]}")


def run_tests(installed: Path, sockets: str) -> None:
    """UCC's tests. Ends the process if one fails."""
    for test in TESTS:
        for layers in LAYERS:
            output = mpirun(installed, sockets, layers, ["ucc_test_mpi", *COMMON, *test])
            counts = {name: int(number) for name, number in re.findall(r"(passed|skipped|failed): +(\d+)", output)}
            if counts.get("failed", 1) or not counts.get("passed"):
                sys.exit(f"ucc_test_mpi {' '.join(test)} with {layers}:\n{output[-8000:]}")
            found = ", ".join(f"{number} {name}" for name, number in counts.items())
            said = require_given(output, layers, test[1].split(","))
            print(f"ucc_test_mpi {' '.join(test)}\n  {layers}: {found}; {said}")


def run_benchmark(installed: Path, sockets: str) -> None:
    """UCC's benchmark, with both: microseconds for each length."""
    for collective in NAMES:
        times = {}
        for layers in LAYERS:
            output = mpirun(installed, sockets, layers, ["ucc_perftest", "-c", collective, *BENCHMARK])
            times[layers] = TIME.findall(output)
            said = require_given(output, layers, [collective])
        if not times[WITH] or len(times[WITH]) != len(times[WITHOUT]):
            sys.exit(f"ucc_perftest -c {collective} has no table of times:\n{output[-8000:]}")
        print(f"ucc_perftest -c {collective}: {said}")
        for (length, without), (_, with_devices) in zip(times[WITHOUT], times[WITH], strict=True):
            print(f"  {length} bytes: {WITHOUT} {without} us, {WITH} {with_devices} us")
    require_scores(output)


def main() -> None:
    installed = Path(sys.argv[1] if len(sys.argv) == 2 else "").resolve()
    if not (installed / "bin/ucc_test_mpi").exists():
        sys.exit("give the folder where UCC is installed: it has bin/ucc_test_mpi")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    fabric = make("ucc", Shape(nodes=RANKS, ranks_per_node=RANKS), f"127.79.{os.getpid() % 256}")
    running = lifecycle.up(fabric, lambda _: None)
    try:
        sockets = ":".join(str(running.state.socket(nic.name)) for nic in fabric.nics)
        run_benchmark(installed, sockets)
        run_tests(installed, sockets)
    finally:
        lifecycle.down(fabric.name)


if __name__ == "__main__":
    main()
