/* A long broadcast in each form. */
#include <mpi.h>
#include <stdlib.h>

enum { BYTES = 20 << 20 };

int main(int count, char **arguments)
{
    char *data = calloc(1, BYTES);
    MPI_Request request;

    MPI_Init(&count, &arguments);
    MPI_Bcast(data, BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Ibcast(data, BYTES, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Finalize();
    free(data);
    return 0;
}
