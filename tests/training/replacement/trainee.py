"""A process of a training: `trainee.py JOB RANK SOCKET WORKERS STEPS MODEL LIMIT [FAULT...]`; MODEL: `linear`, `torch`.

It prints the losses, each with the time, and how it ended. Times are seconds of the machine's monotonic clock.

Faults: `kill=STEP`, `stop=STEP`: it kills or stops itself in the middle of the step, with a collective under way.
`cut=STEP`: it runs the command in FANIN_TEST_CUT there, and goes on.
`kill-loading`, `kill-waiting`: it kills itself when it gets the state, or as a spare, before it waits.
`kill-finished`, `stop-finished`: it kills or stops itself when it has heard that all is done.
`deaf`: it misses this the first time. `deaf-rows`: and the rows of the others, the first time.
`alone=STEP`: at the end of the step it begins a collective without the others.
LIMIT: seconds after which a process that stands still counts as lost.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from fanin import Communicator, FaninError, Job
from fanin.errors import Timeout
from fanin_train.errors import TrainingError
from fanin_train.replacement.recovery import FINISHED, Training, exchange
from tests.training.replacement.models import Linear, Model
from tests.waiting import TORCH_BOUND_S


def make_model(kind: str, on_load: Callable[[], None]) -> Model:
    """A model; torch is imported only if needed."""
    if kind == "linear":
        return Linear(on_load)
    from tests.training.replacement.torch_models import Network

    return Network(on_load)


def announced(act: Callable[[], object]) -> Callable[[], None]:
    """A fault, with a line that gives its time."""

    def fault() -> None:
        print(f"fault {time.monotonic():.3f}", flush=True)
        act()

    return fault


kill_myself = announced(lambda: os.kill(os.getpid(), signal.SIGKILL))
stop_myself = announced(lambda: os.kill(os.getpid(), signal.SIGSTOP))
cut_the_link = announced(lambda: subprocess.run(os.environ["FANIN_TEST_CUT"].split(), check=True))
FAULTS = {"kill": kill_myself, "stop": stop_myself, "cut": cut_the_link}


class FaultyTraining(Training):
    """A training with faults in its exchanges."""

    faults: tuple[str, ...] = ()

    def _say(self, word: int, timeout: float | None = None) -> int:
        if "kill-waiting" in self.faults:
            kill_myself()
        heard = super()._say(word, timeout)
        if heard == FINISHED and "kill-finished" in self.faults:
            kill_myself()
        if heard == FINISHED and self._is_due("stop-finished"):
            stop_myself()
        if heard == FINISHED and self._is_due("deaf"):
            heard = super()._say(word, timeout)  # fails, if another kills itself now
        return heard

    def _agree(self, pool: Communicator, before: list[int], begin: float) -> None:
        if self._is_due("deaf-rows"):
            exchange(pool, self._row(), self.patience)
            time.sleep(self.patience)
            raise Timeout("the rows of the others have not come")
        super()._agree(pool, before, begin)

    def _is_due(self, fault: str) -> bool:
        """Whether a fault is due: once."""
        is_due = fault in self.faults
        self.faults = tuple(each for each in self.faults if each != fault)
        return is_due


class Trainee:
    """The loop. The data of a step depend on the position in the group and on `cursor`, which is also state."""

    def __init__(self, model: Model, limit: float, faults: dict[str, str]) -> None:
        self.model, self.limit = model, limit
        self.cursor = np.zeros(1, np.int64)
        self._faults = {int(faults[name]): act for name, act in FAULTS.items() if name in faults}
        self._alone = int(faults.get("alone", -1))

    def step(self, group: Communicator, number: int) -> None:
        draw = np.random.default_rng((group.rank, int(self.cursor[0])))
        gradient = self.model.gradient(draw)
        self.cursor += 1
        if number in self._faults:
            group.iallreduce(gradient[:5], op="mean")
            self._faults.pop(number)()
        group.allreduce(gradient[:5], op="mean", timeout=self.limit)
        mean = group.allreduce(gradient, op="mean", timeout=self.limit)
        self.model.update(mean[:-1])
        if number == self._alone:
            group.iallreduce(gradient[:5], op="mean")
        print(f"loss {number} {float(mean[-1]).hex()} {time.monotonic():.3f}", flush=True)


def main() -> None:
    path, rank, socket, workers, steps, kind, limit, *faults = sys.argv[1:]
    model = make_model(kind, kill_myself if "kill-loading" in faults else lambda: None)
    trainee = Trainee(model, float(limit), dict(fault.partition("=")[::2] for fault in faults))
    state = {**model.parts(), "cursor": trainee.cursor}
    with Communicator(Job.from_file(path), int(rank), socket, TORCH_BOUND_S) as pool:
        training = FaultyTraining(
            pool, int(workers), state, steady=model.steady, patience=float(limit), measured=1 << 16
        )
        training.faults = tuple(faults)
        try:
            training.run(trainee.step, int(steps))
            print("done", training.done, *(f"position {training.position}" for _ in range(training.is_worker)))
        except (TrainingError, FaninError) as error:
            print(f"{type(error).__name__}: {error}")
        for recovery in training.recoveries:
            lost = ",".join(map(str, recovery.lost))
            taken = ",".join(str(choice.replacement) for choice in recovery.choices)
            print(f"recovered lost={lost} replacement={taken} step={recovery.step}")
            print(f"seconds {recovery.seconds:.3f}")


if __name__ == "__main__":
    main()
