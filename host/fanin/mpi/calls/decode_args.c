/* Only values that MPI has equal on all ranks describe the message. The values that may differ (datatypes, offsets)
 * only describe how this rank's own buffers lie in memory.
 */
#include "calls/decode_args.h"

static int describe(const struct buffer *buffer, int blocks, struct elements *elements)
{
    *elements = (struct elements){.address = (uint8_t *)buffer->address, .type = buffer->type, .blocks = blocks,
                                  .count = buffer->count, .counts = buffer->counts, .offsets = buffer->offsets};
    if (!shim_type_facts(buffer->type, &elements->facts))
        return 0;
    for (int block = 0; block < (buffer->counts.items ? blocks : 1); block++) {
        int64_t count = buffer->counts.items ? item(buffer->counts, block) : buffer->count;
        /* a NULL may be MPI_BOTTOM, if the type is a derived one that holds addresses */
        if (count < 0 || (count && !buffer->address && elements->facts.dense && elements->facts.size))
            return 0;
    }
    return 1;
}

/* Equal blocks that follow each other, in extents, as one block. */
static struct elements as_one_block(struct elements elements)
{
    elements.count *= elements.blocks;
    elements.blocks = 1;
    return elements;
}

/* One block of a buffer of many. */
static struct elements block_of(const struct elements *elements, int block)
{
    struct elements one = *elements;
    int64_t offset = elements->offsets.items ? item(elements->offsets, block) : block * elements->count;

    one.count = elements->counts.items ? item(elements->counts, block) : elements->count;
    one.address += offset * elements->facts.extent;
    one.counts = one.offsets = (struct vector){0};
    one.blocks = 1;
    return one;
}

static int decode_reduction(const struct call *call, int rank, int ranks, struct decoded_call *decoded)
{
    const struct datatype *type = shim_datatype(call->receive.type);
    struct fanin_operation *operation = &decoded->operation;
    int scattered = operation->collective == FANIN_REDUCE_SCATTER, blocks = scattered ? ranks : 1;
    struct buffer whole = call->receive;

    whole.address = is_in_place(call->send.address) ? call->receive.address : call->send.address;
    if (!describe(&whole, blocks, &decoded->source))
        return 0;
    /* Devices compute on a pair as it lies in an array, with its gap. */
    decoded->source.facts = (struct type_facts){type->bytes, type->bytes, 1};
    if (operation->collective != FANIN_REDUCE || rank == call->root) {
        struct elements *result = &decoded->destination;
        *result = decoded->source;
        result->address = (uint8_t *)call->receive.address;
        if (scattered) { /* the block of this rank goes to the start of the buffer */
            result->count = call->receive.counts.items ? item(call->receive.counts, rank) : call->receive.count;
            result->counts = (struct vector){0};
            result->blocks = 1;
        }
        if (!result->address && shim_block_bytes(result, 0))
            return 0;
    }
    operation->op = shim_op(call->op);
    operation->dtype = type->code;
    operation->block = call->receive.counts.items ? 0 : shim_block_bytes(&decoded->source, 0);
    decoded->blocks = (uint32_t)blocks;
    decoded->block_sizes = call->receive.counts.items ? BLOCKS_OF_SOURCE : EQUAL_BLOCKS;
    return 1;
}

static int decode_broadcast(const struct call *call, int rank, struct decoded_call *decoded)
{
    struct elements *own = rank == call->root ? &decoded->source : &decoded->destination;

    if (!describe(&call->receive, 1, own))
        return 0;
    decoded->blocks = 1;
    decoded->operation.block = shim_block_bytes(own, 0);
    return 1;
}

/* Allgather and gather. `gets_all`: this rank gets the blocks. */
static int decode_gather(const struct call *call, int rank, int ranks, int gets_all, struct decoded_call *decoded)
{
    int in_place = is_in_place(call->send.address), uneven = call->receive.counts.items != NULL;

    if (gets_all && !describe(&call->receive, ranks, &decoded->destination))
        return 0;
    if (in_place && gets_all)
        decoded->source = block_of(&decoded->destination, rank);
    else if (!describe(&call->send, 1, &decoded->source))
        return 0;
    decoded->blocks = (uint32_t)ranks;
    decoded->operation.block = shim_block_bytes(gets_all && !uneven ? &decoded->destination : &decoded->source, 0);
    if (gets_all && uneven)
        decoded->block_sizes = BLOCKS_OF_DESTINATION;
    else if (gets_all)
        decoded->destination = as_one_block(decoded->destination);
    return 1;
}

static int decode_scatter(const struct call *call, int rank, int ranks, struct decoded_call *decoded)
{
    int brings_all = rank == call->root, uneven = call->function == SCATTERV;

    if (brings_all && !describe(&call->send, ranks, &decoded->source))
        return 0;
    decoded->discards_result = brings_all && is_in_place(call->receive.address);
    if (decoded->discards_result)
        decoded->destination = block_of(&decoded->source, rank);
    else if (!describe(&call->receive, 1, &decoded->destination))
        return 0;
    decoded->blocks = (uint32_t)ranks;
    decoded->operation.block = shim_block_bytes(brings_all && !uneven ? &decoded->source : &decoded->destination, 0);
    if (brings_all && uneven)
        decoded->block_sizes = BLOCKS_OF_SOURCE;
    else if (brings_all)
        decoded->source = as_one_block(decoded->source);
    return 1;
}

static const enum fanin_collective collectives[FUNCTION_COUNT] = {
    [ALLREDUCE] = FANIN_ALLREDUCE,
    [REDUCE] = FANIN_REDUCE,
    [REDUCE_SCATTER] = FANIN_REDUCE_SCATTER,
    [REDUCE_SCATTER_BLOCK] = FANIN_REDUCE_SCATTER,
    [BCAST] = FANIN_BROADCAST,
    [ALLGATHER] = FANIN_ALLGATHER,
    [ALLGATHERV] = FANIN_ALLGATHERV,
    [GATHER] = FANIN_GATHER,
    [GATHERV] = FANIN_GATHERV,
    [SCATTER] = FANIN_SCATTER,
    [SCATTERV] = FANIN_SCATTERV,
    [BARRIER] = FANIN_BARRIER,
};

int shim_decode_args(const struct call *call, int rank, int ranks, struct decoded_call *decoded)
{
    if (call->root < 0 || call->root >= ranks)
        return 0;
    *decoded = (struct decoded_call){
        .operation = {.collective = collectives[call->function], .root = (uint32_t)call->root}};
    if (call->function == GATHERV || call->function == SCATTERV)
        decoded->operation.flags = FANIN_EXCHANGE_SIZES;
    switch (call->function) {
    case ALLREDUCE:
    case REDUCE:
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
        return decode_reduction(call, rank, ranks, decoded);
    case BCAST:
        return decode_broadcast(call, rank, decoded);
    case ALLGATHER:
    case ALLGATHERV:
        return decode_gather(call, rank, ranks, 1, decoded);
    case GATHER:
    case GATHERV:
        return decode_gather(call, rank, ranks, rank == call->root, decoded);
    case SCATTER:
    case SCATTERV:
        return decode_scatter(call, rank, ranks, decoded);
    default:
        return 1;
    }
}

uint64_t shim_message_bytes(const struct decoded_call *decoded)
{
    uint64_t bytes = 0;

    if (decoded->block_sizes == EQUAL_BLOCKS)
        return decoded->operation.block * decoded->blocks;
    for (uint32_t block = 0; block < decoded->blocks; block++)
        bytes += shim_size_of_block(decoded, block);
    return bytes;
}
