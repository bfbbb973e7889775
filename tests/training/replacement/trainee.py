"""A process of a training: `trainee.py JOB RANK SOCKET WORKERS STEPS [FAULT...]`. Prints losses, and how it ended.

Faults: `kill=STEP`, `stop=STEP`: it kills or stops itself in the middle of the step, with a collective under way.
`kill-loading`, `kill-waiting`: it kills itself when it is given the state, or as a spare, before it waits.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np

from fanin import Communicator, FaninError, Job
from fanin_train.errors import TrainingError
from fanin_train.replacement.recovery import Training

FEATURES, ROWS, RATE, MOMENTUM, NOISE = 200, 8, 0.01, 0.9, 0.05
STEP_S = 3.0  # longer than a step takes; what stands still for longer is replaced
PATIENCE_S = 3.0


class Model:
    """A linear model with momentum, as torch's modules and optimisers keep their state."""

    def __init__(self, fragile: bool) -> None:
        self.weights, self.velocity = np.zeros(FEATURES), np.zeros(FEATURES)
        self._fragile = fragile

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights, "velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._fragile:
            os.kill(os.getpid(), signal.SIGKILL)
        self.weights[:], self.velocity[:] = state["weights"], state["velocity"]

    def update(self, gradient: np.ndarray) -> None:
        self.velocity *= MOMENTUM
        self.velocity += gradient
        self.weights -= RATE * self.velocity


class Trainee:
    """The loop. The data of a step depend on the position in the group; `random` and `cursor` are state as well."""

    def __init__(self, faults: dict[str, str]) -> None:
        self.model = Model("kill-loading" in faults)
        self.random = np.random.default_rng(5)
        self.cursor = np.zeros(1, np.int64)
        self._faults = {int(faults[name]): kind for name, kind in FAULTS.items() if name in faults}

    def step(self, group: Communicator, number: int) -> None:
        data = np.random.default_rng((group.rank, int(self.cursor[0])))
        inputs = data.standard_normal((ROWS, FEATURES))
        targets = inputs @ np.arange(FEATURES) / FEATURES
        noise = self.random.standard_normal(FEATURES) * NOISE  # as dropout: drawn before the collective
        self.cursor += 1
        errors = inputs @ (self.model.weights + noise) - targets
        gradient = np.append(errors @ inputs / ROWS, (errors**2).mean())
        if number in self._faults:
            group.iallreduce(gradient[:5], op="mean")
            os.kill(os.getpid(), self._faults.pop(number))
        group.allreduce(gradient[:5], op="mean", timeout=STEP_S)
        mean = group.allreduce(gradient, op="mean", timeout=STEP_S)
        self.model.update(mean[:-1])
        print("loss", number, float(mean[-1]).hex(), flush=True)


FAULTS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def main() -> None:
    path, rank, socket, workers, steps, *faults = sys.argv[1:]
    trainee = Trainee(dict(fault.partition("=")[::2] for fault in faults))
    state = {"model": trainee.model, "random": trainee.random, "cursor": trainee.cursor}
    with Communicator(Job.from_file(path), int(rank), socket) as pool:
        if "kill-waiting" in faults:
            Training._say = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore
        training = Training(pool, int(workers), state, steady=["model"], patience=PATIENCE_S, measured=1 << 16)
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
        pool.abort()


if __name__ == "__main__":
    main()
