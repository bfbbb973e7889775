/* What the arguments of each collective mean: blocks, sizes, who brings and who wants what. Only what MPI has equal on
 * all ranks goes into the message; what only this rank says (its datatypes, its offsets) goes into its buffers.
 */
#include "operation.h"
#include "pmpi.h"

static int describe(const struct buffer *buffer, int blocks, struct elements *elements)
{
    *elements = (struct elements){.address = (uint8_t *)buffer->address, .type = buffer->type, .blocks = blocks,
                                  .count = buffer->count, .counts = buffer->counts, .offsets = buffer->offsets};
    if (!fanin_type_facts(buffer->type, &elements->facts))
        return 0;
    for (int block = 0; block < (buffer->counts.items ? blocks : 1); block++) {
        int64_t count = buffer->counts.items ? item(buffer->counts, block) : buffer->count;
        /* MPI_BOTTOM may be meant where a derived type holds addresses */
        if (count < 0 || (count && !buffer->address && elements->facts.dense && elements->facts.size))
            return 0;
    }
    return 1;
}

/* The elements of all blocks as one block: neighbours of equal count, in extents. */
static struct elements as_one(struct elements elements)
{
    elements.count *= elements.blocks;
    elements.blocks = 1;
    return elements;
}

/* One block of a buffer of many, as its owner has it in place. */
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

static int computes(const struct call *call, struct meaning *meaning)
{
    meaning->computed = fanin_predefined(call->receive.type);
    meaning->op = fanin_op_of(call->op);
    return 1;
}

/* A pair as it lies in an array, with its gap: devices compute on it so. */
static void computed_facts(const struct meaning *meaning, struct elements *elements)
{
    if (meaning->computed)
        elements->facts = (struct type_facts){meaning->computed->bytes, meaning->computed->bytes, 1};
}

static int mean_reduction(const struct call *call, int rank, int ranks, struct meaning *meaning)
{
    int scattered = meaning->collective == FANIN_REDUCE_SCATTER, blocks = scattered ? ranks : 1;
    int wants = meaning->collective != FANIN_REDUCE || rank == call->root;
    struct buffer whole = call->receive;

    whole.address = is_in_place(call->send.address) ? call->receive.address : call->send.address;
    computes(call, meaning);
    if (!describe(&whole, blocks, &meaning->source))
        return 0;
    computed_facts(meaning, &meaning->source);
    if (wants) {
        struct buffer result = call->receive;
        meaning->destination = meaning->source;
        meaning->destination.address = (uint8_t *)result.address;
        if (scattered) { /* the own block comes to the start of the buffer */
            meaning->destination.count = result.counts.items ? item(result.counts, rank) : result.count;
            meaning->destination.counts = (struct vector){0};
            meaning->destination.blocks = 1;
        }
        if (!result.address && fanin_block_bytes(&meaning->destination, 0))
            return 0;
    }
    meaning->blocks = blocks;
    meaning->block = call->receive.counts.items ? 0 : fanin_block_bytes(&meaning->source, 0);
    meaning->sized = call->receive.counts.items ? AS_SOURCE : ALIKE;
    return 1;
}

static int mean_broadcast(const struct call *call, int rank, struct meaning *meaning)
{
    struct elements *own = rank == call->root ? &meaning->source : &meaning->destination;

    if (!describe(&call->receive, 1, own))
        return 0;
    meaning->blocks = 1;
    meaning->block = fanin_block_bytes(own, 0);
    return 1;
}

/* Allgather and gather: each brings its block, `wants` all of them. */
static int mean_gathering(const struct call *call, int rank, int ranks, int wants, struct meaning *meaning)
{
    int in_place = is_in_place(call->send.address), uneven = call->receive.counts.items != NULL;

    if (wants && !describe(&call->receive, ranks, &meaning->destination))
        return 0;
    if (in_place && wants)
        meaning->source = block_of(&meaning->destination, rank);
    else if (!describe(&call->send, 1, &meaning->source))
        return 0;
    meaning->blocks = ranks;
    if (wants && uneven)
        meaning->sized = AS_DESTINATION;
    else
        meaning->block = wants ? fanin_block_bytes(&meaning->destination, 0) : fanin_block_bytes(&meaning->source, 0);
    if (wants && !uneven)
        meaning->destination = as_one(meaning->destination);
    return 1;
}

static int mean_scattering(const struct call *call, int rank, int ranks, struct meaning *meaning)
{
    int brings = rank == call->root, uneven = meaning->counts_of_root;

    if (brings && !describe(&call->send, ranks, &meaning->source))
        return 0;
    meaning->discard = brings && is_in_place(call->receive.address);
    if (meaning->discard)
        meaning->destination = block_of(&meaning->source, rank);
    else if (!describe(&call->receive, 1, &meaning->destination))
        return 0;
    meaning->blocks = ranks;
    if (brings && uneven)
        meaning->sized = AS_SOURCE;
    else
        meaning->block = brings ? fanin_block_bytes(&meaning->source, 0) : fanin_block_bytes(&meaning->destination, 0);
    if (brings && !uneven)
        meaning->source = as_one(meaning->source);
    return 1;
}

static const enum collective collectives[FUNCTION_COUNT] = {
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

int fanin_meaning(const struct call *call, int rank, int ranks, struct meaning *meaning)
{
    *meaning = (struct meaning){.collective = collectives[call->function], .root = call->root};
    if (call->root < 0 || call->root >= ranks)
        return 0;
    switch (call->function) {
    case ALLREDUCE:
    case REDUCE:
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
        return mean_reduction(call, rank, ranks, meaning);
    case BCAST:
        return mean_broadcast(call, rank, meaning);
    case GATHERV:
        meaning->counts_of_root = 1;
        return mean_gathering(call, rank, ranks, rank == call->root, meaning);
    case GATHER:
        return mean_gathering(call, rank, ranks, rank == call->root, meaning);
    case ALLGATHER:
    case ALLGATHERV:
        return mean_gathering(call, rank, ranks, 1, meaning);
    case SCATTERV:
        meaning->counts_of_root = 1;
        return mean_scattering(call, rank, ranks, meaning);
    case SCATTER:
        return mean_scattering(call, rank, ranks, meaning);
    default:
        return 1;
    }
}

uint64_t fanin_message_bytes(const struct meaning *meaning)
{
    uint64_t bytes = 0;

    if (meaning->counts_of_root)
        return 0;
    if (meaning->sized == ALIKE)
        return meaning->block * (uint64_t)meaning->blocks;
    for (int block = 0; block < meaning->blocks; block++)
        bytes += fanin_size_of(meaning, block);
    return bytes;
}
