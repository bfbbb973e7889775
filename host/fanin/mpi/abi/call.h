/* The arguments of a call of a collective, the same for all its forms. */
#ifndef FANIN_MPI_CALL_H
#define FANIN_MPI_CALL_H
#include "abi/mpi_abi.h"
#include "abi/signatures.h"

enum function {
#define X(name, iname, TABLE) TABLE,
    COLLECTIVES(X)
#undef X
    FUNCTION_COUNT
};

/* An array of counts or displacements, one for each rank. `items` is NULL if the call has no such array. */
struct vector {
    const void *items;
    int wide;              /* items have 64 bits, else they are int */
};

struct buffer {
    const void *address;
    int64_t count;         /* elements of each block, if there are no counts */
    handle type;
    struct vector counts, offsets;
};

struct call {
    enum function function;
    struct buffer send, receive;
    handle op;
    int root;
    handle comm;
    int *narrowed[2];      /* counts and displacements as int, for an MPI without large ones */
};

/* The form of a call decides whether it may wait for other ranks. */
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static inline int64_t item(struct vector vector, int index)
{
    return vector.wide ? ((const int64_t *)vector.items)[index] : ((const int *)vector.items)[index];
}
#endif
