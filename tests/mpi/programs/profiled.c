/* A program for tools that count calls: it reduces, waits and tests, also by PMPI_ functions. */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 20 };

int main(int argc, char **argv)
{
    int provided, rank, ranks, one = 1, sums[4], wrong = 0, flag, all;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[3];
        MPI_Allreduce(&one, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 3; i++)
            MPI_Iallreduce(&one, &sums[1 + i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
        PMPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        for (flag = 0; !flag;)
            PMPI_Request_get_status(requests[2], &flag, MPI_STATUS_IGNORE);
        for (flag = 0; !flag;)
            PMPI_Test(&requests[2], &flag, MPI_STATUS_IGNORE);
        for (int i = 0; i < 4; i++)
            wrong += sums[i] != ranks;
    }
    PMPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("profiled: %d wrong\n", all);
    MPI_Finalize();
    return wrong != 0;
}
