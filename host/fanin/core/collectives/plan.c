#include "collectives/plan.h"
#include "mix.h"

uint64_t fanin_size_of(const struct message *message, uint32_t block)
{
    return message->sizes ? message->sizes[block] : message->block;
}

uint64_t fanin_message_length(const struct message *message)
{
    uint64_t length = 0;

    if (!message->sizes)
        return message->block * message->blocks;
    for (uint32_t block = 0; block < message->blocks; block++)
        length += message->sizes[block];
    return length;
}

static int includes(struct collective_side side, uint32_t rank, uint32_t root)
{
    return side.who == WHO_EVERYONE || (side.who == WHO_ROOT && rank == root) ||
           (side.who == WHO_OTHERS && rank != root);
}

uint64_t fanin_side_length(const struct message *message, struct collective_side side, uint32_t rank)
{
    if (!includes(side, rank, message->root))
        return 0;
    return side.own ? fanin_size_of(message, rank) : fanin_message_length(message);
}

uint64_t fanin_part_length(uint64_t length)
{
    uint64_t part = PART_BYTES;

    while (part * MAX_PARTS < length)
        part *= 2;
    return part;
}

/* The next part of a message of one block. */
static int next_part(const struct message *message, struct run *run)
{
    uint64_t size = fanin_size_of(message, 0), offset = run->offset + run->length, length = fanin_part_length(size);

    if (length > size - offset)
        length = size - offset;
    *run = (struct run){.blocks = 1, .place = -1, .block = length, .last = length, .length = length, .offset = offset};
    return length > 0;
}

/* All blocks at once. */
static int even_run(const struct message *message, uint32_t rank, struct run *run)
{
    if (run->next || !message->block)
        return 0;
    *run = (struct run){.blocks = message->blocks, .place = rank, .block = message->block, .last = message->block,
                        .own = message->block, .length = fanin_message_length(message), .next = message->blocks};
    return 1;
}

/* Empty blocks take no place in any request. */
static int uneven_run(const struct message *message, uint32_t rank, struct run *run)
{
    uint32_t from = run->next;

    *run = (struct run){.place = -1, .offset = run->offset + run->length, .next = message->blocks};
    for (uint32_t i = from; i < message->blocks; i++) {
        uint64_t size = message->sizes[i];
        if (!size)
            continue;
        if (run->blocks && (run->last < run->block || size > run->block)) {
            run->next = i;
            break;
        }
        if (!run->blocks)
            run->block = size;
        if (i == rank) {
            run->place = run->blocks;
            run->own = size;
        }
        run->blocks++;
        run->length += size;
        run->last = size;
    }
    return run->blocks > 0;
}

int fanin_next_run(const struct message *message, uint32_t rank, struct run *run)
{
    if (message->row->contributors == FANIN_CLASS_NONE) {
        int first = !run->next;
        *run = (struct run){.place = -1, .next = 1};
        return first;
    }
    if (!message->row->divided)
        return next_part(message, run);
    return message->sizes ? uneven_run(message, rank, run) : even_run(message, rank, run);
}

uint32_t fanin_count_runs(const struct message *message, uint32_t rank)
{
    struct run run = {0};
    uint32_t count = 0;

    if (message->row->contributors == FANIN_CLASS_NONE)
        return 1;
    if (!message->row->divided) {
        uint64_t size = fanin_size_of(message, 0), part = fanin_part_length(size);
        return (uint32_t)((size + part - 1) / part);
    }
    while (fanin_next_run(message, rank, &run))
        count++;
    return count;
}

/* What a rank brings (wants) of a run: a range of its blocks, and where they lie in the rank's memory. */
struct piece {
    uint32_t first, blocks;
    uint64_t offset, length;
};

static struct piece piece_of(struct collective_side side, const struct run *run, uint32_t rank, uint32_t root)
{
    if (!includes(side, rank, root) || (side.own && run->place < 0))
        return (struct piece){0};
    if (side.own)
        return (struct piece){(uint32_t)run->place, 1, 0, run->own};
    return (struct piece){0, run->blocks, run->offset, run->length};
}

uint32_t fanin_segment_length(const struct terms *terms, const struct message *message)
{
    int widens = terms->wide && message->row->contributors == FANIN_CLASS_ALL &&
                 fanin_dtypes[message->dtype].widens >> message->op & 1;

    return widens ? terms->chunk / 2 : terms->chunk;
}

uint32_t fanin_count_positions(const struct terms *terms, const struct message *message, const struct run *run)
{
    uint64_t segment = fanin_segment_length(terms, message), whole, rest;

    if (message->row->contributors == FANIN_CLASS_NONE)
        return 1;
    if (run->blocks == 1)
        return (uint32_t)((run->length + segment - 1) / segment);
    whole = run->length / run->block;
    rest = run->length % run->block;
    return (uint32_t)(whole * ((run->block + segment - 1) / segment) + (rest + segment - 1) / segment);
}

void fanin_write_request(const struct terms *terms, const struct message *message, const struct run *run,
                         struct fanin_wqe *wqe)
{
    const struct collective_row *row = message->row;
    struct piece source = piece_of(row->brings, run, terms->rank, message->root);
    struct piece destination = piece_of(row->wants, run, terms->rank, message->root);

    *wqe = (struct fanin_wqe){
        .opcode = FANIN_WQE_COLLECTIVE, .op = (uint8_t)message->op, .dtype = (uint8_t)message->dtype,
        .contributors = row->contributors, .route = (uint8_t)terms->route, .address_count = 1, .jid = terms->jid,
        .node_bitmap = terms->node_bitmap, .rank_bitmap = terms->rank_bitmap, .length = run->length,
        .block = run->block, .chunk = terms->chunk, .segments = fanin_count_positions(terms, message, run),
        .source_lkey = message->source.lkey, .destination_lkey = message->destination.lkey,
        .address = {.destination = message->destination.address + destination.offset,
                    .destination_first = destination.first, .destination_blocks = destination.blocks,
                    .source_first = source.first, .source_blocks = source.blocks,
                    .source = message->source.address + source.offset}};
}

uint32_t fanin_agreement(const struct message *message, uint32_t tag)
{
    int computes = message->row->contributors == FANIN_CLASS_ALL;
    uint64_t digest = mix(0xcbf29ce484222325ull, (uint64_t)(message->row - fanin_collectives) << 32 | message->root);

    digest = mix(digest, (uint64_t)(computes ? message->dtype : 0) << 32 | tag);
    digest = mix(digest, (uint64_t)message->blocks << 1 | (message->sizes != NULL));
    if (!message->sizes)
        digest = mix(digest, message->block);
    for (uint32_t block = 0; message->sizes && block < message->blocks; block++)
        digest = mix(digest, message->sizes[block]);
    return (uint32_t)(digest >> 16) & ((1u << FANIN_MID_BITS) - 1);
}
