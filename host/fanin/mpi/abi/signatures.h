/* The collectives of the devices, and their parameters.
 *
 * Each has up to six forms: blocking, non-blocking and persistent, with int and with large counts. NAME_PARAMETERS(X)
 * lists the parameters of the blocking form, to which the others add some at the end. X takes the kind of a parameter,
 * its name, and its field of struct call (call.h). Fortran's entries have the same parameters. */
#ifndef FANIN_MPI_SIGNATURES_H
#define FANIN_MPI_SIGNATURES_H

/* name, in lower case, list of parameters below, enum fanin_collective */
#define COUNTED_COLLECTIVES(X)                                                                \
    X(Allreduce, allreduce, ALLREDUCE, FANIN_ALLREDUCE)                                       \
    X(Reduce, reduce, REDUCE, FANIN_REDUCE)                                                   \
    X(Reduce_scatter, reduce_scatter, REDUCE_SCATTER, FANIN_REDUCE_SCATTER)                   \
    X(Reduce_scatter_block, reduce_scatter_block, REDUCE_SCATTER_BLOCK, FANIN_REDUCE_SCATTER) \
    X(Bcast, bcast, BCAST, FANIN_BROADCAST)                                                   \
    X(Allgather, allgather, ALLGATHER, FANIN_ALLGATHER)                                       \
    X(Allgatherv, allgatherv, ALLGATHERV, FANIN_ALLGATHERV)                                   \
    X(Gather, gather, GATHER, FANIN_GATHER)                                                   \
    X(Gatherv, gatherv, GATHERV, FANIN_GATHERV)                                               \
    X(Scatter, scatter, SCATTER, FANIN_SCATTER)                                               \
    X(Scatterv, scatterv, SCATTERV, FANIN_SCATTERV)

#define COLLECTIVES(X) COUNTED_COLLECTIVES(X) X(Barrier, barrier, BARRIER, FANIN_BARRIER)

#define ALLREDUCE_PARAMETERS(X) COMBINED(X), ON(X)
#define REDUCE_PARAMETERS(X) COMBINED(X), ROOTED(X)
#define REDUCE_SCATTER_PARAMETERS(X)                                                                              \
    X(SOURCE, send, send.address), X(RESULT, receive, receive.address), X(COUNTS, receive_counts, receive.counts), \
        X(TYPE, receive_type, receive.type), X(OP, op, op), ON(X)
#define REDUCE_SCATTER_BLOCK_PARAMETERS(X) COMBINED(X), ON(X)
#define BCAST_PARAMETERS(X) RECEIVED(X), ROOTED(X)
#define ALLGATHER_PARAMETERS(X) SENT(X), RECEIVED(X), ON(X)
#define ALLGATHERV_PARAMETERS(X) SENT(X), RECEIVED_BLOCKS(X), ON(X)
#define GATHER_PARAMETERS(X) SENT(X), RECEIVED(X), ROOTED(X)
#define GATHERV_PARAMETERS(X) SENT(X), RECEIVED_BLOCKS(X), ROOTED(X)
#define SCATTER_PARAMETERS(X) SENT(X), RECEIVED(X), ROOTED(X)
#define SCATTERV_PARAMETERS(X) SENT_BLOCKS(X), RECEIVED(X), ROOTED(X)
#define BARRIER_PARAMETERS(X) ON(X)

#define SENT(X) X(SOURCE, send, send.address), X(COUNT, send_count, send.count), X(TYPE, send_type, send.type)
#define RECEIVED(X) \
    X(RESULT, receive, receive.address), X(COUNT, receive_count, receive.count), X(TYPE, receive_type, receive.type)
#define SENT_BLOCKS(X)                                                                                                \
    X(SOURCE, send, send.address), X(COUNTS, send_counts, send.counts), X(OFFSETS, send_offsets, send.offsets), \
        X(TYPE, send_type, send.type)
#define RECEIVED_BLOCKS(X)                                                             \
    X(RESULT, receive, receive.address), X(COUNTS, receive_counts, receive.counts),    \
        X(OFFSETS, receive_offsets, receive.offsets), X(TYPE, receive_type, receive.type)
#define COMBINED(X) X(SOURCE, send, send.address), RECEIVED(X), X(OP, op, op)
#define ROOTED(X) X(ROOT, root, root), ON(X)
#define ON(X) X(COMM, comm, comm)

/* The C type of each kind, with these types of counts and displacements. */
#define SOURCE_TYPE(COUNT, OFFSET) const void *
#define RESULT_TYPE(COUNT, OFFSET) void *
#define COUNT_TYPE(COUNT, OFFSET) COUNT
#define COUNTS_TYPE(COUNT, OFFSET) const COUNT *
#define OFFSETS_TYPE(COUNT, OFFSET) const OFFSET *
#define TYPE_TYPE(COUNT, OFFSET) handle
#define OP_TYPE(COUNT, OFFSET) handle
#define ROOT_TYPE(COUNT, OFFSET) int
#define COMM_TYPE(COUNT, OFFSET) handle

/* X for the lists above: a parameter with int counts, one with large counts, its name, and storing it in `call`. */
#define SHORT(kind, name, field) kind##_TYPE(int, int) name
#define LARGE(kind, name, field) kind##_TYPE(int64_t, intptr_t) name
#define NAME(kind, name, field) name
#define STORE(kind, name, field) call.field = name
/* The reverse: a field of `call` as a parameter with int counts. */
#define INT_FIELD(kind, name, field) (kind##_TYPE(int, int))call.field
#endif
