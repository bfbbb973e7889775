/* Progress of operations that could not be posted at once, whatever the program does meanwhile: MPI lets a rank
 * compute, or wait for a message, while its non-blocking collectives go on.
 */
#ifndef FANIN_MPI_PROGRESS_H
#define FANIN_MPI_PROGRESS_H
#include "fanin.h"

/* An operation was started on `job`: if something there waits to be posted, a thread posts it. */
void shim_watch(struct fanin_communicator *job);

/* End that thread. */
void shim_end_watching(void);
#endif
