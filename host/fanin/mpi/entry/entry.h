#ifndef FANIN_MPI_ENTRIES_H
#define FANIN_MPI_ENTRIES_H
#include "calls/offload.h"
#include "abi/pmpi.h"

#define EXPORTED __attribute__((visibility("default")))

/* An entry: MPI_name for programs, and PMPI_name for tools and Open MPI's Fortran library. If a tool is behind the shim
 * in the order of libraries, MPI_name calls the tool. */
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
