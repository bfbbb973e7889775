"""Rounds of real faults on a fabric of their own: in each a job reduces while one fault happens.

Every rank must have a right result or, if the fault may lose a member, a named error. Afterwards the devices must hold
nothing. A killed device is restarted for the next round. A device that ends by itself, and every exception in a part of
a round, is a finding. Each round has its own seed.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random

from fanin import Communicator, FaninError
from fanin_sim.findings import Category
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lease import leased
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.launch import job_file
from fanin_tools.stress.faults import looping_rank
from fanin_tools.stress.faults.fault_kinds import (
    BRIEF_SECONDS,
    DETECTION_SECONDS,
    KINDS,
    NODES,
    FaultKind,
    cut_super_packets,
    frozen,
    is_of_rank,
    kill,
    lost,
)
from fanin_tools.stress.faults.rank_threads import RanksHang, describe, job, run_ranks, socket_of
from fanin_tools.stress.faults.reduction import REPEAT, ReductionProgress, reduce
from fanin_tools.stress.faults.resource_leaks import ResourceGrowth, devices_holding_resources
from fanin_tools.stress.tally import Tally, Work

RANKS = 6
MEBIBYTES = (16, 16, 16, 32, 64)  # lengths of a message; most are short, so that there are many rounds
ROUND_SECONDS = 60.0
MAX_DELAY_SECONDS = 0.3  # from the first request until the fault
EXPECTED_ERRORS = {"PeerLost", "DeviceLost"}  # errors of ranks if a member is lost
# Permissions that faults of links need, each with a command that fails without it
PERMISSION_PROBES = {
    "the right to make network namespaces": ("unshare", "--net", "true"),
    "nftables in the kernel": ("unshare", "--net", "nft", "list", "ruleset"),
}


class FaultRounds:
    """On one running fabric. Counts and findings go to `tally`."""

    def __init__(self, running: Running, tally: Tally) -> None:
        self.running, self.tally = running, tally
        self._growth = ResourceGrowth()
        self._killed: str | None = None  # device, by this round's fault

    def run(self, seconds: float, seed: int) -> None:
        """Rounds with the seeds `seed`, `seed` + 1, ... for `seconds`; at least one."""
        end = time.monotonic() + seconds
        self.run_round(seed)
        while time.monotonic() < end:
            seed += 1
            self.run_round(seed)

    def run_round(self, seed: int) -> None:
        """The seed chooses the fault, the route, the length and the moment of the fault."""
        random = Random(seed)
        kind = random.choice([kind for kind in KINDS if self.running.fabric.netns or not kind.is_of_link])
        route, elements = random.choice(("tree", "ring")), random.choice(MEBIBYTES) << 18
        delay = random.random() * MAX_DELAY_SECONDS
        self.tally.begin(f"fanin soak --replay {seed}", f"{kind.name}, {route}, {elements >> 18} MiB")
        self.tally.work[Work.FAULT_ROUNDS] += 1
        self.tally.faults[kind.name] += 1
        self._killed = None
        run = self._with_rank_fault if is_of_rank(kind) else self._with_device_fault
        self._attempt(lambda: run(kind, route, elements, delay, random))
        self._attempt(self._restart_dead_devices)
        self._attempt(self._check_leaks)

    def _attempt(self, part: Callable[[], None]) -> None:
        """An exception is a finding, and the next part follows."""
        try:
            part()
        except RanksHang as error:
            ranks = ", ".join(map(str, error.ranks))
            self.tally.find(Category.HANG, f"ranks {ranks} hang", len(error.ranks))
        except Exception as error:
            self.tally.find(Category.OTHER, f"{type(error).__name__}: {error}")

    def _with_device_fault(self, kind: FaultKind, route: str, elements: int, delay: float, random: Random) -> None:
        work = ReductionProgress()
        with job(self.running, RANKS, route) as members:
            inject = self._delayed_fault(work, delay, lambda: self._inject(kind, random))
            self._count(kind, lambda rank: work.do(lambda: reduce(members[rank], elements, work)), range(RANKS), inject)

    def _delayed_fault(self, work: ReductionProgress, delay: float, fault: Callable[[], None]) -> Callable[[], None]:
        """Calls `fault` `delay` seconds after the ranks have begun."""

        def inject() -> None:
            work.wait_until_begun()
            time.sleep(delay)
            self.tally.work[Work.FAULTS_DURING_WORK] += work.is_under_way
            fault()

        return inject

    def _inject(self, kind: FaultKind, random: Random) -> None:
        with kind.inject(self.running, random) as self._killed:
            time.sleep(BRIEF_SECONDS)
            if kind.loses:
                time.sleep(BRIEF_SECONDS)
                self.tally.work[Work.PACKETS_LOST] += lost(self.running.fabric)

    def _with_rank_fault(self, kind: FaultKind, route: str, elements: int, delay: float, random: Random) -> None:
        """One rank is a process, which the fault kills or stops.

        It reduces as often as the others: one more request after others have left would end the job with ABORTED, also
        for those that still wait for their last result.
        """
        target = random.randrange(RANKS)
        placement, description = describe(self.running, RANKS, route)
        path = job_file.write(self.running, description.to_dict())
        sockets = [socket_of(self.running, placement, rank) for rank in range(RANKS)]

        work = ReductionProgress()

        def act(rank: int) -> int:
            with contextlib.closing(Communicator(description, rank, sockets[rank])) as member:
                return reduce(member, elements, work, zeros=target)

        others = [rank for rank in range(RANKS) if rank != target]
        arguments = [str(path), str(target), sockets[target], str(elements), str(REPEAT)]
        command = [sys.executable, "-m", looping_rank.__name__, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                inject = self._delayed_fault(work, delay, lambda: _inject_into_process(kind, process))
                self._count(kind, lambda rank: work.do(lambda: act(rank)), others, inject)
            finally:
                process.kill()
                path.unlink(missing_ok=True)

    def _count(
        self, kind: FaultKind, act: Callable[[int], int], ranks: Sequence[int], inject: Callable[[], None]
    ) -> None:
        """Let all ranks act while a fault happens. act: returns the number of wrong results."""
        thread = threading.Thread(target=self._attempt, args=(inject,))
        thread.start()
        try:
            outcomes = run_ranks(len(ranks), lambda index: act(ranks[index]), ROUND_SECONDS)
        finally:
            thread.join()
        for outcome in outcomes:
            self._count_outcome(kind, outcome)

    def _count_outcome(self, kind: FaultKind, outcome: FaninError | int) -> None:
        """outcome: a rank's error, or the number of its wrong results."""
        if not isinstance(outcome, FaninError):
            if outcome:
                self.tally.find(Category.WRONG_RESULT, f"{outcome} wrong results of a rank", outcome)
            else:
                self.tally.work[Work.RIGHT_RESULTS] += 1
            return
        name = type(outcome).__name__
        if kind.is_fatal and name in EXPECTED_ERRORS:
            self.tally.errors[name] += 1
        else:
            self.tally.find(Category.OTHER, f"{name}, which this fault does not cause")

    def _restart_dead_devices(self) -> None:
        """A device that the fault has not killed is a finding."""
        dead = [name for name, process in self.running.state.processes().items() if not process.alive]
        for name in dead:
            if name != self._killed:
                self.tally.find(Category.OTHER, f"{name} has ended by itself")
            lifecycle.restart(self.running.fabric.name, name, _silent)

    def _check_leaks(self) -> None:
        """Record what devices hold after the round."""
        holding = dict.fromkeys(devices_holding_resources(self.running), 1)
        files, memory = self._growth.measure(self.running)
        leaks = (Category.LEAKED_SLOTS, holding), (Category.LEAKED_FILES, files), (Category.LEAKED_MEMORY, memory)
        for violation, devices in leaks:
            if devices:
                resource = violation.value.removeprefix("leaked_")
                amounts = ", ".join(f"{name} {amount}" for name, amount in devices.items())
                self.tally.find(violation, f"{resource} leak: {amounts}", len(devices))


def _inject_into_process(kind: FaultKind, process: subprocess.Popen[bytes]) -> None:
    """Kill or stop the process when it has joined its job."""
    assert process.stdout is not None
    process.stdout.readline()
    identity = ProcessIdentity.of(process.pid)
    if kind.kills:
        kill(identity)
    else:
        with frozen(identity):
            time.sleep(2 * DETECTION_SECONDS)


def _silent(text: str) -> None:
    """Ignore progress."""


def missing_requirements() -> str:
    """What this machine lacks for faults of links; "" if nothing."""
    tools = [tool for tool in ("ip", "tc", "nft", "unshare") if shutil.which(tool) is None]
    needs = (["root"] if os.geteuid() else []) + tools
    return ", ".join(needs) or next((name for name, probe in PERMISSION_PROBES.items() if not _works(probe)), "")


def _works(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


@contextlib.contextmanager
def fabric() -> Iterator[Running]:
    """For rounds: in namespaces if this user may create them, else on loopback. It ends with this process."""
    netns = not missing_requirements()
    shape = Shape(NODES, RANKS // NODES, netns=netns, detection=DETECTION_SECONDS)
    with leased(Plan(f"faults-{os.getpid()}", shape), _silent) as running:
        if netns:
            cut_super_packets(running.fabric)
        yield running
