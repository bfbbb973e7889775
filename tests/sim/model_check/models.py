"""The models of shared memory in `protocol/models`, checked by spin.

    python -m tests.sim.model_check.models [spin] [explorer]

runs all searches, which takes minutes, and prints the number of states of each.
"""

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
WAIT_S = 900
COMPILER = ["gcc", "-w", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=2000"]  # MiB
VERIFIER = ["./pan", "-n", "-m1000000"]  # up to that depth
SOUND, ASSERTION = "holds", "an assertion fails"
LOST = "a wake-up is lost"  # an end state in which a thread waits for ever


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
    Run("queues", "REQUESTS=2", SOUND, "send and completion ring, doorbell, futex; a place used again"),
    Run("queues", "", SOUND, "... places and buffers used again", quick=False),
    Run("queues", "SLEEPS=2 REQUESTS=2", SOUND, "... each sleeps twice", quick=False),
    Run("queues", "ARRIVALS DEPTH=2 REQUESTS=6", SOUND, "a ring that is filled unasked"),
    Run("queues", "LANES REQUESTS=1", SOUND, "two lanes, both asleep"),
    Run("queues", "LANES SLEEPS=0", SOUND, "... awake, places used again", quick=False),
    Run("queues", "RESOLVER REQUESTS=6", SOUND, "the loop of a verbs port wakes its resolver"),
    Run("remote", "", SOUND, "over RDMA: two queue pairs end while their results are under way, or the device is lost"),
    Run("remote", "ENDS=3", SOUND, "... three"),
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

FAILURES = {"assertion violated": ASSERTION, "invalid end state (": LOST}


class ModelFailed(Exception):
    """A search was not complete. The message says why."""


def missing_tools() -> list[str]:
    """The missing tools."""
    return [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]


def check(run: Run) -> Outcome:
    """Search a model. Raises ModelFailed if it can not be compiled, or is too large."""
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
    """Parse the output of the verifier. Raises ModelFailed if the search was incomplete."""
    stored, transitions = re.search(r"(\d+) states, stored", output), re.search(r"(\d+) transitions", output)
    result = next((result for said, result in FAILURES.items() if said in output), SOUND)
    incomplete = result == SOUND and ("errors: 0" not in output or "not completed" in output)
    if incomplete or "too small" in output or not stored or not transitions:
        raise ModelFailed(output)
    return Outcome(result, int(stored[1]), int(transitions[1]), output)


def search_models() -> None:
    """Runs all models. Raises ModelFailed if a result is another than the expected one."""
    for run in RUNS:
        seen = check(run)
        if seen.result != run.result:
            raise ModelFailed(f"{run.model} {run.definitions}: {seen.result}, not: {run.result}\n{seen.output}")
        print(f"{run.model} {run.definitions}: {run.says}: {seen.states:,} states", flush=True)


def search_instances() -> None:
    """Searches all instances of the explorer."""
    for name, instance in INSTANCES.items():
        print(f"{name}: {Explorer(instance).run().states:,} states", flush=True)


SEARCHES = {"spin": search_models, "explorer": search_instances}


def main(names: list[str]) -> None:
    for name in names or SEARCHES:
        SEARCHES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
