"""Ranks as processes of one job, and kills of them and of their devices at random moments."""

import os
import random
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import fanin
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import kill_device
from tests.e2e.fabrics import BOUND_S, assert_released, silent
from tests.e2e.members import describe

PACKAGE = Path(fanin.__file__).parent
WORKING_RANK = Path(__file__).with_name("programs") / "working_rank.c"
FLAGS = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
ROOT = Path(__file__).parents[2]
SIZES = {"local": 2, "tree": 4, "ring": 4}  # ranks of a job, by its route
MAX_CALLS = 20  # before a kill
MAX_PAUSE = 0.03  # s: so that a kill comes in any part of a call


def build_working_rank(folder: Path) -> Path:
    """In C, so that it starts at once on any machine."""
    program = folder / WORKING_RANK.stem
    link = [f"-I{PACKAGE / 'include'}", f"-L{PACKAGE}", "-l:libfanin.so", f"-Wl,-rpath,{PACKAGE}"]
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, *FLAGS, str(WORKING_RANK), "-o", str(program), *link], check=True)
    return program


class Ranks:
    """The ranks of a job, started.

    addresses: of their device, by node. variables: their environment. program: called with the job's file, its rank,
    the address of its device, and `arguments`.
    """

    def __init__(
        self,
        running: Running,
        addresses: Sequence[str],
        variables: Mapping[str, str],
        folder: Path,
        route: str,
        program: Sequence[str | Path],
        *arguments: str,
    ) -> None:
        self.placement, job = describe(running, SIZES[route], route, 8)
        path = folder / "job"
        path.write_text(job.to_text())
        self.processes = []
        for rank in range(SIZES[route]):
            line = [*program, path, str(rank), addresses[self.placement.node_of(rank)], *arguments]
            pipe = subprocess.PIPE
            process = subprocess.Popen(line, cwd=ROOT, env=variables, stdout=pipe, stderr=pipe, text=True)
            self.processes.append(process)

    def await_work(self, calls: int = 1) -> None:
        """Wait until each has made so many calls."""
        for process in self.processes:
            assert process.stdout is not None
            for _ in range(calls):
                line = process.stdout.readline()
                assert line == "ready\n", line + process.stderr.read()  # type: ignore[union-attr]

    def ends(self, seconds: float = 2 * BOUND_S) -> list[str]:
        """The last line of each rank."""
        found = []
        for process in self.processes:
            output, errors = process.communicate(timeout=seconds)
            assert "Traceback" not in errors, errors
            found.append((output.splitlines() or [""])[-1])
        return found

    def names(self, seconds: float = 2 * BOUND_S) -> list[str]:
        """Error name of each rank; "" of a killed one."""
        return [
            "" if process.returncode == -signal.SIGKILL else end
            for process, end in zip(self.processes, self.ends(seconds), strict=True)
        ]


class Kills:
    """Kills of ranks and devices one by one, each in a new job, by the choices of a seed. start: starts the ranks of a
    job on a route. seconds: limit for the ranks to end."""

    def __init__(self, running: Running, start: Callable[[str], Ranks], seed: int, seconds: float = BOUND_S) -> None:
        self._running, self._start, self._seconds = running, start, seconds
        self._choose, self._seed, self._kill = random.Random(seed), seed, 0

    def kill_rank(self, route: str) -> str:
        """The others lose a member. Returns what was killed. AssertionError, also if a device holds something."""
        ranks, victim = self._at_work(route), self._choose.randrange(SIZES[route])
        ranks.processes[victim].send_signal(signal.SIGKILL)
        expected = ["" if rank == victim else "PEER_LOST" for rank in range(SIZES[route])]
        self._check(f"rank {victim} of {route}", ranks, expected)
        return f"rank {victim} of {route}"

    def kill_device(self, route: str) -> str:
        """Its ranks get its loss, the others that of members. Another device replaces it. As `kill_rank`."""
        ranks = self._at_work(route)
        node = self._choose.randrange(len(ranks.placement.nics))
        lost = ranks.placement.nics[node].name
        kill_device(self._running, lost)
        nodes = map(ranks.placement.node_of, range(SIZES[route]))
        expected = ["DEVICE_LOST" if other == node else "PEER_LOST" for other in nodes]
        try:
            self._check(f"{lost} of {route}", ranks, expected)
        finally:
            lifecycle.restart(self._running.fabric.name, lost, silent)
        return f"{lost} of {route}"

    def _at_work(self, route: str) -> Ranks:
        """A pause, not a wait, since the moment is to be random."""
        self._kill += 1
        ranks = self._start(route)
        ranks.await_work(self._choose.randint(1, MAX_CALLS))
        time.sleep(self._choose.uniform(0, MAX_PAUSE))
        return ranks

    def _check(self, what: str, ranks: Ranks, expected: list[str]) -> None:
        found = ranks.names(self._seconds)
        which = f"kill {self._kill} of seed {self._seed}: {what}"
        assert found == expected, f"{which}: the ranks say {found}, not {expected}"
        assert_released(self._running, self._seconds)
