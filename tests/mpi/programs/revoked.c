/* Rank 0 revokes a communicator while the others wait in a collective of it: in a blocking call, or for a request. Each
 * rank then calls another collective of it. All print the classes of their errors, and go on in a shrunk
 * communicator. */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 14 };

static double data[COUNT], sums[COUNT];

static int wait_for(MPI_Comm comm, const char *way)
{
    MPI_Request request;
    int code, done = 0, index;

    if (!strcmp(way, "call"))
        return MPI_Allreduce(data, sums, COUNT, MPI_DOUBLE, MPI_SUM, comm);
    code = MPI_Iallreduce(data, sums, COUNT, MPI_DOUBLE, MPI_SUM, comm, &request);
    if (code)
        return code;
    if (!strcmp(way, "wait"))
        return MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!strcmp(way, "any"))
        return MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
    while (!code && !done)
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return code;
}

static void write_code(FILE *file, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length;

    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    fprintf(file, "%s\n", class == MPI_ERR_REVOKED ? "revoked" : class == MPI_SUCCESS ? "success" : text);
}

int main(int count, char **arguments)
{
    MPI_Comm revoked, rest;
    char path[4096];
    int rank, first, second, last, mine = 1, all = 0;

    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &revoked);
    MPI_Comm_set_errhandler(revoked, MPI_ERRORS_RETURN);
    MPI_Allreduce(data, sums, COUNT, MPI_DOUBLE, MPI_SUM, revoked);
    if (rank == 0) {
        sleep(1);
        MPIX_Comm_revoke(revoked);
    }
    first = wait_for(revoked, arguments[2]);
    second = MPI_Allreduce(data, sums, COUNT, MPI_DOUBLE, MPI_SUM, revoked);
    MPIX_Comm_shrink(revoked, &rest);
    last = MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, rest);
    snprintf(path, sizeof path, "%s/rank%d", arguments[1], rank);
    FILE *file = fopen(path, "w");
    write_code(file, first);
    write_code(file, second);
    write_code(file, last);
    fprintf(file, "%d\n", all);
    fclose(file);
    MPI_Finalize();
    return 0;
}
