/* The PMPI_ functions of the MPI, in a table that is filled once. NULL: this MPI has no such function. */
#ifndef FANIN_MPI_PMPI_H
#define FANIN_MPI_PMPI_H
#include "abi/mpi_abi.h"
#include "abi/signatures.h"
#include <stddef.h>

/* Functions that are no collectives. */
#define FUNCTIONS(X)                                                                                                \
    X(Init, (int *, char ***))                                                                                      \
    X(Init_thread, (int *, char ***, int, int *))                                                                   \
    X(Finalize, (void))                                                                                             \
    X(Initialized, (int *))                                                                                         \
    X(Finalized, (int *))                                                                                           \
    X(Comm_rank, (handle, int *))                                                                                   \
    X(Comm_size, (handle, int *))                                                                                   \
    X(Comm_test_inter, (handle, int *))                                                                             \
    X(Comm_group, (handle, void *))                                                                                 \
    X(Group_free, (void *))                                                                                         \
    X(Group_translate_ranks, (handle, int, const int *, handle, int *))                                             \
    X(Comm_dup, (handle, void *))                                                                                   \
    X(Comm_free, (void *))                                                                                          \
    X(Comm_create_keyval, (void *, void *, int *, void *))                                                          \
    X(Comm_free_keyval, (int *))                                                                                    \
    X(Comm_set_errhandler, (handle, handle))                                                                        \
    X(Comm_set_attr, (handle, int, void *))                                                                         \
    X(Comm_call_errhandler, (handle, int))                                                                          \
    X(Add_error_code, (int, int *))                                                                                 \
    X(Add_error_string, (int, const char *))                                                                        \
    X(Iprobe, (int, int, handle, int *, void *))                                                                    \
    X(Type_size, (handle, int *))                                                                                   \
    X(Type_size_x, (handle, int64_t *))                                                                             \
    X(Type_get_extent, (handle, intptr_t *, intptr_t *))                                                            \
    X(Type_get_true_extent, (handle, intptr_t *, intptr_t *))                                                       \
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
    X(Cancel, (void *))                                                                                             \
    X(Wait, (void *, void *))                                                                                       \
    X(Test, (void *, int *, void *))                                                                                \
    X(Waitall, (int, void *, void *))                                                                               \
    X(Testall, (int, void *, int *, void *))                                                                        \
    X(Waitany, (int, void *, int *, void *))                                                                        \
    X(Testany, (int, void *, int *, int *, void *))                                                                 \
    X(Waitsome, (int, void *, int *, int *, void *))                                                                \
    X(Testsome, (int, void *, int *, int *, void *))                                                                \
    X(Comm_idup, (handle, void *, void *))                                                                          \
    X(Comm_dup_with_info, (handle, handle, void *))                                                                 \
    X(Comm_split, (handle, int, int, void *))                                                                       \
    X(Comm_split_type, (handle, int, int, handle, void *))                                                          \
    X(Comm_create_group, (handle, handle, int, void *))                                                             \
    X(Cart_create, (handle, int, const int *, const int *, int, void *))                                            \
    X(Cart_sub, (handle, const int *, void *))                                                                      \
    X(Graph_create, (handle, int, const int *, const int *, int, void *))                                           \
    X(Intercomm_merge, (handle, int, void *))                                                                       \
    X(Comm_create, (handle, handle, void *))                                                                        \
    X(Barrier, (handle))                                                                                            \
    X(Ibarrier, (handle, void *))                                                                                   \
    X(Barrier_init, (handle, handle, void *))

struct pmpi {
#define X(name, parameters) int(*name) parameters;
    FUNCTIONS(X)
#undef X
#define X(name, iname, TABLE)                                                     \
    int (*name)(TABLE##_PARAMETERS(int, int));                                    \
    int (*name##_c)(TABLE##_PARAMETERS(int64_t, intptr_t));                       \
    int (*iname)(TABLE##_PARAMETERS(int, int), void *request);                    \
    int (*iname##_c)(TABLE##_PARAMETERS(int64_t, intptr_t), void *request);       \
    int (*name##_init)(TABLE##_PARAMETERS(int, int), handle info, void *request); \
    int (*name##_init_c)(TABLE##_PARAMETERS(int64_t, intptr_t), handle info, void *request);
    COUNTED_COLLECTIVES(X)
#undef X
};

extern struct pmpi pmpi;

/* Find the MPI and fill `pmpi`, if that has not been done. Every entry of the shim begins with this call. Ends the
 * process if there is no MPI. */
void shim_bind(void);
#endif
