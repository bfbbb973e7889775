/* From MPI_Init to MPI_Finalize: whether this program offloads at all. */
#ifndef FANIN_MPI_WORLD_H
#define FANIN_MPI_WORLD_H
#include "family.h"

/* All ranks of MPI_COMM_WORLD have a device, and have agreed on the settings. Equal on all of them. */
extern int fanin_active;

/* After MPI_Init: look for the device, agree. Before MPI_Finalize: report, leave all jobs. Both are collective. */
void fanin_begin_world(void);
void fanin_end_world(void);

/* Let the MPI get on with what else is under way: a rank may wait in it for data of this one. */
void fanin_let_mpi_progress(void);

/* A code of the class that the MPI has for such a status, with a text that says it. */
int fanin_error_code(uint32_t status, const char *function);
#endif
