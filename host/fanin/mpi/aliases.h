/* A call whose two buffers are one, which MPI forbids. Some MPIs refuse it, others do what they can. */
#ifndef FANIN_MPI_ALIASES_H
#define FANIN_MPI_ALIASES_H
#include "communicator.h"
#include "operation.h"

/* Find out what this MPI does: it may have been built without such checks. */
void fanin_try_alias(void);

/* Whether this MPI would refuse a call for it, on this rank. */
int fanin_is_alias(const struct call *call, const struct communicator *communicator, const struct meaning *meaning);
#endif
