/* Only values that MPI requires to be equal on all ranks describe the message. Others (datatypes, offsets) describe
 * this rank's buffers only. */
#include "calls/decode_args.h"

static const enum fanin_collective collectives[] = {
#define X(name, lower, TABLE, collective) collective,
    COLLECTIVES(X)
#undef X
};

static enum reason describe(const struct call *call, const struct buffer *buffer, int blocks,
                            struct elements *elements)
{
    *elements = (struct elements){.address = (uint8_t *)buffer->address, .type = buffer->type, .blocks = blocks,
                                  .counts = {buffer->counts, call->large, buffer->count},
                                  .offsets = {buffer->offsets, call->large, 0}};
    if (is_in_place(buffer->address) || !shim_type_facts(buffer->type, &elements->facts))
        return REASON_ARGUMENTS;
    for (int block = 0; block < (buffer->counts ? blocks : 1); block++) {
        int64_t count = item(elements->counts, block);
        /* NULL may be MPI_BOTTOM, with a derived type that holds addresses */
        if (count < 0 || (count && !buffer->address && elements->facts.dense && elements->facts.size))
            return REASON_ARGUMENTS;
    }
    return NO_REASON;
}

static struct elements block_of(const struct elements *elements, int block)
{
    struct elements one = *elements;

    one.address = shim_block_address(elements, block);
    one.counts = (struct vector){.each = item(elements->counts, block)};
    one.offsets = (struct vector){0};
    one.blocks = 1;
    return one;
}

static enum reason decode_reduction(const struct call *call, int rank, int ranks, struct decoded_call *decoded)
{
    const struct datatype *type = shim_datatype(call->receive.type);
    struct fanin_operation *operation = &decoded->operation;
    struct elements *result = &decoded->destination;
    struct buffer whole = call->receive;

    operation->op = shim_op(call->op);
    if (!operation->op)
        return REASON_OP;
    if (!type || !type->code || !shim_op_takes((uint8_t)operation->op, type->kind))
        return REASON_TYPE;
    operation->dtype = type->code;
    decoded->gets_all = operation->collective != FANIN_REDUCE_SCATTER;
    decoded->blocks = decoded->gets_all ? 1 : (uint32_t)ranks;
    whole.address = is_in_place(call->send.address) ? call->receive.address : call->send.address;
    if (describe(call, &whole, (int)decoded->blocks, &decoded->source) != NO_REASON)
        return REASON_ARGUMENTS;
    /* Devices compute on a pair with its gap. */
    decoded->source.facts = (struct type_facts){type->bytes, type->bytes, 1, 0, 0};
    operation->block = call->receive.counts ? 0 : shim_block_bytes(&decoded->source, 0);
    decoded->block_sizes = call->receive.counts ? BLOCKS_OF_SOURCE : EQUAL_BLOCKS;
    if (operation->collective == FANIN_REDUCE && rank != call->root)
        return is_in_place(call->send.address) ? REASON_ARGUMENTS : NO_REASON;
    *result = block_of(&decoded->source, decoded->gets_all ? 0 : rank);
    result->address = (uint8_t *)call->receive.address; /* this rank's block goes to the start, too */
    result->facts.dense = !type->gap;
    result->facts.gap_start = type->gap_start;
    result->facts.gap = type->gap;
    if (is_in_place(result->address))
        return REASON_ARGUMENTS;
    return result->address || !shim_block_bytes(result, 0) ? NO_REASON : REASON_ARGUMENTS;
}

static enum reason decode_broadcast(const struct call *call, int rank, struct decoded_call *decoded)
{
    struct elements *own = rank == call->root ? &decoded->source : &decoded->destination;
    enum reason reason = describe(call, &call->receive, 1, own);

    decoded->blocks = 1;
    decoded->operation.block = shim_block_bytes(own, 0);
    return reason;
}

/* Gathers and scatters: some ranks have all blocks on one side, and each has its own on the other. */
static enum reason decode_blocks(const struct call *call, int rank, int ranks, struct decoded_call *decoded)
{
    enum fanin_collective collective = decoded->operation.collective;
    int scatters = collective == FANIN_SCATTER || collective == FANIN_SCATTERV;
    int has_all = collective == FANIN_ALLGATHER || collective == FANIN_ALLGATHERV || rank == call->root;
    const struct buffer *all_given = scatters ? &call->send : &call->receive;
    const struct buffer *own_given = scatters ? &call->receive : &call->send;
    struct elements *all = scatters ? &decoded->source : &decoded->destination;
    struct elements *own = scatters ? &decoded->destination : &decoded->source;
    int in_place = has_all && is_in_place(own_given->address), uneven = has_all && all_given->counts;
    enum reason reason = has_all ? describe(call, all_given, ranks, all) : NO_REASON;

    if (reason != NO_REASON)
        return reason;
    if (!in_place)
        reason = describe(call, own_given, 1, own);
    else if (!scatters) /* an in-place scatter moves nothing on the root */
        *own = block_of(all, rank);
    decoded->brings_all = scatters;
    decoded->gets_all = !scatters;
    decoded->blocks = (uint32_t)ranks;
    decoded->operation.block = shim_block_bytes(has_all && !uneven ? all : own, 0);
    if (uneven)
        decoded->block_sizes = scatters ? BLOCKS_OF_SOURCE : BLOCKS_OF_DESTINATION;
    return reason;
}

enum reason shim_decode_args(const struct call *call, int rank, int ranks, struct decoded_call *decoded)
{
    if (call->root < 0 || call->root >= ranks)
        return REASON_ARGUMENTS;
    *decoded = (struct decoded_call){
        .operation = {.collective = collectives[call->function], .root = (uint32_t)call->root},
        .brings_all = 1, .gets_all = 1};
    switch (collectives[call->function]) {
    case FANIN_BARRIER:
        return NO_REASON;
    case FANIN_ALLREDUCE:
    case FANIN_REDUCE:
    case FANIN_REDUCE_SCATTER:
        return decode_reduction(call, rank, ranks, decoded);
    case FANIN_BROADCAST:
        return decode_broadcast(call, rank, decoded);
    case FANIN_GATHERV:
    case FANIN_SCATTERV:
        decoded->operation.flags = FANIN_EXCHANGE_SIZES;
        return decode_blocks(call, rank, ranks, decoded);
    default:
        return decode_blocks(call, rank, ranks, decoded);
    }
}
