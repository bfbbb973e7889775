/* Each rank: allreduces long enough for the devices, every element compared. */
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 1 << 18, CALLS = 12 };

static float data[COUNT], sum[COUNT];

int main(int count, char **words)
{
    int rank, ranks, wrong = 0;

    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < COUNT; i++)
            data[i] = (float)(rank * call + i % 1000);
        MPI_Allreduce(data, sum, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++)
            wrong += sum[i] != (float)(ranks * (ranks - 1) / 2 * call + ranks * (i % 1000));
    }
    printf("rank %d: %d wrong\n", rank, wrong);
    return MPI_Finalize();
}
