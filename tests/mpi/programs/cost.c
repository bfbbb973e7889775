/* The cost of a call that is left to the MPI: nanoseconds through the shim and past it, in turns. Run it with
 * FANIN_MPI_THRESHOLDS=all=off. Argument: the number of turns, else 301. */
#include <mpi.h>
#include "plain_mpi.h"
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 2000, TURNS = 301 };

static int rank, turns = TURNS;
static double in, out;

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;

    return (difference > 0) - (difference < 0);
}

static double median(double *times)
{
    qsort(times, (size_t)turns, sizeof *times, compare);
    return times[turns / 2] / CALLS * 1e9;
}

#define TIME(place, call)                                 \
    do {                                                  \
        double start = MPI_Wtime();                       \
        for (int i = 0; i < CALLS; i++)                   \
            call;                                         \
        place = MPI_Wtime() - start;                      \
    } while (0)

#define MEASURE(what, name, ...)                                                                       \
    do {                                                                                               \
        static double with[TURNS], without[TURNS];                                                     \
        for (int turn = 0; turn < turns; turn++) {                                                     \
            TIME(with[turn], MPI_##name(__VA_ARGS__));                                                 \
            TIME(without[turn], PMPI_##name(__VA_ARGS__));                                             \
        }                                                                                              \
        double median_with = median(with), median_without = median(without);                           \
        if (rank == 0)                                                                                 \
            printf("%s: %.0f ns, %.0f without, %.0f more\n", what, median_with, median_without,        \
                   median_with - median_without);                                                      \
    } while (0)

int main(int argc, char **argv)
{
    if (argc > 1 && atoi(argv[1]) > 0 && atoi(argv[1]) < TURNS)
        turns = atoi(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MEASURE("Allreduce of one rank", Allreduce, &in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    MEASURE("Allreduce of all ranks", Allreduce, &in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MEASURE("Bcast of all ranks", Bcast, &out, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
