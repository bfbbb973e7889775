/* Errors of collectives: every rank gets one, and none waits for the others. */
#include "scenes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* One rank has no memory to bring its data together: all get an error, and none waits. */
void run_out_of_memory(void)
{
    enum { LONG = 1 << 22 };
    int *counts = calloc((size_t)ranks, sizeof *counts), *offsets = calloc((size_t)ranks, sizeof *offsets);
    double *in = calloc(2 * LONG, sizeof *in), *all = calloc(LONG + 64, sizeof *all);
    MPI_Datatype spread;
    long pages = 0;

    for (int i = 0; i < ranks; i++)
        counts[i] = i == 1 ? LONG : 1, offsets[i] = i < 2 ? i : LONG + i;
    MPI_Type_vector(rank == 1 ? LONG : 1, 1, 2, MPI_DOUBLE, &spread);
    MPI_Type_commit(&spread);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        FILE *file = fopen("/proc/self/statm", "r");
        expect(fscanf(file, "%ld", &pages) == 1, "the size of this process is not known");
        fclose(file);
        size_t most = (size_t)(pages * sysconf(_SC_PAGESIZE)) + LONG;
        setrlimit(RLIMIT_AS, &(struct rlimit){most, RLIM_INFINITY});
    }
    expect(MPI_Gatherv(in, 1, spread, all, counts, offsets, MPI_DOUBLE, 0, MPI_COMM_WORLD) || rank > 1, "no error");
    if (rank == 1) /* it starts nothing else that could tell the others */
        MPI_Recv(&pages, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Send(&pages, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
    expect(MPI_Barrier(MPI_COMM_WORLD), "no error in what follows");
    setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    MPI_Type_free(&spread);
    free(counts);
    free(offsets);
    free(in);
    free(all);
}

/* Every rank gets the error, so none waits in the MPI for one that has gone on. */
void be_refused(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect(MPI_Barrier(MPI_COMM_WORLD), "no error");
}
