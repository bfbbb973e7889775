/* Which calls the devices do, and the blocking ones among them. */
#ifndef FANIN_MPI_OFFLOAD_H
#define FANIN_MPI_OFFLOAD_H
#include "calls/buffers.h"
#include "comm/communicator.h"

/* Decide about a call. Returns its communicator, and decodes the call, if the devices do it; NULL: the MPI does it,
 * or `refused` is the error that the program gets instead. */
struct communicator *shim_decide(struct call *call, enum form form, struct decoded_call *decoded, int *refused);

/* Do a blocking call. Returns 0 if the MPI is to do it; else `code` is what the program gets. */
int shim_blocking(struct call *call, int *code);

/* Wait for the end of an operation on `job`. The MPI and other communicators go on meanwhile. */
enum fanin_status shim_wait(handle comm, struct fanin_communicator *job, struct fanin_request *request);

/* End the job of a communicator that some rank has revoked: that rank comes no more. */
void shim_end_if_revoked(handle comm, struct fanin_communicator *job);
#endif
