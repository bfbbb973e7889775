/* From MPI_Init to MPI_Finalize: whether this program offloads at all. */
#ifndef FANIN_MPI_WORLD_H
#define FANIN_MPI_WORLD_H
#include "abi/mpi_abi.h"

/* All ranks of MPI_COMM_WORLD have a device, and have agreed on the settings. Equal on all of them. */
extern int shim_active;

/* After MPI_Init: look for the device, agree. Before MPI_Finalize: report, leave all jobs. Both are collective. */
void shim_begin(void);
void shim_end(void);

/* Let the MPI get on with what else is under way: a rank may wait in it for data of this one. */
void shim_let_mpi_progress(void);

/* A code of the class that the MPI has for such a status, with a text that says it. */
int shim_error_code(uint32_t status, const char *function);
#endif
