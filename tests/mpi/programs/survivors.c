/* Ranks 0 and 1 go on without rank 2, which has died: rank 0 waits for rank 1 in a collective while the MPI knows of
 * the death. Each writes the sum into a file in the given folder. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static int sum(MPI_Comm pair, int rank)
{
    int mine = rank + 1, all = -1;

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, pair);
    return all;
}

int main(int count, char **arguments)
{
    char path[4096];
    MPI_Comm pair;
    int rank;

    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &pair);
    sum(pair, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2)
        raise(SIGKILL);
    if (rank == 1)
        sleep(2);
    snprintf(path, sizeof path, "%s/rank%d", arguments[1], rank);
    FILE *file = fopen(path, "w");
    fprintf(file, "%d\n", sum(pair, rank));
    fclose(file);
    MPI_Barrier(pair); /* the other may still write */
    _exit(0); /* MPI_Finalize would fail */
}
