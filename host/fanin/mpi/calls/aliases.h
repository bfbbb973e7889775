/* A call whose two buffers are one, which MPI forbids. Some MPIs refuse it, others do what they can. */
#ifndef FANIN_MPI_ALIASES_H
#define FANIN_MPI_ALIASES_H
#include "comm/communicator.h"
#include "calls/decode_args.h"

/* Find out what this MPI does: it may have been built without such checks. */
void shim_probe_alias_check(void);

/* Whether this MPI would refuse a call for it, on this rank. */
int shim_is_alias(const struct call *call, const struct communicator *communicator, const struct decoded_call *decoded);
#endif
