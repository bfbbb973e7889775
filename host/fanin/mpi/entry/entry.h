/* For the functions that programs call. */
#ifndef FANIN_MPI_ENTRIES_H
#define FANIN_MPI_ENTRIES_H
#include "calls/offload.h"
#include "abi/pmpi.h"

#define ENTRY __attribute__((visibility("default")))

/* An array of large counts as int, for an MPI without large counts. The call keeps it. */
const int *shim_narrow(struct call *call, struct vector vector);
/* Whether int can hold all counts of a call. */
int shim_is_narrow(const struct call *call);

#define narrow(call, vector) shim_narrow(call, vector)
#define ERR_COUNT 2 /* MPI_ERR_COUNT, the same everywhere */
#endif
