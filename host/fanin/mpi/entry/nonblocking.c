/* The entries of non-blocking and persistent collectives. */
#include "entry/entry.h"
#include "abi/fortran_library.h"
#include "requests/requests.h"

#define FROM_FORTRAN shim_is_called_by_f08(__builtin_return_address(0))

/* This MPI has no such function, so programs that were built for it do not call it. */
static int lacking(const struct call *call)
{
    int code = shim_abi->error_other;

    pmpi.Comm_call_errhandler(call->comm, code);
    return code;
}

#define NONBLOCKING_FORM(name, TABLE, COUNT, OFFSET, OTHERWISE)                           \
    ENTRY int MPI_##name(TABLE##_PARAMETERS(COUNT, OFFSET), void *request)                \
    {                                                                                     \
        struct call call = TABLE##_CALL(COUNT, OFFSET);                                   \
        int code;                                                                         \
        shim_bind();                                                                     \
        if (!FROM_FORTRAN && shim_nonblocking(&call, request, &code))                    \
            return code;                                                                  \
        return pmpi.name ? pmpi.name(TABLE##_ARGUMENTS, request) : OTHERWISE;             \
    }

#define PERSISTENT_FORM(name, TABLE, COUNT, OFFSET, OTHERWISE)                            \
    ENTRY int MPI_##name(TABLE##_PARAMETERS(COUNT, OFFSET), handle info, void *request)   \
    {                                                                                     \
        struct call call = TABLE##_CALL(COUNT, OFFSET);                                   \
        int code;                                                                         \
        shim_bind();                                                                     \
        if (!FROM_FORTRAN && shim_persistent(&call, request, &code))                     \
            return code;                                                                  \
        return pmpi.name ? pmpi.name(TABLE##_ARGUMENTS, info, request) : OTHERWISE;       \
    }

/* The MPI may read narrowed counts until the request has ended, so they are never freed. */
#define NARROWED(call, narrowed) (shim_is_narrow(call) ? (narrowed) : ERR_COUNT)

#define X(name, iname, TABLE)                                                                              \
    NONBLOCKING_FORM(iname, TABLE, int, int, lacking(&call))                                               \
    NONBLOCKING_FORM(iname##_c, TABLE, int64_t, intptr_t,                                                  \
                     NARROWED(&call, pmpi.iname(TABLE##_NARROW(&call), request)))                          \
    PERSISTENT_FORM(name##_init, TABLE, int, int, lacking(&call))                                          \
    PERSISTENT_FORM(name##_init_c, TABLE, int64_t, intptr_t,                                               \
                    pmpi.name##_init ? NARROWED(&call, pmpi.name##_init(TABLE##_NARROW(&call), info, request)) \
                                     : lacking(&call))
COUNTED_COLLECTIVES(X)
#undef X

NONBLOCKING_FORM(Ibarrier, BARRIER, int, int, lacking(&call))
PERSISTENT_FORM(Barrier_init, BARRIER, int, int, lacking(&call))
