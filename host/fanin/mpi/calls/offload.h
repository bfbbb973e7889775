/* Decides which calls the devices do, and does the blocking ones. */
#ifndef FANIN_MPI_OFFLOAD_H
#define FANIN_MPI_OFFLOAD_H
#include "calls/buffers.h"
#include "comm/communicator.h"

/* Decide about a call. If the devices do it, decode it and return its communicator. NULL: the MPI does it, or `refused`
 * is the program's error. */
struct communicator *shim_decide(struct call *call, enum form form, struct decoded_call *decoded, int *refused);

/* Do a blocking call, with result `code`. Returns 0 if the MPI must do it. */
int shim_blocking(struct call *call, int *code);

/* Wait for the end of an operation on `job`, with progress of the MPI and other communicators. */
enum fanin_status shim_wait(handle comm, struct fanin_communicator *job, struct fanin_request *request);

/* End the job of a communicator that a rank has revoked, since that rank takes part no more. */
void shim_end_if_revoked(handle comm, struct fanin_communicator *job);
#endif
