/* A tool like a profiler: its MPI_ functions count calls, and call the PMPI_ ones. */
#include <mpi.h>
#include <stdio.h>

static int initialized, allreduces, waits;

int MPI_Init_thread(int *count, char ***arguments, int required, int *provided)
{
    initialized++;
    return PMPI_Init_thread(count, arguments, required, provided);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    allreduces++;
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    allreduces++;
    return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    waits++;
    return PMPI_Wait(request, status);
}

int MPI_Finalize(void)
{
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("tool: %d initialized, %d allreduces, %d waits\n", initialized, allreduces, waits);
    return PMPI_Finalize();
}
