/* Short forms: blocking collectives of equal parts, without time limits. */
#include "complaint.h"
#include "fanin.h"

static enum fanin_status computed(struct fanin_communicator *communicator, enum fanin_collective collective,
                                  const void *source, void *destination, uint64_t count, enum fanin_dtype dtype,
                                  enum fanin_op op, uint32_t root)
{
    struct fanin_operation operation = {.collective = collective, .root = root, .op = op, .dtype = dtype,
                                        .flags = FANIN_ALL_BLOCK, .source = source, .destination = destination};

    if (__builtin_mul_overflow(count, fanin_dtype_bytes(dtype), &operation.block)) {
        fanin_complain("%llu elements have more than 2^64 - 1 bytes", (unsigned long long)count);
        return FANIN_INVALID_REQUEST;
    }
    return fanin_call(communicator, &operation, 0, NULL);
}

static enum fanin_status moved(struct fanin_communicator *communicator, enum fanin_collective collective,
                               const void *source, void *destination, uint64_t length, uint32_t root)
{
    struct fanin_operation operation = {.collective = collective, .root = root, .flags = FANIN_ALL_BLOCK,
                                        .block = length, .source = source, .destination = destination};

    return fanin_call(communicator, &operation, 0, NULL);
}

enum fanin_status fanin_allreduce(struct fanin_communicator *communicator, const void *source, void *destination,
                                  uint64_t count, enum fanin_dtype dtype, enum fanin_op op)
{
    return computed(communicator, FANIN_ALLREDUCE, source, destination, count, dtype, op, 0);
}

enum fanin_status fanin_reduce(struct fanin_communicator *communicator, const void *source, void *destination,
                               uint64_t count, enum fanin_dtype dtype, enum fanin_op op, uint32_t root)
{
    return computed(communicator, FANIN_REDUCE, source, destination, count, dtype, op, root);
}

enum fanin_status fanin_reduce_scatter(struct fanin_communicator *communicator, const void *source, void *destination,
                                       uint64_t count, enum fanin_dtype dtype, enum fanin_op op)
{
    return computed(communicator, FANIN_REDUCE_SCATTER, source, destination, count, dtype, op, 0);
}

enum fanin_status fanin_broadcast(struct fanin_communicator *communicator, void *memory, uint64_t length,
                                  uint32_t root)
{
    return moved(communicator, FANIN_BROADCAST, memory, memory, length, root);
}

enum fanin_status fanin_allgather(struct fanin_communicator *communicator, const void *source, void *destination,
                                  uint64_t length)
{
    return moved(communicator, FANIN_ALLGATHER, source, destination, length, 0);
}

enum fanin_status fanin_gather(struct fanin_communicator *communicator, const void *source, void *destination,
                               uint64_t length, uint32_t root)
{
    return moved(communicator, FANIN_GATHER, source, destination, length, root);
}

enum fanin_status fanin_scatter(struct fanin_communicator *communicator, const void *source, void *destination,
                                uint64_t length, uint32_t root)
{
    return moved(communicator, FANIN_SCATTER, source, destination, length, root);
}

enum fanin_status fanin_barrier(struct fanin_communicator *communicator)
{
    return moved(communicator, FANIN_BARRIER, NULL, NULL, 0, 0);
}
