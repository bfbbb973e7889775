/* Progress of operations that could not be posted at once, while the program computes or waits for a message. */
#ifndef FANIN_MPI_PROGRESS_H
#define FANIN_MPI_PROGRESS_H
#include "fanin.h"

/* After the start of an operation on `job`: let the thread post what waits there. */
void shim_watch(struct fanin_communicator *job);

void shim_end_watching(void);
#endif
