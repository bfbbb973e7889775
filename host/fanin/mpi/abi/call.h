/* One call of a collective, as the program has made it, whatever its form. */
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

/* An array of counts or displacements, one for each rank; NULL where the call has none. */
struct vector {
    const void *items;
    int wide;              /* items of 64 bits */
};

struct buffer {
    const void *address;
    int64_t count;         /* of each block, where there are no counts */
    handle type;
    struct vector counts, offsets;
};

struct call {
    enum function function;
    struct buffer send, receive;
    handle op;
    int root;
    handle comm;
    int *narrowed[2];      /* counts and displacements as int, where the MPI has no others */
};

/* How a call is made: decides what may wait for what. */
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static inline int64_t item(struct vector vector, int index)
{
    return vector.wide ? ((const int64_t *)vector.items)[index] : ((const int *)vector.items)[index];
}
#endif
