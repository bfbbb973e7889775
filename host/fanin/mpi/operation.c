/* Memory for an operation, its requests, and its end. */
#include "operation.h"
#include <stdlib.h>
#include <string.h>

/* Results may go where the data are read from, block on block: a segment is written when it has been read. */
static int apart(const struct operation *operation, const uint8_t *destination)
{
    const struct side *source = &operation->source;
    uint64_t length = operation->destination.bytes, own = 0, brought = 0, wanted = 0;
    enum collective collective = operation->meaning.collective;

    if (!source->bytes || source->area || destination >= source->memory + source->bytes ||
        source->memory >= destination + length)
        return 1;
    for (uint32_t block = 0; block < operation->terms->rank && block < operation->message.blocks; block++)
        own += operation->sizes[block];
    if (collective >= FANIN_ALLGATHER && collective <= FANIN_GATHERV)
        brought = own;
    if (collective == FANIN_REDUCE_SCATTER || collective == FANIN_SCATTER || collective == FANIN_SCATTERV)
        wanted = own;
    return source->memory - brought == destination - wanted;
}

/* Where as many bytes come as are brought, they are the same blocks: one registered memory serves for both then. */
static int share_source(struct operation *operation, uint64_t needed)
{
    const struct side *source = &operation->source;
    struct side *side = &operation->destination;

    if (!source->area || source->bytes != needed)
        return 0;
    side->area = source->area;
    side->memory = source->memory;
    side->copied = side->shared = 1;
    return 1;
}

/* `needed`: bytes that will come; more than there is room for are taken in, so that nothing else is written over. */
static int place_destination(struct operation *operation, uint64_t needed)
{
    struct side *side = &operation->destination;
    uint8_t *dense = fanin_dense_address(&side->elements);
    int fits = fanin_bytes_of(&side->elements) == needed;

    side->bytes = needed;
    if (!needed || share_source(operation, needed))
        return 1;
    side->area = fanin_lend(needed);
    if (side->area) {
        side->memory = side->area->address;
        side->copied = 1;
        return 1;
    }
    side->memory = dense;
    return (dense && fits && !operation->meaning.discard && apart(operation, dense)) || fanin_stand_in(side);
}

static uint32_t lkey_of(const struct side *side)
{
    return side->area ? side->area->lkey : FANIN_LKEY_PROCESS;
}

/* Bytes that come to this rank, by the sizes that all ranks know. */
static uint64_t needed_here(const struct operation *operation)
{
    enum collective collective = operation->meaning.collective;
    uint64_t bytes = 0;

    if (!operation->destination.elements.blocks)
        return 0;
    if (collective == FANIN_REDUCE_SCATTER || collective == FANIN_SCATTER || collective == FANIN_SCATTERV)
        return operation->sizes[operation->terms->rank];
    for (uint32_t block = 0; block < operation->message.blocks; block++)
        bytes += operation->sizes[block];
    return bytes;
}

void fanin_fill_message(struct operation *operation)
{
    struct message *message = &operation->message;
    const struct meaning *meaning = &operation->meaning;

    message->collective = meaning->collective;
    message->root = (uint32_t)meaning->root;
    message->op = meaning->computed ? meaning->op : FANIN_OP_NONE;
    message->dtype = meaning->computed ? meaning->computed->code : FANIN_DTYPE_U8;
    message->sizes = operation->sizes;
    message->source = (uintptr_t)(operation->source.bytes ? operation->source.memory : NULL);
    message->destination = (uintptr_t)(operation->destination.bytes ? operation->destination.memory : NULL);
    message->source_lkey = lkey_of(&operation->source);
    message->destination_lkey = lkey_of(&operation->destination);
}

static void make_requests(struct operation *operation)
{
    fanin_fill_message(operation);
    operation->transfer.count = fanin_mpi_plan(operation->terms, &operation->message, operation->transfer.wqes);
}

static void fill_sizes(struct operation *operation)
{
    const struct meaning *meaning = &operation->meaning;

    for (int block = 0; block < meaning->blocks; block++)
        operation->sizes[block] = fanin_size_of(meaning, block);
}

/* All ranks know the sizes now. Whoever's own arguments say otherwise gets an error, and the others what they asked for.
 * Any thread may come here, so nothing of the MPI is called: what this rank brings has been brought together before. */
static enum fanin_status expand(struct transfer *transfer)
{
    struct operation *operation = (struct operation *)transfer;
    const struct meaning *meaning = &operation->meaning;
    int rank = (int)operation->terms->rank;
    uint64_t own = fanin_size_of(meaning, rank);

    memcpy(operation->sizes, operation->exchange.memory, (size_t)operation->ranks * sizeof *operation->sizes);
    if (operation->sizes[rank] != own)
        operation->meaning.mismatch = 1;
    for (int block = 0; meaning->sized != ALIKE && block < meaning->blocks; block++)
        if (operation->sizes[block] != fanin_size_of(meaning, block))
            operation->meaning.mismatch = 1;
    if (!place_destination(operation, needed_here(operation)))
        return FANIN_NO_RESOURCES;
    make_requests(operation);
    return FANIN_SUCCESS;
}

/* Sizes that only some know: of a gather each rank tells its own, of a scatter the root tells all. */
static int prepare_exchange(struct operation *operation)
{
    const struct meaning *meaning = &operation->meaning;
    uint64_t bytes = (uint64_t)operation->ranks * sizeof(uint64_t), sizes[FEW], *each = sizes;
    int gathers = meaning->collective == FANIN_GATHERV, rank = (int)operation->terms->rank;
    int brings = gathers || rank == meaning->root;
    uint64_t own = fanin_size_of(meaning, rank);
    struct side *side = &operation->exchange;

    if (operation->ranks > FEW && !(each = malloc(bytes)))
        return 0;
    for (int block = 0; block < operation->ranks; block++)
        each[block] = sizeof(uint64_t);
    side->bytes = bytes;
    if (fanin_stand_in(side)) {
        uint64_t *table = (uint64_t *)side->memory;
        for (int block = 0; brings && !gathers && block < operation->ranks; block++)
            table[block] = fanin_size_of(meaning, block);
        struct message message = {
            .collective = gathers ? FANIN_ALLGATHER : FANIN_BROADCAST, .root = gathers ? 0 : (uint32_t)meaning->root,
            .op = FANIN_OP_NONE, .dtype = FANIN_DTYPE_U8, .blocks = gathers ? (uint32_t)operation->ranks : 1,
            .source_lkey = gathers || !brings ? FANIN_LKEY_PROCESS : lkey_of(side),
            .destination_lkey = gathers || !brings ? lkey_of(side) : FANIN_LKEY_PROCESS,
            .sizes = gathers ? each : &bytes,
            .source = gathers ? (uintptr_t)&own : brings ? (uintptr_t)table : 0,
            .destination = gathers || !brings ? (uintptr_t)table : 0};
        operation->transfer.count = fanin_mpi_plan(operation->terms, &message, operation->transfer.wqes);
        operation->transfer.expand = expand;
    }
    if (each != sizes)
        free(each);
    return side->memory != NULL;
}

/* For its requests: many even blocks are one. */
static int make_room(struct operation *operation)
{
    const struct meaning *meaning = &operation->meaning;
    int even = meaning->sized == ALIKE && !meaning->counts_of_root && meaning->blocks > 1;
    uint32_t room = even ? 1 : fanin_mpi_most_requests(&operation->message);

    if (room > 1)
        operation->transfer.wqes = malloc(room * sizeof *operation->transfer.wqes);
    return operation->transfer.wqes != NULL;
}

int fanin_begin_operation(struct operation *operation, const struct terms *terms, int ranks)
{
    const struct meaning *meaning = &operation->meaning;
    size_t blocks = (size_t)meaning->blocks;

    operation->transfer = (struct transfer){.wqes = &operation->transfer.one};
    operation->source = operation->destination = operation->exchange = (struct side){0};
    operation->meaning.mismatch = 0;
    operation->terms = terms;
    operation->ranks = ranks;
    operation->pieces.present = 0;
    operation->sizes = blocks > FEW ? malloc(blocks * sizeof *operation->sizes) : operation->few;
    if (!operation->sizes)
        return 0;
    if (!fanin_is_convertible(&meaning->source) || !fanin_is_convertible(&meaning->destination))
        return 0; /* the counts that decide about this are the root's */
    if (!meaning->counts_of_root)
        fill_sizes(operation);
    operation->message = (struct message){.collective = meaning->collective, .blocks = (uint32_t)blocks,
                                          .sizes = operation->sizes};
    return make_room(operation);
}

int fanin_prepare(struct operation *operation, const struct terms *terms, int ranks)
{
    if (!fanin_begin_operation(operation, terms, ranks))
        return 0;
    operation->source.elements = operation->meaning.source;
    operation->destination.elements = operation->meaning.destination;
    if (!fanin_place_source(&operation->source))
        return 0;
    if (operation->meaning.counts_of_root)
        return prepare_exchange(operation);
    if (!place_destination(operation, needed_here(operation)))
        return 0;
    make_requests(operation);
    return 1;
}

/* spoiled: a device may still write there. Of a message in pieces it knows the memories of the pieces only. */
static void give_back(struct operation *operation, int spoiled)
{
    fanin_release_side(&operation->source, spoiled);
    fanin_release_side(&operation->destination, spoiled);
    fanin_release_side(&operation->exchange, spoiled);
    if (operation->transfer.wqes != &operation->transfer.one)
        free(operation->transfer.wqes);
    if (operation->sizes != operation->few)
        free(operation->sizes);
}

void fanin_drop_operation(struct operation *operation)
{
    give_back(operation, 0);
    operation->source = operation->destination = operation->exchange = (struct side){0};
    operation->transfer = (struct transfer){.wqes = &operation->transfer.one, .status = FANIN_NO_RESOURCES, .done = 1};
    operation->sizes = operation->few;
}

enum fanin_status fanin_conclude(struct operation *operation)
{
    enum fanin_status status = operation->transfer.status;
    struct side *destination = &operation->destination;

    if (status == FANIN_SUCCESS && operation->meaning.mismatch)
        status = FANIN_OP_MISMATCH;
    if (status == FANIN_SUCCESS && destination->copied && !operation->meaning.discard)
        fanin_distribute(&destination->elements, destination->memory);
    give_back(operation, operation->transfer.status != FANIN_SUCCESS && !operation->pieces.present);
    return status;
}
