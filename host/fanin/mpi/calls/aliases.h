/* Calls whose two buffers are the same memory, which the standard forbids and only some MPIs refuse. */
#ifndef FANIN_MPI_ALIASES_H
#define FANIN_MPI_ALIASES_H
#include "comm/communicator.h"
#include "calls/decode_args.h"

/* Find out by a call whether this MPI refuses them. */
void shim_probe_alias_check(void);

/* Whether this MPI would refuse a call for that reason. */
int shim_is_alias(const struct call *call, const struct communicator *communicator, const struct decoded_call *decoded);
#endif
