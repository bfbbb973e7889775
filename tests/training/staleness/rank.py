"""A rank of a test over devices: it trains on drawn digits, and writes the results.

    python -m tests.training.staleness.rank FOLDER '{"stale_max": 2, ...}'

Each rank writes FOLDER/RANK.npz. Events between ranks are files of the folder.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import fanin
from fanin_train.staleness.replica import SGD, Checkpoint
from fanin_train.staleness.simulation.learning import task
from fanin_train.staleness.trainer import BoundedStaleness

SEED = 5
RATE, MOMENTUM = 0.3, 0.9


def until(condition: Any) -> None:
    """Poll for a condition that another process fulfils."""
    while not condition():
        time.sleep(0.002)


def main(folder: Path, options: dict[str, Any]) -> None:
    learnt = task("drawn", "softmax")
    communicator = fanin.Communicator()
    rank, last = communicator.rank, options["last"]
    parameters = learnt.parameters(SEED if rank != options.get("joins") else SEED + 1)
    begin = Checkpoint.read(folder / "checkpoint") if options.get("resume") else None
    first = communicator.split(None if rank == options["joins"] else 0) if "joins" in options else communicator
    trainer = BoundedStaleness(
        first or communicator,
        parameters,
        SGD(RATE, MOMENTUM),
        options["stale_max"],
        options.get("apply", "arrived"),
        begin,
        options.get("survive", False),
        joins=first is None,
    )
    ahead = steps = 0
    for number in range(trainer.order + 1, last + 1):
        if rank == options.get("dies") and number == options["dies_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == options.get("holds") and number == 1:  # until the others have come as far as they may
            others = [each for each in range(communicator.size) if each != rank]
            until(lambda others=others: all((folder / f"{each}.at_bound").exists() for each in others))
        if number == options.get("joins_at") and first is not None:
            trainer.admit(communicator)
        if number == options["stale_max"] + 1:
            (folder / f"{rank}.at_bound").touch()
        trainer.step(learnt.gradient(parameters, learnt.batch(SEED, rank, number)))
        steps += 1
        if trainer.leads:
            ahead = max(ahead, trainer.node.order - min(trainer.node.clocks.entries().values()))
        if number == options.get("checkpoint"):
            made = trainer.checkpoint()
            if rank == 0 and made is not None:
                made.save(folder / "checkpoint")
    own = parameters.copy()
    trainer.finish()
    np.savez(
        folder / f"{rank}.npz",
        parameters=parameters,
        own=own,
        ahead=ahead,
        steps=steps,
        steps_at_bound=trainer.steps_at_bound,
        loss=learnt.loss(parameters),
    )
    communicator.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
