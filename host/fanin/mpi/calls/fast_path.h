/* A short call takes the MPI a tenth of a microsecond, and decoding takes a large part of that. So the entries of
 * blocking calls first check whether the size alone leaves the call to the MPI. All is inlined, so unused arguments are
 * not even stored. */
#ifndef FANIN_MPI_FAST_PATH_H
#define FANIN_MPI_FAST_PATH_H
#include "comm/communicator.h"
#include <limits.h>

/* Bytes of an element of a predefined type in a message; 0: unknown here. */
static inline uint64_t shim_predefined_size(handle type)
{
    const struct datatype *datatype = shim_datatype(type);

    return datatype && datatype->kind != KIND_PAIR ? datatype->bytes : 0; /* a pair's gap counts in reductions only */
}

/* Whether a call is left to the MPI by its size, as far as known here. size_of: bytes of an element, or 0. */
static inline __attribute__((always_inline)) int
shim_is_left(const struct call *call, const struct communicator *communicator, uint64_t (*size_of)(handle))
{
    const struct range *range = &communicator->ranges[call->function];
    int is_root = communicator->rank == call->root, blocks = communicator->ranks;
    const struct buffer *buffer = &call->receive;
    uint64_t size;

    if (range->least > range->most)
        return 1;
    switch (call->function) {
    case ALLREDUCE:
    case REDUCE:
    case BCAST:
        blocks = 1;
        break;
    case REDUCE_SCATTER_BLOCK:
    case ALLGATHER:
        break;
    case GATHER:
        buffer = is_root ? &call->receive : &call->send;
        break;
    case SCATTER:
        buffer = is_root ? &call->send : &call->receive;
        break;
    case BARRIER:
        return !shim_is_within(range, 0);
    default:
        return 0;
    }
    size = buffer->count < 0 || buffer->count > INT_MAX ? 0 : size_of(buffer->type);
    return size && !shim_is_within(range, (uint64_t)buffer->count * size * (uint64_t)blocks);
}

/* Whether a blocking call is left to the MPI, and counted. 0: shim_blocking decides. */
static inline __attribute__((always_inline)) int shim_is_left_at_once(const struct call *call)
{
    struct communicator *communicator = shim_recent_communicator(clean(call->comm));
    struct call seen = *call;

    if (!communicator || communicator->is_to_join)
        return 0;
    if (communicator->reason != NO_REASON && communicator->reason != REASON_NOT_JOINED)
        return 0;
    seen.send.type = clean(call->send.type);
    seen.receive.type = clean(call->receive.type);
    if (!shim_is_left(&seen, communicator, shim_predefined_size))
        return 0;
    shim_count_left(call->function, REASON_THRESHOLD);
    return 1;
}
#endif
