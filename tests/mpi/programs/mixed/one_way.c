/* Ranks that want no result go on before the others take part. */
#include "scenes.h"

#include <string.h>

enum { MESSAGES = 50, MOST = 1024 };

static int in[MOST], out[MOST];

static void fill(int count, int value)
{
    for (int i = 0; i < count; i++)
        in[i] = value + i;
}

/* The messages of ranks that send them come before this one. */
static void tell(int from, int to)
{
    int token = 0;

    if (rank == from)
        PMPI_Send(&token, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
    else if (rank == to)
        PMPI_Recv(&token, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void broadcast_ahead(int count)
{
    for (int to = 1; to < ranks && rank; to++)
        tell(0, to);
    for (int message = 0; message < MESSAGES; message++) {
        MPI_Request request;

        fill(count, rank ? -1 : message);
        if (message % 2) {
            MPI_Ibcast(in, count, MPI_INT, 0, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Bcast(in, count, MPI_INT, 0, MPI_COMM_WORLD);
        }
        for (int i = 0; i < count; i++)
            expect(in[i] == message + i, "a broadcast is wrong");
    }
    memset(in, 0xff, sizeof in);
    for (int to = 1; to < ranks && !rank; to++)
        tell(0, to);
}

static void reduce_ahead(int count)
{
    for (int from = 1; from < ranks && !rank; from++)
        tell(from, 0);
    for (int message = 0; message < MESSAGES; message++) {
        fill(count, message);
        MPI_Reduce(in, out, count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
        for (int i = 0; i < count && !rank; i++)
            expect(out[i] == ranks * (message + i), "a sum is wrong");
    }
    memset(in, 0xff, sizeof in);
    if (rank)
        tell(rank, 0);
}

void run_ahead(void)
{
    MPI_Barrier(MPI_COMM_WORLD); /* forms the job */
    for (int count = 1; count <= MOST; count *= MOST) {
        broadcast_ahead(count);
        reduce_ahead(count);
    }
}
