/* A piece lies in its memory as the whole message does in the program's: all blocks one after the other, the rank's own
 * at its place among them, what the rank brings and what comes to it in the same bytes (a segment is written when it has
 * been read). Each of a few such memories is used again and again, while it is in the caches.
 */
#include "pieces.h"
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LONG_IN_PLACE (32u << 20) /* bytes: the data of longer messages have left the caches before results come */

/* Who has all blocks rather than his own. */
static const struct layout {
    uint8_t brings_all, wants_all;
} layouts[FANIN_COLLECTIVES] = {
    [FANIN_ALLREDUCE] = {1, 1},
    [FANIN_REDUCE] = {1, 1},
    [FANIN_REDUCE_SCATTER] = {1, 0},
    [FANIN_BROADCAST] = {1, 1},
    [FANIN_ALLGATHER] = {0, 1},
    [FANIN_ALLGATHERV] = {0, 1},
    [FANIN_GATHER] = {0, 1},
    [FANIN_SCATTER] = {1, 0},
};

/* Bytes of each block, where all are alike; else 0. */
static uint64_t even_block(const struct meaning *meaning)
{
    if (meaning->counts_of_root || !meaning->blocks)
        return 0;
    for (int block = 1; block < meaning->blocks; block++)
        if (fanin_size_of(meaning, block) != fanin_size_of(meaning, 0))
            return 0;
    return fanin_size_of(meaning, 0);
}

int fanin_is_long(const struct meaning *meaning)
{
    return fanin_message_bytes(meaning) >= fanin_mpi_part_length(0) && even_block(meaning);
}

/* Bytes of a block in each piece: of one block as planned, of several whole segments of each. */
static uint64_t bytes_of_part(uint64_t block, uint64_t blocks, uint32_t chunk)
{
    uint64_t piece = fanin_mpi_part_length(block * blocks), bytes = piece / blocks / chunk * chunk;

    return blocks == 1 ? piece : bytes ? bytes : chunk;
}

/* One side of a piece, as a walk over its blocks. */
struct walk {
    uint64_t blocks;           /* that this side has */
    uint64_t offset, bytes;    /* of the part in its block */
    uint8_t *piece;            /* where the first of them lies in the piece's memory */
};

static struct walk walk_of(const struct operation *operation, uint32_t number, int all)
{
    const struct pieces *pieces = &operation->pieces;
    uint64_t offset = number * pieces->part, rest = pieces->block - offset;
    uint64_t bytes = rest < pieces->part ? rest : pieces->part;
    uint8_t *memory = pieces->memory[number % pieces->present].memory;

    if (all)
        return (struct walk){(uint64_t)operation->meaning.blocks, offset, bytes, memory};
    return (struct walk){1, offset, bytes, memory + operation->terms->rank * bytes};
}

static void bring(const struct operation *operation, const struct walk *walk)
{
    for (uint64_t block = 0; block < walk->blocks; block++)
        memcpy(walk->piece + block * walk->bytes,
               operation->source.memory + block * operation->pieces.block + walk->offset, walk->bytes);
}

/* Before request `number` is posted. Returns it. */
static struct fanin_wqe *load(struct transfer *transfer, uint32_t number)
{
    struct operation *operation = (struct operation *)transfer;
    const struct layout *layout = &layouts[operation->meaning.collective];
    const struct side *memory = &operation->pieces.memory[number % operation->pieces.present];
    struct walk source = walk_of(operation, number, layout->brings_all);
    struct walk destination = walk_of(operation, number, layout->wants_all);
    struct message message = operation->message;

    for (int block = 0; block < operation->meaning.blocks; block++)
        operation->sizes[block] = source.bytes;
    message.source_lkey = message.destination_lkey = memory->area ? memory->area->lkey : FANIN_LKEY_PROCESS;
    message.source = operation->source.bytes ? (uintptr_t)source.piece : 0;
    message.destination = operation->destination.bytes ? (uintptr_t)destination.piece : 0;
    if (operation->source.bytes)
        bring(operation, &source);
    fanin_request_of(operation->terms, &message, &transfer->one);
    transfer->one.mid = operation->pieces.digest;
    transfer->one.flags |= FANIN_WQE_SIGNALED;
    return &transfer->one;
}

/* Copy past the caches: else each line would be read from memory before it is written. */
static void copy_beyond(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
#ifdef __SSE2__
    uint64_t unaligned = -(uintptr_t)to & 15;

    if (unaligned > bytes)
        unaligned = bytes;
    memcpy(to, from, unaligned);
    for (to += unaligned, from += unaligned, bytes -= unaligned; bytes >= 16; to += 16, from += 16, bytes -= 16)
        _mm_stream_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)from));
    _mm_sfence();
#endif
    memcpy(to, from, bytes);
}

/* Whether results do. Those in the place of their data find the lines in a cache, unless there are very many. */
static int goes_beyond(const struct operation *operation)
{
    const struct layout *layout = &layouts[operation->meaning.collective];
    int same_blocks = layout->brings_all == layout->wants_all;
    int in_place = same_blocks && operation->source.memory == operation->destination.memory;

    return operation->destination.bytes >= (in_place ? LONG_IN_PLACE : FANIN_LONG_BYTES);
}

/* Request `number` has come to its end. */
static void store(struct transfer *transfer, uint32_t number)
{
    struct operation *operation = (struct operation *)transfer;
    struct walk walk = walk_of(operation, number, layouts[operation->meaning.collective].wants_all);
    int beyond = goes_beyond(operation);

    if (!operation->destination.bytes || operation->meaning.discard)
        return;
    for (uint64_t block = 0; block < walk.blocks; block++) {
        uint8_t *place = operation->destination.memory + block * operation->pieces.block + walk.offset;
        if (beyond)
            copy_beyond(place, walk.piece + block * walk.bytes, walk.bytes);
        else
            memcpy(place, walk.piece + block * walk.bytes, walk.bytes);
    }
}

/* The whole side without gaps: the program's own memory where it is so, else a copy. */
static int place(struct side *side, const struct elements *elements, uint64_t needed)
{
    uint64_t present = fanin_bytes_of(elements);

    side->elements = *elements;
    if (!elements->blocks)
        return 1;
    side->bytes = needed;
    side->memory = present == needed ? fanin_dense_address(elements) : NULL;
    if (side->memory)
        return 1;
    side->memory = calloc(1, present > needed ? present : needed);
    side->copied = side->allocated = 1;
    return side->memory != NULL;
}

static int place_sides(struct operation *operation)
{
    const struct meaning *meaning = &operation->meaning;
    const struct layout *layout = &layouts[meaning->collective];
    uint64_t block = operation->pieces.block, whole = block * (uint64_t)meaning->blocks;
    struct side *source = &operation->source;

    if (!place(source, &meaning->source, layout->brings_all ? whole : block) ||
        !place(&operation->destination, &meaning->destination, layout->wants_all ? whole : block))
        return 0;
    if (source->copied)
        fanin_collect(&source->elements, source->memory);
    return 1;
}

/* One memory is enough: then one piece is under way at a time. */
static int lend_memory(struct operation *operation)
{
    struct pieces *pieces = &operation->pieces;
    uint32_t wanted = operation->transfer.count < DEPTH ? operation->transfer.count : DEPTH;

    for (; pieces->present < wanted; pieces->present++) {
        struct side *memory = &pieces->memory[pieces->present];
        *memory = (struct side){.bytes = pieces->part * (uint64_t)operation->meaning.blocks};
        if (!fanin_stand_in(memory))
            break;
    }
    operation->transfer.window = pieces->present;
    return pieces->present > 0;
}

int fanin_prepare_pieces(struct operation *operation, const struct terms *terms, int ranks)
{
    struct pieces *pieces = &operation->pieces;
    struct transfer *transfer = &operation->transfer;

    if (!fanin_begin_operation(operation, terms, ranks))
        return 0;
    pieces->block = even_block(&operation->meaning);
    pieces->part = bytes_of_part(pieces->block, (uint64_t)operation->meaning.blocks, terms->chunk);
    if (!place_sides(operation))
        return 0;
    fanin_fill_message(operation);
    pieces->digest = fanin_digest(&operation->message); /* of the whole, so that ranks notice who has another one */
    transfer->load = load;
    transfer->store = store;
    transfer->count = (uint32_t)((pieces->block + pieces->part - 1) / pieces->part);
    return lend_memory(operation);
}

void fanin_release_pieces(struct operation *operation)
{
    for (uint32_t number = 0; number < operation->pieces.present; number++)
        fanin_release_side(&operation->pieces.memory[number], operation->transfer.status != FANIN_SUCCESS);
}
