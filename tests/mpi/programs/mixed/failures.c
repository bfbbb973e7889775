/* Errors of collectives: every rank gets one, and none waits for the others. */
#include "scenes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* One rank has no memory to pack its data: all get an error, and none waits. */
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
    if (rank == 1) /* it starts nothing else, which could tell the others */
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

/* Every rank gets the error, and none waits in the MPI. */
void be_refused(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect(MPI_Barrier(MPI_COMM_WORLD), "no error");
}

static void tell(const char *difference, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "no error";
    int length;

    if (code)
        MPI_Error_string(code, text, &length);
    printf("%s, rank %d: %s\n", difference, rank, text);
}

static int reduce_and_wait(int *data, int count, MPI_Datatype type, MPI_Comm comm)
{
    MPI_Request request;
    int code = MPI_Iallreduce(MPI_IN_PLACE, data, count, type, MPI_SUM, comm, &request);

    return code ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Kills the device with the process id `argument`. */
void lose_a_switch(void)
{
    int one = 1, sum, code = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        kill(atoi(argument), SIGKILL);
    while (!code)
        code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    tell("switch", code);
}

/* Rank 1 differs in one argument, on one communicator for each. */
void differ(void)
{
    int data[8] = {0}, sum[8], odd = rank == 1;
    MPI_Comm comm[5];

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 5; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    MPI_Allreduce(MPI_IN_PLACE, data, 5, MPI_INT, MPI_SUM, comm[0]);
    tell("op", MPI_Allreduce(MPI_IN_PLACE, data, 5, MPI_INT, odd ? MPI_MAX : MPI_SUM, comm[0]));
    tell("after", MPI_Allreduce(MPI_IN_PLACE, data, 5, MPI_INT, MPI_SUM, comm[0]));
    tell("type", reduce_and_wait(data, 5, odd ? MPI_FLOAT : MPI_INT, comm[1]));
    tell("count", reduce_and_wait(data, odd ? 5 : 6, MPI_INT, comm[2]));
    tell("root", MPI_Reduce(data, sum, 5, MPI_INT, MPI_SUM, odd ? 1 : 0, comm[3]));
    for (int i = 0; i < 3; i++)
        tell("zero", MPI_Allreduce(MPI_IN_PLACE, data, 0, MPI_INT, MPI_SUM, comm[4]));
    MPI_Barrier(comm[4]); /* a failure would end others under way */
    tell("some", MPI_Allreduce(MPI_IN_PLACE, data, odd ? 0 : 5, MPI_INT, MPI_SUM, comm[4]));
    tell("later", MPI_Barrier(comm[4]));
    MPI_Barrier(comm[3]); /* ranks other than the root get the error here at the latest */
}
