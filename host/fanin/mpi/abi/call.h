/* The arguments of a collective, the same in all its forms. */
#ifndef FANIN_MPI_CALL_H
#define FANIN_MPI_CALL_H
#include "abi/mpi_abi.h"
#include "abi/signatures.h"

enum function {
#define X(name, lower, TABLE, collective) TABLE,
    COLLECTIVES(X)
#undef X
    FUNCTION_COUNT
};

struct buffer {
    const void *address;
    int64_t count;         /* elements of each block, if there are no counts */
    handle type;
    const void *counts, *offsets; /* one for each rank, or NULL */
};

/* In reductions `receive` has count and type of both buffers; `send` has only an address. */
struct call {
    enum function function;
    int large;             /* counts and offsets have 64 bits, otherwise they are int */
    struct buffer send, receive;
    handle op;
    int root;
    handle comm;
};

/* A call without its arguments. Set member by member: for an initializer compilers use an instruction that costs more
 * than the rest of a call that is left to the MPI. */
static inline struct call shim_empty_call(enum function function, int large)
{
    struct call call;

    call.function = function;
    call.large = large;
    call.send = call.receive = (struct buffer){0};
    call.op = 0;
    call.root = 0;
    call.comm = 0;
    return call;
}

/* Counts or displacements, one for each rank. */
struct vector {
    const void *items;     /* NULL: all are `each` */
    int large;             /* as in a call */
    int64_t each;
};

/* The form of a call decides whether it may wait for other ranks. */
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static inline int64_t item(struct vector vector, int index)
{
    if (!vector.items)
        return vector.each;
    return vector.large ? ((const int64_t *)vector.items)[index] : ((const int *)vector.items)[index];
}
#endif
