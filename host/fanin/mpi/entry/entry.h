/* What the entries of the library share. */
#ifndef FANIN_MPI_ENTRIES_H
#define FANIN_MPI_ENTRIES_H
#include "calls/offload.h"
#include "abi/pmpi.h"

#define ENTRY __attribute__((visibility("default")))

/* An array of large counts as int, for an MPI that has no large ones. It is kept in the call. */
const int *shim_narrow(struct call *call, struct vector vector);
/* Whether all counts of a call fit into int. */
int shim_is_narrow(const struct call *call);

#define narrow(call, vector) shim_narrow(call, vector)
#define ERR_COUNT 2 /* MPI_ERR_COUNT, the same everywhere */
#endif
