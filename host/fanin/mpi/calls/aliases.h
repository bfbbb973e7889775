/* Calls whose two buffers are the same memory. The standard forbids them; some MPIs refuse them, others do not. */
#ifndef FANIN_MPI_ALIASES_H
#define FANIN_MPI_ALIASES_H
#include "comm/communicator.h"
#include "calls/decode_args.h"

/* Find out by a call whether this MPI refuses them: it may have been built without such checks. */
void shim_probe_alias_check(void);

/* Whether this MPI would refuse a call for that reason on this rank. */
int shim_is_alias(const struct call *call, const struct communicator *communicator, const struct decoded_call *decoded);
#endif
