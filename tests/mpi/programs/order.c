/* The same sums repeatedly, with ranks in another order each time: the number of results whose bits differ from the
 * first. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 5000, ROUNDS = 25 };

static double data[COUNT], sums[COUNT], first[COUNT];
static const int counts[] = {1, 600, COUNT};
static int rank, ranks;

static void add(int kind, int count, MPI_Comm comm)
{
    MPI_Request request;
    int block = count / ranks;

    memset(sums, 0, sizeof sums);
    if (kind == 0)
        MPI_Allreduce(data, sums, count, MPI_DOUBLE, MPI_SUM, comm);
    else if (kind == 1)
        MPI_Reduce(data, sums, count, MPI_DOUBLE, MPI_PROD, 0, comm);
    else if (kind == 2)
        MPI_Reduce_scatter_block(data, sums, block, MPI_DOUBLE, MPI_SUM, comm);
    else {
        MPI_Iallreduce(data, sums, count, MPI_DOUBLE, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int count, char **arguments)
{
    int wrong = 0, all = 0, compared = 0;
    MPI_Comm comms[3] = {MPI_COMM_WORLD};

    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]); /* its first call is non-blocking */
    srand(rank + 1);
    for (int i = 0; i < COUNT; i++)
        data[i] = 0.5 + rand() / (double)RAND_MAX;
    for (int kind = 0; kind < 12; kind++)
        for (size_t size = 0; size < sizeof counts / sizeof *counts; size++)
            for (int round = 0; round < ROUNDS; round++) {
                usleep(rand() % 300);
                add(kind < 8 ? kind % 4 : 11 - kind, counts[size], comms[kind / 4]);
                if (!round)
                    memcpy(first, sums, sizeof sums);
                wrong += memcmp(first, sums, sizeof sums) != 0;
                compared += round > 0;
            }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d of %d differ\n", all, compared * ranks);
    MPI_Finalize();
    return 0;
}
