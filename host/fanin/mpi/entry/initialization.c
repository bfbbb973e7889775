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

/* MPI_Comm_idup is not among them, as it must not wait: its communicator joins when it is first used. */
#define CREATES(X)                                                                                          \
    X(Comm_dup, (handle comm, void *made), (comm, made))                                                    \
    X(Comm_dup_with_info, (handle comm, handle info, void *made), (comm, info, made))                       \
    X(Comm_split, (handle comm, int color, int key, void *made), (comm, color, key, made))                  \
    X(Comm_split_type, (handle comm, int kind, int key, handle info, void *made),                           \
      (comm, kind, key, info, made))                                                                        \
    X(Comm_create, (handle comm, handle group, void *made), (comm, group, made))                            \
    X(Comm_create_group, (handle comm, handle group, int tag, void *made), (comm, group, tag, made))        \
    X(Cart_create, (handle comm, int count, const int *sizes, const int *periods, int reorder, void *made), \
      (comm, count, sizes, periods, reorder, made))                                                         \
    X(Cart_sub, (handle comm, const int *kept, void *made), (comm, kept, made))                             \
    X(Graph_create, (handle comm, int count, const int *index, const int *edges, int reorder, void *made),  \
      (comm, count, index, edges, reorder, made))                                                           \
    X(Intercomm_merge, (handle comm, int high, void *made), (comm, high, made))

#define X(name, parameters, arguments)       \
    ENTRY int MPI_##name parameters          \
    {                                        \
        shim_bind();                        \
        int code = pmpi.name arguments;      \
        if (!code)                           \
            shim_communicator_created(load_handle(made)); \
        return code;                         \
    }
CREATES(X)
#undef X
