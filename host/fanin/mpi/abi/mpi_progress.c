#include "abi/mpi_progress.h"
#include "abi/pmpi.h"

/* A communicator without messages, for MPI_Iprobe. It has all ranks: with one rank MPICH would not poll the network. */
static handle quiet;
static int (*is_revoked)(handle comm, int *flag); /* NULL: not in this MPI */

void shim_begin_mpi_progress(void)
{
    is_revoked = shim_abi->error_revoked ? shim_function("PMPIX_Comm_is_revoked") : NULL;
    pmpi.Comm_dup(shim_handle(COMM_WORLD), &quiet);
    quiet = load_handle(&quiet);
    pmpi.Comm_set_errhandler(quiet, shim_handle(ERRORS_RETURN)); /* the program handles lost ranks itself */
}

void shim_end_mpi_progress(void)
{
    pmpi.Comm_free(&quiet);
}

handle shim_quiet_communicator(void)
{
    return quiet;
}

void shim_let_mpi_progress(void)
{
    int flag, status[16];

    pmpi.Iprobe(shim_abi->any_source, shim_abi->any_tag, quiet, &flag, status);
}

int shim_tells_revoked(void)
{
    return is_revoked != NULL;
}

int shim_is_revoked(handle comm)
{
    int flag = 0;

    return is_revoked && comm && !is_revoked(comm, &flag) && flag;
}
