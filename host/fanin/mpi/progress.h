/* Progress of what could not be posted at once, whatever the program does meanwhile: MPI lets a rank compute, or wait for
 * a message, while its non-blocking collectives go on.
 */
#ifndef FANIN_MPI_PROGRESS_H
#define FANIN_MPI_PROGRESS_H
#include "communicator.h"

/* See to it that all that was submitted in a member is posted, also while no call of this rank reaches the shim. */
void fanin_watch(struct member *member);

/* No more of that. What is still watched is let go. */
void fanin_end_watching(void);
#endif
