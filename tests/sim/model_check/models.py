"""The models of the protocol in `protocol/models`, checked by spin, and the tables of all searches.

    python -m tests.sim.model_check.models [spin] [explorer]

runs all searches, which takes minutes, and writes the numbers of states into docs/models.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from fanin_sim.model_check.explorer import Explorer
from fanin_sim.model_check.instances import INSTANCES

ROOT = Path(__file__).parents[3]
MODELS = ROOT / "protocol" / "models"
PAGE = ROOT / "docs" / "models.md"
WAIT_S = 900
COMPILER = ["gcc", "-w", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=2000"]  # MiB
VERIFIER = ["./pan", "-a", "-n", "-m1000000"]  # assertions and cycles, up to that depth
SOUND, ASSERTION, CYCLE = "holds", "an assertion fails", "the work never ends"
LOST = "a wake-up is lost"  # an end state in which somebody waits for ever


class Run(NamedTuple):
    """A model with its definitions, and the expected result of the search. quick: the search takes seconds."""

    model: str
    definitions: str
    result: str
    says: str
    quick: bool = True


class Outcome(NamedTuple):
    """The result of a search, and its size. output: of the verifier."""

    result: str
    states: int
    transitions: int
    output: str


RUNS = (
    Run("tree", "STAR2", SOUND, "2 NICs, W 1, slots used again; one packet lost, one duplicated"),
    Run("tree", "STAR2 POSITIONS=5", SOUND, "slots used a third time", quick=False),
    Run("tree", "STAR2 EARLY=1", SOUND, "a probe that comes too early"),
    Run("tree", "STAR2 CROSSING", SOUND, "a result that has left just now is not sent again to the first probe"),
    Run("tree", "STAR2 LOSSES=2", SOUND, "two packets lost", quick=False),
    Run("tree", "STAR2 W=2 POSITIONS=5 COPIES=0", SOUND, "W 2", quick=False),
    Run("tree", "STAR3 COPIES=0", SOUND, "3 NICs", quick=False),
    Run("tree", "CHAIN COPIES=0", SOUND, "a middle device"),
    Run("tree", "CHAIN", SOUND, "a middle device, a packet duplicated", quick=False),
    Run("tree", "MIXED COPIES=0 POSITIONS=2", SOUND, "two levels, three NICs", quick=False),
    Run("broadcast", "STAR2 POSITIONS=2", SOUND, "data go ahead to a NIC; one packet lost, one duplicated"),
    Run("broadcast", "STAR2", SOUND, "slots used again", quick=False),
    Run("broadcast", "STAR2 COPIES=0 LOSSES=2", SOUND, "... and two packets lost"),
    Run("broadcast", "STAR2 EARLY=1", SOUND, "a probe that comes too early", quick=False),
    Run("broadcast", "STAR2 W=2 POSITIONS=4 COPIES=0", SOUND, "W 2", quick=False),
    Run("broadcast", "STAR3 POSITIONS=2", SOUND, "3 NICs", quick=False),
    Run("broadcast", "CHAIN COPIES=0", SOUND, "a middle device, which has the data from below"),
    Run("broadcast", "MIXED ROOT=4 POSITIONS=1", SOUND, "a middle device, which has the data from above"),
    Run("broadcast", "MIXED ROOT=4 POSITIONS=2 COPIES=0", SOUND, "... and two positions", quick=False),
    Run("broadcast", "MIXED POSITIONS=2 COPIES=0", SOUND, "two levels, the data from below", quick=False),
    Run(
        "broadcast",
        "MIXED ROOT_CHANGES FIRST_RESULT_LOST COPIES=0",
        SOUND,
        "slots used again, the root below a middle device and then beside it",
        quick=False,
    ),
    Run("ring", "NODES=2 COPIES=0", SOUND, "2 nodes, W 1, slots used again; one packet lost"),
    Run("ring", "NODES=2", SOUND, "one duplicated, too", quick=False),
    Run("ring", "NODES=2 W=2 POSITIONS=4 COPIES=0", SOUND, "W 2", quick=False),
    Run("ring", "NODES=3 POSITIONS=2 COPIES=0", SOUND, "3 nodes", quick=False),
    Run("jobs", "LOSSES=0", SOUND, "join, leave, join again under a new key; one packet duplicated"),
    Run("jobs", "COPIES=0", SOUND, "one packet lost"),
    Run("jobs", "", SOUND, "both", quick=False),
    Run("jobs", "RESTARTS=1 COPIES=0 LOSSES=0", SOUND, "a NIC or the switch restarts", quick=False),
    Run("jobs", "RESTARTS=1 COPIES=0 KEYS=1", SOUND, "... and a packet is lost", quick=False),
    Run("jobs", "RESTARTS=1 LOSSES=0 KEYS=1", SOUND, "... or duplicated", quick=False),
    Run("queues", "REQUESTS=2", SOUND, "send and completion ring, doorbell, futex; a place used again"),
    Run("queues", "", SOUND, "... places and buffers used again", quick=False),
    Run("queues", "SLEEPS=2 REQUESTS=2", SOUND, "... each sleeps twice", quick=False),
    Run("queues", "ARRIVALS DEPTH=2 REQUESTS=6", SOUND, "a ring that is filled unasked"),
    Run("queues", "LANES REQUESTS=1", SOUND, "two lanes, both asleep"),
    Run("queues", "LANES SLEEPS=0", SOUND, "... awake, places used again", quick=False),
    Run("queues", "RESOLVER REQUESTS=6", SOUND, "the loop of a verbs port wakes its resolver"),
    Run("remote", "", SOUND, "over RDMA: two queue pairs end while their results are under way, or the device is lost"),
    Run("remote", "ENDS=3", SOUND, "... three"),
    Run("tree", "STAR2 VERSION_BIT", ASSERTION, "one version bit in place of positions"),
    Run("tree", "STAR2 SMALL_LEASE", CYCLE, "N < 2W"),
    Run("tree", "STAR2 FORGET_RESULT", CYCLE, "the result is forgotten once it is sent"),
    Run("tree", "STAR2 NEVER_AGAIN", CYCLE, "a result is sent once"),
    Run("tree", "CHAIN DROP_IN_LOCAL", CYCLE, "a middle device drops a duplicate that it meets in LOCAL"),
    Run("tree", "STAR2 W=2 POSITIONS=5 TOKEN_CLEARS", ASSERTION, "a cumulative token clears bits"),
    Run("broadcast", "STAR2 SMALL_LEASE", CYCLE, "N < 2W"),
    Run("broadcast", "STAR2 DATA_COUNT_AS_RESULT", CYCLE, "data that went ahead count as the result"),
    Run("broadcast", "STAR2 RESULT_ENDS", ASSERTION, "a RESULT without data ends a position"),
    Run("broadcast", "STAR2 SILENT_WITH_RESULT", CYCLE, "a child that has the RESULT does not ask for the data"),
    Run(
        "broadcast",
        "MIXED ROOT=4 POSITIONS=1 RESULT_GOES_DOWN",
        CYCLE,
        "a middle device passes on a RESULT whose data it lacks",
    ),
    Run(
        "broadcast",
        "MIXED ROOT_CHANGES FIRST_RESULT_LOST COPIES=0 REPLACED_UNPROVEN",
        ASSERTION,
        "a middle device takes data ahead before all its children have contributed a window earlier",
    ),
    Run("ring", "NODES=2 FREE_ON_RESULT", CYCLE, "a slot of a ring is freed on the result"),
    Run("ring", "NODES=2 RESULT_TAKEN_FOR_STORED", CYCLE, "the map of an ACK shows results where partials are"),
    Run("jobs", "LEAVE_OF_UNKNOWN_DROPPED", CYCLE, "LEAVE for an unknown job is not acknowledged"),
    Run("jobs", "KEY_NOT_COMPARED LOSSES=0", ASSERTION, "the key is not compared"),
    Run("jobs", "BOOT_ID_NOT_COMPARED RESTARTS=1 COPIES=0 LOSSES=0", ASSERTION, "the boot id is not compared"),
    Run(
        "jobs",
        "TOKEN_NOT_COMPARED RESTARTS=1 LOSSES=0 KEYS=1",
        ASSERTION,
        "the token of a CONFIG_ACK is not compared",
    ),
    Run("jobs", "REFUSAL_FORGOTTEN LOSSES=0", ASSERTION, "a refused incarnation is forgotten with the job in its way"),
    Run("queues", "POST=0", ASSERTION, "a request is published without release"),
    Run("queues", "FETCH=0", ASSERTION, "a request is found without acquire"),
    Run("queues", "FREE=0", ASSERTION, "the place of a request is freed without release"),
    Run("queues", "ROOM=0", ASSERTION, "the place of a request is used again without acquire"),
    Run("queues", "COMPLETE=0", ASSERTION, "a completion is published without release"),
    Run("queues", "POLL=0", ASSERTION, "a completion is found without acquire"),
    Run("queues", "BELL_FENCE=0", LOST, "no fence between post and doorbell"),
    Run("queues", "SLEEP_FENCE=0", LOST, "no fence between the device's flag and its last look"),
    Run("queues", "WAKE_FENCE=0", LOST, "no fence between completion and wake-up"),
    Run("queues", "WAIT_FENCE=0", LOST, "no fence between the rank's flag and its last look"),
    Run("queues", "ARRIVALS COMPLETE=0", ASSERTION, "an arrival is published without release"),
    Run("queues", "ARRIVALS POLL=0", ASSERTION, "an arrival is found without acquire"),
    Run("queues", "ARRIVALS TAKE=0", ASSERTION, "the place of an arrival is freed without release"),
    Run("queues", "ARRIVALS SEE=0", ASSERTION, "the place of an arrival is used again without acquire"),
    Run("queues", "LANES REQUESTS=1 SUBMIT=0", ASSERTION, "a part is given to a lane without release"),
    Run("queues", "LANES REQUESTS=1 FETCH=0", ASSERTION, "... and found without acquire"),
    Run("queues", "LANES REQUESTS=1 COMPLETE=0", ASSERTION, "a lane completes without release"),
    Run("queues", "LANES REQUESTS=1 MERGE=0", ASSERTION, "a completion of a lane is found without acquire"),
    Run("queues", "LANES REQUESTS=1 BELL_FENCE=0", LOST, "no fence before the doorbell of a lane"),
    Run("queues", "LANES REQUESTS=1 SLEEP_FENCE=0", LOST, "no fence between a lane's flag and its last look"),
    Run("queues", "RESOLVER EXCHANGE=0", LOST, "the mark of the resolver is no exchange"),
    Run(
        "remote",
        "MESSAGE=0",
        ASSERTION,
        "a completion counts when it is found in memory, not when its message is there",
    ),
    Run("remote", "MARKER=0", ASSERTION, "no marker is posted before the answer to DESTROY_QP"),
    Run("remote", "AWAIT=0", ASSERTION, "the rank does not wait for the markers"),
    Run("remote", "COUNT=0", ASSERTION, "it counts those that it has waited for, not those that were posted"),
    Run("remote", "TURN=0", ASSERTION, "a queue pair has the number of the one before"),
    Run("remote", "ENDS=3 NUMBERS=2", ASSERTION, "... or that of the one before that, while a message is under way"),
    Run("remote", "CUT=0", ASSERTION, "the queue pair stays when the device is lost"),
    Run("remote", "DESTROY=0", ASSERTION, "it is brought into the state ERR, and not destroyed"),
    Run("remote", "TELL_LAST=0", ASSERTION, "the loss is told before the queue pair is gone"),
)

FAILURES = {"assertion violated": ASSERTION, "acceptance cycle (": CYCLE, "invalid end state (": LOST}


class ModelFailed(Exception):
    """A search was not complete. The message says why."""


def missing_tools() -> list[str]:
    """Returns the tools that are needed and not installed."""
    return [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]


def check(run: Run) -> Outcome:
    """Searches a model.

    Raises:
        ModelFailed: the model can not be compiled, or is too large.
    """
    definitions = [f"-D{word}" for word in run.definitions.split()]
    speed = "-O0" if run.quick else "-O2"  # the compiler would take longer than the search
    with tempfile.TemporaryDirectory(prefix="fanin-model-") as folder:
        for command in (
            ["spin", *definitions, "-a", str(MODELS / f"{run.model}.pml")],
            [*COMPILER, speed, "-o", "pan", "pan.c"],
        ):
            made = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT_S)
            if made.returncode:
                raise ModelFailed(f"{run.model} {run.definitions}: {made.stdout}{made.stderr}")
        done = subprocess.run(VERIFIER, cwd=folder, capture_output=True, text=True, timeout=WAIT_S)
    return outcome(done.stdout + done.stderr)


def outcome(output: str) -> Outcome:
    """Reads the output of the verifier.

    Raises:
        ModelFailed: the search was not complete.
    """
    stored, transitions = re.search(r"(\d+) states, stored", output), re.search(r"(\d+) transitions", output)
    result = next((result for said, result in FAILURES.items() if said in output), SOUND)
    incomplete = result == SOUND and ("errors: 0" not in output or "not completed" in output)
    if incomplete or "too small" in output or not stored or not transitions:
        raise ModelFailed(output)
    return Outcome(result, int(stored[1]), int(transitions[1]), output)


# The page


def spin_table() -> str:
    """Runs all models, and returns the table."""
    rows = ["| model | definitions | what is in it | states | result |", "| --- | --- | --- | --- | --- |"]
    for run in RUNS:
        seen = check(run)
        if seen.result != run.result:
            raise ModelFailed(f"{run.model} {run.definitions}: {seen.result}, not: {run.result}\n{seen.output}")
        broken = "**broken:** " if run.result != SOUND else ""
        states = f"{seen.states:,}" if run.result == SOUND else f"{seen.states:,} until found"
        rows.append(f"| {run.model} | {run.definitions} | {broken}{run.says} | {states} | {seen.result} |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def explorer_table() -> str:
    """Searches all instances of the explorer, and returns the table."""
    rows = ["| instance | states | transitions | states of devices |", "| --- | --- | --- | --- |"]
    for name, instance in INSTANCES.items():
        report = Explorer(instance).run()
        rows.append(f"| {name} | {report.states:,} | {report.transitions:,} | {report.device_states:,} |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


TABLES = {"spin": spin_table, "explorer": explorer_table}


def write_table(name: str, table: str) -> None:
    """Replaces a table of the page."""
    pattern = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end of table -->)", re.DOTALL)
    text, count = pattern.subn(lambda found: f"{found[1]}{table}\n{found[2]}", PAGE.read_text())
    if count != 1:
        raise ModelFailed(f"{PAGE} has {count} tables named {name}")
    PAGE.write_text(text)


def main(names: list[str]) -> None:
    """Makes tables by name; without a name, all."""
    for name in names or TABLES:
        write_table(name, TABLES[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
