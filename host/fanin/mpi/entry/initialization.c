/* The entries that begin and end MPI, and those that make communicators. */
#include "comm/communicator.h"
#include "entry/entry.h"
#include "init.h"

ENTRY int MPI_Init(int *count, char ***arguments)
{
    shim_bind();
    int code = pmpi.Init(count, arguments);

    if (!code)
        shim_begin();
    return code;
}

ENTRY int MPI_Init_thread(int *count, char ***arguments, int required, int *provided)
{
    shim_bind();
    int code = pmpi.Init_thread(count, arguments, required, provided);

    if (!code)
        shim_begin();
    return code;
}

ENTRY int MPI_Finalize(void)
{
    shim_bind();
    shim_end();
    return pmpi.Finalize();
}

#define X(name, parameters, arguments)                    \
    ENTRY int MPI_##name parameters                       \
    {                                                     \
        shim_bind();                                      \
        int code = pmpi.name arguments;                   \
        if (!code)                                        \
            shim_communicator_created(load_handle(made)); \
        return code;                                      \
    }
CREATORS(X)
#undef X
