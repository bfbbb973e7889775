"""A rank of a test over devices: it makes impossible trainings, and writes the error of each.

    python -m tests.training.staleness.refused_rank FOLDER {}

Each rank writes FOLDER/RANK.npz.
"""

import sys
from pathlib import Path

import numpy as np

import fanin
from fanin_train.errors import TrainingError
from fanin_train.staleness.replica import SGD, Checkpoint
from fanin_train.staleness.trainer import BoundedStaleness


def main(folder: Path) -> None:
    parameters = np.zeros(4, np.float32)
    checkpoint = Checkpoint(3, parameters, {}, {})
    said = {}
    with fanin.Communicator() as communicator:
        for name, begin in {"all join": None, "joins with a checkpoint": checkpoint}.items():
            try:
                BoundedStaleness(communicator, parameters, SGD(), checkpoint=begin, joins=True)
            except TrainingError as error:
                said[name] = str(error)
        try:
            BoundedStaleness(communicator, parameters, SGD(), stale_max=communicator.rank)
        except TrainingError as error:
            said["other bounds"] = str(error)
        np.savez(folder / f"{communicator.rank}.npz", **{name: np.array(text) for name, text in said.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
