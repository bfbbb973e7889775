/* The decision about each call, and the way of those that are offloaded. */
#ifndef FANIN_MPI_OFFLOAD_H
#define FANIN_MPI_OFFLOAD_H
#include "communicator.h"
#include "operation.h"

/* Decide about a call. Returns the communicator, with `meaning` filled in, where it is offloaded; NULL: the MPI does it.
 * Then `refused` is an error code where the program wants an error rather than that, else 0. */
struct communicator *fanin_decide(struct call *call, enum form form, struct meaning *meaning, int *refused);

/* Do a blocking call. Returns 0 where the MPI is to do it; else `code` is what the program gets. */
int fanin_blocking(struct call *call, int *code);

/* Wait until a transfer is done, and let all else go on meanwhile. */
void fanin_wait_for(struct stream *stream, const struct transfer *transfer);

/* Tell the communicator's error handler of a failure. Returns the code. */
int fanin_fail(handle comm, uint32_t status, enum function function);
#endif
