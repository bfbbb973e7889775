/* Progress of the MPI while this rank waits for devices, since another rank may wait in the MPI for its data. */
#ifndef FANIN_MPI_MPI_PROGRESS_H
#define FANIN_MPI_MPI_PROGRESS_H
#include "abi/mpi_abi.h"

/* All ranks of MPI_COMM_WORLD call these two. */
void shim_begin_mpi_progress(void);
void shim_end_mpi_progress(void);

void shim_let_mpi_progress(void);

/* Whether this MPI can revoke communicators; and whether one is known to be revoked here. comm 0: none. */
int shim_tells_revoked(void);
int shim_is_revoked(handle comm);

/* A communicator that returns errors, for calls whose errors the program must not see. */
handle shim_quiet_communicator(void);
#endif
