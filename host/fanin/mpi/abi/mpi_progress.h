/* Progress of the MPI while this rank waits for devices: another rank may wait in the MPI for data of this rank. */
#ifndef FANIN_MPI_MPI_PROGRESS_H
#define FANIN_MPI_MPI_PROGRESS_H
#include "abi/mpi_abi.h"

/* All ranks of MPI_COMM_WORLD call these two. */
void shim_begin_mpi_progress(void);
void shim_end_mpi_progress(void);

void shim_let_mpi_progress(void);

/* Whether this MPI lets a program revoke communicators, and tells of it; and whether any rank has revoked this one, as
 * far as the progress of the MPI has brought it here. comm 0: none. */
int shim_tells_revoked(void);
int shim_is_revoked(handle comm);

/* A communicator whose errors are returned, and are no concern of the program. */
handle shim_quiet_communicator(void);
#endif
