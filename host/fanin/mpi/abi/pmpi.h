/* The PMPI_ functions of the MPI; NULL: not in this MPI. The shim has functions of these names, too, so they are looked
 * up in the MPI's library. */
#ifndef FANIN_MPI_PMPI_H
#define FANIN_MPI_PMPI_H
#include "abi/mpi_abi.h"
#include "abi/signatures.h"
#include <stddef.h>

/* Functions that are not collectives. */
#define FUNCTIONS(X)                                                                                                \
    X(Init, (int *, char ***))                                                                                      \
    X(Init_thread, (int *, char ***, int, int *))                                                                   \
    X(Query_thread, (int *))                                                                                        \
    X(Session_init, (handle, handle, void *))                                                                       \
    X(Get_library_version, (char *, int *))                                                                         \
    X(Finalize, (void))                                                                                             \
    X(Comm_rank, (handle, int *))                                                                                   \
    X(Comm_size, (handle, int *))                                                                                   \
    X(Comm_test_inter, (handle, int *))                                                                             \
    X(Comm_group, (handle, void *))                                                                                 \
    X(Group_free, (void *))                                                                                         \
    X(Group_translate_ranks, (handle, int, const int *, handle, int *))                                             \
    X(Comm_free, (void *))                                                                                          \
    X(Comm_create_keyval, (void *, void *, int *, void *))                                                          \
    X(Comm_set_errhandler, (handle, handle))                                                                        \
    X(Comm_get_errhandler, (handle, void *))                                                                        \
    X(Errhandler_free, (void *))                                                                                    \
    X(Comm_set_attr, (handle, int, void *))                                                                         \
    X(Comm_get_attr, (handle, int, void *, int *))                                                                  \
    X(Comm_call_errhandler, (handle, int))                                                                          \
    X(Add_error_code, (int, int *))                                                                                 \
    X(Add_error_string, (int, const char *))                                                                        \
    X(Error_string, (int, char *, int *))                                                                           \
    X(Iprobe, (int, int, handle, int *, void *))                                                                    \
    X(Type_size, (handle, int *))                                                                                   \
    X(Type_size_x, (handle, int64_t *))                                                                             \
    X(Type_get_extent, (handle, intptr_t *, intptr_t *))                                                            \
    X(Type_get_envelope, (handle, int *, int *, int *, int *))                                                      \
    X(Type_get_contents, (handle, int, int, int, int *, intptr_t *, void *))                                        \
    X(Type_get_envelope_c, (handle, int64_t *, int64_t *, int64_t *, int64_t *, int *))                             \
    X(Type_get_contents_c,                                                                                          \
      (handle, int64_t, int64_t, int64_t, int64_t, int *, intptr_t *, int64_t *, void *))                           \
    X(Type_dup, (handle, void *))                                                                                   \
    X(Type_free, (void *))                                                                                          \
    X(Pack, (const void *, int, handle, void *, int, int *, handle))                                                \
    X(Unpack, (const void *, int, int *, void *, int, handle, handle))                                              \
    X(Pack_c, (const void *, int64_t, handle, void *, int64_t, int64_t *, handle))                                  \
    X(Unpack_c, (const void *, int64_t, int64_t *, void *, int64_t, handle, handle))                                \
    X(Recv_init, (void *, int, handle, int, int, handle, void *))                                                   \
    X(Grequest_start, (void *, void *, void *, void *, void *))                                                     \
    X(Grequest_complete, (handle))                                                                                  \
    X(Status_set_elements, (void *, handle, int))                                                                   \
    X(Status_set_cancelled, (void *, int))                                                                          \
    X(Start, (void *))                                                                                              \
    X(Startall, (int, void *))                                                                                      \
    X(Request_free, (void *))                                                                                       \
    X(Request_get_status, (handle, int *, void *))                                                                  \
    X(Request_get_status_any, (int, const void *, int *, int *, void *))                                            \
    X(Request_get_status_all, (int, const void *, int *, void *))                                                   \
    X(Request_get_status_some, (int, const void *, int *, int *, void *))                                           \
    X(Wait, (void *, void *))                                                                                       \
    X(Test, (void *, int *, void *))                                                                                \
    X(Waitall, (int, void *, void *))                                                                               \
    X(Testall, (int, void *, int *, void *))                                                                        \
    X(Waitany, (int, void *, int *, void *))                                                                        \
    X(Testany, (int, void *, int *, int *, void *))                                                                 \
    X(Waitsome, (int, void *, int *, int *, void *))                                                                \
    X(Testsome, (int, void *, int *, int *, void *))

/* Functions that make a communicator, except MPI_Comm_idup, which must not wait: its communicator joins on first
 * use. */
#define CREATORS(X)                                                                                         \
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

struct pmpi {
#define X(name, parameters, ...) int(*name) parameters;
    FUNCTIONS(X) CREATORS(X)
#undef X
#define X(name, lower, TABLE, collective)                         \
    int (*name)(TABLE##_PARAMETERS(SHORT));                       \
    int (*I##lower)(TABLE##_PARAMETERS(SHORT), void *request);    \
    int (*name##_init)(TABLE##_PARAMETERS(SHORT), handle info, void *request);
    COLLECTIVES(X)
#undef X
#define X(name, lower, TABLE, collective)                         \
    int (*name##_c)(TABLE##_PARAMETERS(LARGE));                   \
    int (*I##lower##_c)(TABLE##_PARAMETERS(LARGE), void *request); \
    int (*name##_init_c)(TABLE##_PARAMETERS(LARGE), handle info, void *request);
    COUNTED_COLLECTIVES(X)
#undef X
};

extern struct pmpi pmpi;

/* The MPI_ functions of a tool behind the shim in the order of libraries; NULL: no tool. */
extern struct pmpi tools;

/* Find the MPI and fill `pmpi`, once. Every entry of the shim begins with this call. Ends the process without an
 * MPI. */
void shim_bind(void);
#endif
