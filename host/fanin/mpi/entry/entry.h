/* The functions that programs, libraries of Fortran and tools call. */
#ifndef FANIN_MPI_ENTRIES_H
#define FANIN_MPI_ENTRIES_H
#include "calls/offload.h"
#include "abi/pmpi.h"

#define EXPORTED __attribute__((visibility("default")))

/* An entry: MPI_name as programs call it, and PMPI_name as tools do in their own MPI_name, and the Fortran library of
 * Open MPI. If such a tool comes behind the shim in the order of libraries, MPI_name hands the call on to it. */
#define ENTRY(name, parameters, arguments)                                                      \
    static int name##_entry parameters;                                                         \
    EXPORTED int MPI_##name parameters                                                          \
    {                                                                                           \
        shim_bind();                                                                            \
        return __builtin_expect(tools.name != NULL, 0) ? tools.name arguments : name##_entry arguments; \
    }                                                                                           \
    EXPORTED int PMPI_##name parameters                                                         \
    {                                                                                           \
        shim_bind();                                                                            \
        return name##_entry arguments;                                                          \
    }                                                                                           \
    static int name##_entry parameters

#endif
