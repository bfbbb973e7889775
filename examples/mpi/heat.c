/* The temperature of a rod, heated at one end: explicit steps on a rod that is divided among the ranks.
 *
 *   mpicc -O2 heat.c -o heat -lm
 *   FANIN_MPI_THRESHOLDS=all=0- FANIN_MPI_JOIN=early fanin run --mpi -n 4 -- ./heat
 *
 * Neighbours exchange one cell each step by messages, which the MPI carries. How much the rod has changed is a sum over
 * all ranks, which the devices compute; likewise the collection of the result. Without these settings the shim leaves both
 * to the MPI, which is faster with 8 bytes within a host: pagerank.c gains without them. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CELLS 400          /* of the whole rod */
#define RATE 0.45          /* of a step: below 0.5, or it is not stable */
#define STEADY 1e-7        /* change of a step at which it is done */

static double step(const double *old, double *new, int cells)
{
    double change = 0;

    for (int i = 1; i <= cells; i++) {
        new[i] = old[i] + RATE * (old[i - 1] - 2 * old[i] + old[i + 1]);
        change += (new[i] - old[i]) * (new[i] - old[i]);
    }
    return change;
}

int main(int argc, char **argv)
{
    int rank, ranks, steps = 0;
    double change = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int cells = CELLS / ranks, left = rank ? rank - 1 : MPI_PROC_NULL, right = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    double *old = calloc((size_t)cells + 2, sizeof *old), *new = calloc((size_t)cells + 2, sizeof *new);
    double *rod = calloc((size_t)cells * (size_t)ranks, sizeof *rod);

    for (; change > STEADY && steps < 20000; steps++) {
        old[0] = 100; /* the hot end; ranks in the middle get their neighbour's cell */
        MPI_Sendrecv(&old[1], 1, MPI_DOUBLE, left, 0, &old[cells + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&old[cells], 1, MPI_DOUBLE, right, 1, &old[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        change = step(old, new, cells);
        double *swap = old;
        old = new;
        new = swap;
        if (steps % 10 == 0) {
            MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            change = sqrt(change);
        } else {
            change = 1;
        }
    }
    MPI_Gather(&old[1], cells, MPI_DOUBLE, rod, cells, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d steps; temperature at the ends and in the middle: %.2f %.2f %.2f\n", steps, rod[0],
               rod[cells * ranks / 2], rod[cells * ranks - 1]);
    free(old);
    free(new);
    free(rod);
    MPI_Finalize();
    return 0;
}
