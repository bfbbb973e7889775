/* Progress of the MPI while this rank waits for devices: another rank may wait in the MPI for data of this rank. */
#ifndef FANIN_MPI_MPI_PROGRESS_H
#define FANIN_MPI_MPI_PROGRESS_H

/* All ranks of MPI_COMM_WORLD call these two. */
void shim_begin_mpi_progress(void);
void shim_end_mpi_progress(void);

void shim_let_mpi_progress(void);
#endif
