#include "collectives/plan.h"
#include "mix.h"

static uint64_t divide_up(uint64_t dividend, uint64_t divisor)
{
    return (dividend + divisor - 1) / divisor;
}

void fanin_use_sizes(struct message *message, const uint64_t *sizes)
{
    if (!sizes)
        return;
    message->block = sizes[0];
    for (uint32_t block = 1; block < message->blocks; block++)
        if (sizes[block] != message->block)
            message->sizes = sizes;
}

uint64_t fanin_bytes_before(const struct message *message, uint32_t end)
{
    uint64_t bytes = 0;

    if (!message->sizes)
        return __builtin_mul_overflow(message->block, end, &bytes) ? UINT64_MAX : bytes;
    for (uint32_t block = 0; block < end; block++)
        if (__builtin_add_overflow(bytes, message->sizes[block], &bytes))
            return UINT64_MAX;
    return bytes;
}

uint64_t fanin_message_length(const struct message *message)
{
    return fanin_bytes_before(message, message->blocks);
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
    if (!side.own)
        return fanin_message_length(message);
    return message->sizes ? message->sizes[rank] : message->block;
}

uint64_t fanin_part_length(uint64_t length)
{
    uint64_t part = PART_BYTES;

    while (part < divide_up(length, MAX_PARTS))
        part *= 2;
    return part;
}

struct run fanin_even_run(const struct message *message, uint32_t rank, uint32_t number)
{
    uint64_t offset = number * message->part, length = message->block - offset;

    if (message->part && message->part < length)
        length = message->part;
    return (struct run){.blocks = message->blocks, .place = rank, .block = length, .last = length, .own = length,
                        .length = length * message->blocks, .offset = offset, .next = number + 1};
}

static int uneven_run(const struct message *message, uint32_t rank, struct run *run)
{
    uint32_t i = run->next;

    *run = (struct run){.place = -1, .offset = run->offset + run->length};
    for (; i < message->blocks; i++) {
        uint64_t size = message->sizes[i];
        if (!size)
            continue;
        if (run->blocks && (run->last < run->block || size > run->block))
            break;
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
    run->next = i;
    return run->blocks > 0;
}

int fanin_next_run(const struct message *message, uint32_t rank, struct run *run)
{
    if (message->sizes)
        return uneven_run(message, rank, run);
    if (run->next >= fanin_count_runs(message, rank))
        return 0;
    *run = fanin_even_run(message, rank, run->next);
    return 1;
}

uint32_t fanin_count_runs(const struct message *message, uint32_t rank)
{
    struct run run = {0};
    uint32_t count = 0;

    if (!message->sizes)
        return message->part && message->block ? (uint32_t)divide_up(message->block, message->part) : 1;
    while (uneven_run(message, rank, &run))
        count++;
    return count;
}

/* The blocks of a run that a rank brings (wants), and their offset in its memory. */
struct piece {
    uint32_t first, blocks;
    uint64_t offset;
};

static struct piece piece_of(struct collective_side side, const struct run *run, uint32_t rank, uint32_t root)
{
    if (!run->length || !includes(side, rank, root) || (side.own && run->place < 0))
        return (struct piece){0};
    if (side.own)
        return (struct piece){(uint32_t)run->place, 1, 0};
    return (struct piece){0, run->blocks, run->offset};
}

static uint32_t segment_length(const struct job_params *job_params, const struct message *message)
{
    int wide = job_params->wide && message->row->contributors == FANIN_CLASS_ALL;

    return fanin_segment_bytes(job_params->chunk, wide, message->op, message->dtype);
}

uint32_t fanin_count_positions(const struct job_params *job_params, const struct message *message, const struct run *run)
{
    uint64_t segment = segment_length(job_params, message);

    if (!run->length)
        return 1;
    return (uint32_t)((run->blocks - 1) * divide_up(run->block, segment) + divide_up(run->last, segment));
}

void fanin_write_request(const struct job_params *job_params, const struct message *message, const struct run *run,
                         struct fanin_wqe *wqe)
{
    const struct collective_row *row = message->row;
    struct piece source = piece_of(row->brings, run, job_params->rank, message->root);
    struct piece destination = piece_of(row->wants, run, job_params->rank, message->root);

    *wqe = (struct fanin_wqe){
        .opcode = FANIN_WQE_COLLECTIVE, .op = (uint8_t)message->op, .dtype = (uint8_t)message->dtype,
        .contributors = row->contributors, .route = (uint8_t)job_params->route, .address_count = 1, .jid = job_params->jid,
        .node_bitmap = job_params->node_bitmap, .rank_bitmap = job_params->rank_bitmap, .length = run->length,
        .block = run->block, .chunk = job_params->chunk, .segments = fanin_count_positions(job_params, message, run),
        .address = {.destination = destination.offset, .destination_first = destination.first,
                    .destination_blocks = destination.blocks, .source_first = source.first,
                    .source_blocks = source.blocks, .source = source.offset}};
    if (!run->length) { /* devices treat it as a barrier */
        wqe->contributors = FANIN_CLASS_NONE;
        wqe->op = FANIN_OP_NONE;
        wqe->dtype = FANIN_DTYPE_U8;
    }
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
