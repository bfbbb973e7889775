"""Data-parallel training of a linear model with mpi4py: each rank has its own data, gradients are added by the devices.

    FANIN_MPI_THRESHOLDS=all=0- FANIN_MPI_JOIN=early fanin run --mpi -n 4 -- python train.py

Without these settings the MPI adds such short gradients itself, which is faster within a host. The program does not
know Fanin. The gradients of the two parameters are two non-blocking sums: the second is computed while the first is
under way.
"""

import numpy as np
from mpi4py import MPI

FEATURES, SAMPLES, ROUNDS, RATE = 64, 1000, 60, 0.4


def main() -> None:
    """Train, and print how close the model comes to what made the data."""
    world = MPI.COMM_WORLD
    wanted = np.random.default_rng(1).normal(size=FEATURES)
    own = np.random.default_rng(100 + world.rank)
    inputs = own.normal(size=(SAMPLES, FEATURES))
    outputs = inputs @ wanted + 3.0

    weights, offset = np.zeros(FEATURES), np.zeros(1)
    world.Bcast(weights, root=0)
    for _ in range(ROUNDS):
        error = inputs @ weights + offset - outputs
        slope = inputs.T @ error / SAMPLES
        first = world.Iallreduce(MPI.IN_PLACE, slope, op=MPI.SUM)
        level = np.array([error.mean()])
        second = world.Iallreduce(MPI.IN_PLACE, level, op=MPI.SUM)
        MPI.Request.Waitall([first, second])
        weights -= RATE * slope / world.size
        offset -= RATE * level / world.size

    worst = np.empty(1)
    world.Reduce(np.array([np.abs(weights - wanted).max()]), worst, op=MPI.MAX, root=0)
    if world.rank == 0:
        print(f"worst weight is off by {worst[0]:.1e}, offset {offset[0]:.4f} (3.0 is right)")


if __name__ == "__main__":
    main()
