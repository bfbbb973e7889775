/* The entries of blocking collectives. */
#include "entry/entry.h"
#include <limits.h>
#include <stdlib.h>

static int length_of(const struct call *call)
{
    int ranks = 0;

    pmpi.Comm_size(call->comm, &ranks);
    return ranks;
}

const int *shim_narrow(struct call *call, struct vector vector)
{
    int length = length_of(call), *items = malloc(sizeof *items * (size_t)(length + 1));

    if (!items || !vector.items)
        return NULL;
    for (int i = 0; i < length; i++)
        items[i] = (int)item(vector, i);
    call->narrowed[call->narrowed[0] != NULL] = items;
    return items;
}

static int fits(const struct call *call, const struct buffer *buffer)
{
    const struct vector vectors[] = {buffer->counts, buffer->offsets};

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        for (int rank = 0; vectors[i].items && rank < length_of(call); rank++)
            if (item(vectors[i], rank) > INT_MAX || item(vectors[i], rank) < INT_MIN)
                return 0;
    return buffer->count <= INT_MAX;
}

int shim_is_narrow(const struct call *call)
{
    return fits(call, &call->send) && fits(call, &call->receive);
}

#define X(name, iname, TABLE)                                                             \
    ENTRY int MPI_##name(TABLE##_PARAMETERS(int, int))                                    \
    {                                                                                     \
        struct call call = TABLE##_CALL(int, int);                                        \
        int code;                                                                         \
        shim_bind();                                                                     \
        return shim_blocking(&call, &code) ? code : pmpi.name(TABLE##_ARGUMENTS);        \
    }                                                                                     \
    ENTRY int MPI_##name##_c(TABLE##_PARAMETERS(int64_t, intptr_t))                       \
    {                                                                                     \
        struct call call = TABLE##_CALL(int64_t, intptr_t);                               \
        int code;                                                                         \
        shim_bind();                                                                     \
        if (shim_blocking(&call, &code))                                                 \
            return code;                                                                  \
        if (pmpi.name##_c)                                                                \
            return pmpi.name##_c(TABLE##_ARGUMENTS);                                      \
        code = shim_is_narrow(&call) ? pmpi.name(TABLE##_NARROW(&call)) : ERR_COUNT;     \
        free(call.narrowed[0]);                                                           \
        free(call.narrowed[1]);                                                           \
        return code;                                                                      \
    }
COUNTED_COLLECTIVES(X)
#undef X

ENTRY int MPI_Barrier(handle comm)
{
    struct call call = BARRIER_CALL(int, int);
    int code;

    shim_bind();
    return shim_blocking(&call, &code) ? code : pmpi.Barrier(comm);
}
