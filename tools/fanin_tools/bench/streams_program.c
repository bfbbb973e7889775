/* Streams of short collectives: microseconds of an operation, of the MPI alone and with Fanin in turns,
 * so that both see the same machine. Arguments: the bytes of a rank's block, each a multiple of 8. A line for each
 * collective and length: its name, the bytes, both times, with tabs between them.
 */
#include <mpi.h>
#include "plain_mpi.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SIZE = 1 << 20, TURNS = 5, MIN_CALLS = 32 };
static const double TURN_SECONDS = 0.03;

enum collective {
    BARRIER,
    BCAST,
    BCAST_MOVING,
    REDUCE,
    ALLREDUCE,
    REDUCE_SCATTER,
    SCATTER,
    GATHER,
    ALLGATHER,
    COLLECTIVES
};
static const char *const names[] = {"Barrier",   "Bcast",                "Bcast, root moves on", "Reduce",
                                    "Allreduce", "Reduce_scatter_block", "Scatter",              "Gather",
                                    "Allgather"};

struct functions {
    int (*barrier)(MPI_Comm);
    int (*bcast)(void *, int, MPI_Datatype, int, MPI_Comm);
    int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*reduce_scatter)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*scatter)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm);
    int (*gather)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm);
    int (*allgather)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
};

static struct functions contenders[] = {
    {0}, /* the MPI alone */
    {MPI_Barrier, MPI_Bcast, MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter_block, MPI_Scatter, MPI_Gather,
     MPI_Allgather}};
enum { CONTENDERS = sizeof contenders / sizeof *contenders };

static double *in, *out;
static int ranks;

/* The call of this number in the stream. */
static void call(const struct functions *f, enum collective collective, int count, int number)
{
    const MPI_Comm world = MPI_COMM_WORLD;

    switch (collective) {
    case BARRIER: f->barrier(world); break;
    case BCAST: f->bcast(out, count, MPI_DOUBLE, 0, world); break;
    case BCAST_MOVING: f->bcast(out, count, MPI_DOUBLE, number % ranks, world); break;
    case REDUCE: f->reduce(in, out, count, MPI_DOUBLE, MPI_SUM, 0, world); break;
    case ALLREDUCE: f->allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, world); break;
    case REDUCE_SCATTER: f->reduce_scatter(in, out, count, MPI_DOUBLE, MPI_SUM, world); break;
    case SCATTER: f->scatter(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, world); break;
    case GATHER: f->gather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, world); break;
    case ALLGATHER: f->allgather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, world); break;
    case COLLECTIVES: break;
    }
}

/* Seconds until all ranks have made so many calls. */
static double time_stream(const struct functions *functions, enum collective collective, int count, int calls)
{
    double start;

    PMPI_Barrier(MPI_COMM_WORLD);
    start = PMPI_Wtime();
    for (int i = 0; i < calls; i++)
        call(functions, collective, count, i);
    PMPI_Barrier(MPI_COMM_WORLD);
    return PMPI_Wtime() - start;
}

/* Calls that take about the time of a turn, the same number on all ranks. Of two tries the faster counts: one pause of
 * the system is as long as a turn. */
static int calls_of_turn(const struct functions *functions, enum collective collective, int count)
{
    int calls = MIN_CALLS / 2, enough = 0;
    double first, second;

    while (!enough) {
        calls *= 2;
        first = time_stream(functions, collective, count, calls);
        second = time_stream(functions, collective, count, calls);
        enough = first > TURN_SECONDS && second > TURN_SECONDS;
        PMPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return calls;
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;

    return (difference > 0) - (difference < 0);
}

static void measure(enum collective collective, int bytes, int rank)
{
    double times[CONTENDERS][TURNS];
    int calls[CONTENDERS], count = bytes / (int)sizeof(double);

    for (int i = 0; i < CONTENDERS; i++)
        calls[i] = calls_of_turn(&contenders[i], collective, count);
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < CONTENDERS; i++)
            times[i][turn] = time_stream(&contenders[i], collective, count, calls[i]) / calls[i] * 1e6;
    for (int i = 0; i < CONTENDERS; i++)
        qsort(times[i], TURNS, sizeof *times[i], compare);
    if (rank == 0) {
        printf("%s\t%d\t%.4f\t%.4f\n", names[collective], bytes, times[0][TURNS / 2], times[1][TURNS / 2]);
        fflush(stdout);
    }
}

int main(int count, char **arguments)
{
    int rank;

    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    in = calloc((size_t)ranks, MAX_SIZE);
    out = calloc((size_t)ranks, MAX_SIZE);
    if (!in || !out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    contenders[0] = (struct functions){PMPI_Barrier, PMPI_Bcast, PMPI_Reduce, PMPI_Allreduce, PMPI_Reduce_scatter_block,
                                       PMPI_Scatter, PMPI_Gather, PMPI_Allgather};
    measure(BARRIER, 0, rank);
    for (enum collective collective = BCAST; collective < COLLECTIVES; collective++)
        for (int i = 1; i < count; i++)
            measure(collective, atoi(arguments[i]), rank);
    MPI_Finalize();
    return 0;
}
