/* For the functions that programs call. */
#ifndef FANIN_MPI_ENTRIES_H
#define FANIN_MPI_ENTRIES_H
#include "calls/offload.h"
#include "abi/pmpi.h"

#define ENTRY __attribute__((visibility("default")))
#endif
