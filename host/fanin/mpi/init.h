/* From MPI_Init to MPI_Finalize. */
#ifndef FANIN_MPI_WORLD_H
#define FANIN_MPI_WORLD_H
#include "abi/mpi_abi.h"

/* Whether this program offloads: all ranks of MPI_COMM_WORLD have a device and the same settings. Equal on all
 * ranks. */
extern int shim_active;

/* After MPI_Init: find the device, and agree with the other ranks. Before MPI_Finalize: report, and leave all jobs.
 * All ranks of MPI_COMM_WORLD call both. */
void shim_begin(void);
void shim_end(void);

/* Let the MPI make progress: another rank may wait in it for data of this rank. */
void shim_let_mpi_progress(void);

/* An error code of the MPI for a status of a device, with a text that names the function and the status. */
int shim_error_code(uint32_t status, const char *function);
#endif
