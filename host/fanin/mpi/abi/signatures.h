/* The parameters of the collectives that devices do.
 *
 * Each has up to six forms: blocking, non-blocking and persistent, with int and with large counts. COUNT and OFFSET
 * are the types of counts and displacements of a form. For each collective there are PARAMETERS  the parameters of
 * the blocking form; the other forms add some at the end ARGUMENTS   their names, to pass them on CALL        an
 * initializer of struct call (call.h) NARROW      the arguments of the form with int counts, from a struct call
 */
#ifndef FANIN_MPI_SIGNATURES_H
#define FANIN_MPI_SIGNATURES_H

/* name, name of the non-blocking form, table below */
#define COUNTED_COLLECTIVES(X)                                           \
    X(Allreduce, Iallreduce, ALLREDUCE)                                  \
    X(Reduce, Ireduce, REDUCE)                                           \
    X(Reduce_scatter, Ireduce_scatter, REDUCE_SCATTER)                   \
    X(Reduce_scatter_block, Ireduce_scatter_block, REDUCE_SCATTER_BLOCK) \
    X(Bcast, Ibcast, BCAST)                                              \
    X(Allgather, Iallgather, ALLGATHER)                                  \
    X(Allgatherv, Iallgatherv, ALLGATHERV)                               \
    X(Gather, Igather, GATHER)                                           \
    X(Gatherv, Igatherv, GATHERV)                                        \
    X(Scatter, Iscatter, SCATTER)                                        \
    X(Scatterv, Iscatterv, SCATTERV)

#define COLLECTIVES(X) COUNTED_COLLECTIVES(X) X(Barrier, Ibarrier, BARRIER)

#define VECTOR(items, TYPE) {items, sizeof(TYPE) == sizeof(int64_t)}

#define ALLREDUCE_PARAMETERS(COUNT, OFFSET) \
    const void *send, void *receive, COUNT count, handle type, handle op, handle comm
#define ALLREDUCE_ARGUMENTS send, receive, count, type, op, comm
#define ALLREDUCE_CALL(COUNT, OFFSET) \
    {.function = ALLREDUCE, .send = {send, count, type}, .receive = {receive, count, type}, .op = op, .comm = comm}
#define ALLREDUCE_NARROW(call) SENT(call), RECEIVED(call), (call)->op, (call)->comm
#define SENT(call) (call)->send.address
#define RECEIVED(call) (void *)(call)->receive.address, (int)(call)->receive.count, (call)->receive.type

#define REDUCE_PARAMETERS(COUNT, OFFSET) \
    const void *send, void *receive, COUNT count, handle type, handle op, int root, handle comm
#define REDUCE_ARGUMENTS send, receive, count, type, op, root, comm
#define REDUCE_CALL(COUNT, OFFSET)                                                               \
    {.function = REDUCE, .send = {send, count, type}, .receive = {receive, count, type}, .op = op, \
     .root = root, .comm = comm}
#define REDUCE_NARROW(call) SENT(call), RECEIVED(call), (call)->op, (call)->root, (call)->comm

#define REDUCE_SCATTER_PARAMETERS(COUNT, OFFSET) \
    const void *send, void *receive, const COUNT counts[], handle type, handle op, handle comm
#define REDUCE_SCATTER_ARGUMENTS send, receive, counts, type, op, comm
#define REDUCE_SCATTER_CALL(COUNT, OFFSET)                                                     \
    {.function = REDUCE_SCATTER, .send = {send, 0, type}, .op = op, .comm = comm,              \
     .receive = {receive, 0, type, VECTOR(counts, COUNT)}}
#define REDUCE_SCATTER_NARROW(call)                                                                 \
    SENT(call), (void *)(call)->receive.address, narrow((call), (call)->receive.counts), (call)->receive.type, \
        (call)->op, (call)->comm

#define REDUCE_SCATTER_BLOCK_PARAMETERS(COUNT, OFFSET) ALLREDUCE_PARAMETERS(COUNT, OFFSET)
#define REDUCE_SCATTER_BLOCK_ARGUMENTS ALLREDUCE_ARGUMENTS
#define REDUCE_SCATTER_BLOCK_CALL(COUNT, OFFSET)                                                       \
    {.function = REDUCE_SCATTER_BLOCK, .send = {send, count, type}, .receive = {receive, count, type}, \
     .op = op, .comm = comm}
#define REDUCE_SCATTER_BLOCK_NARROW(call) ALLREDUCE_NARROW(call)

#define BCAST_PARAMETERS(COUNT, OFFSET) void *buffer, COUNT count, handle type, int root, handle comm
#define BCAST_ARGUMENTS buffer, count, type, root, comm
#define BCAST_CALL(COUNT, OFFSET) \
    {.function = BCAST, .receive = {buffer, count, type}, .root = root, .comm = comm}
#define BCAST_NARROW(call) RECEIVED(call), (call)->root, (call)->comm

#define SENT_COUNTED(call) (call)->send.address, (int)(call)->send.count, (call)->send.type
#define MOVED(COUNT) \
    const void *send, COUNT send_count, handle send_type, void *receive, COUNT receive_count, handle receive_type
#define MOVED_ARGUMENTS send, send_count, send_type, receive, receive_count, receive_type
#define MOVED_BUFFERS \
    .send = {send, send_count, send_type}, .receive = {receive, receive_count, receive_type}

#define ALLGATHER_PARAMETERS(COUNT, OFFSET) MOVED(COUNT), handle comm
#define ALLGATHER_ARGUMENTS MOVED_ARGUMENTS, comm
#define ALLGATHER_CALL(COUNT, OFFSET) {.function = ALLGATHER, MOVED_BUFFERS, .comm = comm}
#define ALLGATHER_NARROW(call) SENT_COUNTED(call), RECEIVED(call), (call)->comm

#define GATHER_PARAMETERS(COUNT, OFFSET) MOVED(COUNT), int root, handle comm
#define GATHER_ARGUMENTS MOVED_ARGUMENTS, root, comm
#define GATHER_CALL(COUNT, OFFSET) {.function = GATHER, MOVED_BUFFERS, .root = root, .comm = comm}
#define GATHER_NARROW(call) SENT_COUNTED(call), RECEIVED(call), (call)->root, (call)->comm

#define SCATTER_PARAMETERS(COUNT, OFFSET) GATHER_PARAMETERS(COUNT, OFFSET)
#define SCATTER_ARGUMENTS GATHER_ARGUMENTS
#define SCATTER_CALL(COUNT, OFFSET) {.function = SCATTER, MOVED_BUFFERS, .root = root, .comm = comm}
#define SCATTER_NARROW(call) GATHER_NARROW(call)

#define GATHERED(COUNT, OFFSET)                                                                   \
    const void *send, COUNT send_count, handle send_type, void *receive, const COUNT counts[],    \
        const OFFSET offsets[], handle receive_type
#define GATHERED_BUFFERS(COUNT, OFFSET)     \
    .send = {send, send_count, send_type},  \
    .receive = {receive, 0, receive_type, VECTOR(counts, COUNT), VECTOR(offsets, OFFSET)}
#define GATHERED_NARROW(call)                                                                                 \
    SENT_COUNTED(call), (void *)(call)->receive.address, narrow((call), (call)->receive.counts),               \
        narrow((call), (call)->receive.offsets), (call)->receive.type

#define ALLGATHERV_PARAMETERS(COUNT, OFFSET) GATHERED(COUNT, OFFSET), handle comm
#define ALLGATHERV_ARGUMENTS send, send_count, send_type, receive, counts, offsets, receive_type, comm
#define ALLGATHERV_CALL(COUNT, OFFSET) {.function = ALLGATHERV, GATHERED_BUFFERS(COUNT, OFFSET), .comm = comm}
#define ALLGATHERV_NARROW(call) GATHERED_NARROW(call), (call)->comm

#define GATHERV_PARAMETERS(COUNT, OFFSET) GATHERED(COUNT, OFFSET), int root, handle comm
#define GATHERV_ARGUMENTS send, send_count, send_type, receive, counts, offsets, receive_type, root, comm
#define GATHERV_CALL(COUNT, OFFSET) \
    {.function = GATHERV, GATHERED_BUFFERS(COUNT, OFFSET), .root = root, .comm = comm}
#define GATHERV_NARROW(call) GATHERED_NARROW(call), (call)->root, (call)->comm

#define SCATTERV_PARAMETERS(COUNT, OFFSET)                                                            \
    const void *send, const COUNT counts[], const OFFSET offsets[], handle send_type, void *receive,  \
        COUNT receive_count, handle receive_type, int root, handle comm
#define SCATTERV_ARGUMENTS send, counts, offsets, send_type, receive, receive_count, receive_type, root, comm
#define SCATTERV_CALL(COUNT, OFFSET)                                                                   \
    {.function = SCATTERV, .send = {send, 0, send_type, VECTOR(counts, COUNT), VECTOR(offsets, OFFSET)}, \
     .receive = {receive, receive_count, receive_type}, .root = root, .comm = comm}
#define SCATTERV_NARROW(call)                                                                              \
    SENT(call), narrow((call), (call)->send.counts), narrow((call), (call)->send.offsets), (call)->send.type, \
        RECEIVED(call), (call)->root, (call)->comm

#define BARRIER_PARAMETERS(COUNT, OFFSET) handle comm
#define BARRIER_ARGUMENTS comm
#define BARRIER_CALL(COUNT, OFFSET) {.function = BARRIER, .comm = comm}
#endif
