/* The planner. Names as in the Python of the host library: a run is what one request can carry, a piece a rank's side. */
#include "plan.h"
#include <stddef.h>
#include <string.h>

#define PART (512ull << 10)  /* bytes: a longer message of one block goes in messages of so many, or if that is too many ... */
#define MOST_PARTS 128       /* ... of twice, four times ... as many: all parts find room in a send queue */
#define SIGNAL_INTERVAL 64 /* requests of a long call: a queue of silent ones would never be known to have room again */

enum who { NOBODY, EVERYONE, ROOT, OTHERS };

struct side {
    uint8_t who;           /* enum who */
    uint8_t own;           /* each has its own block only, not the whole message */
};

/* name, class; who brings; who wants */
static const struct row {
    const char *name;
    uint8_t contributors;
    struct side brings, wants;
} rows[FANIN_COLLECTIVES] = {
    [FANIN_ALLREDUCE] = {"allreduce", FANIN_CLASS_ALL, {EVERYONE, 0}, {EVERYONE, 0}},
    [FANIN_REDUCE] = {"reduce", FANIN_CLASS_ALL, {EVERYONE, 0}, {ROOT, 0}},
    [FANIN_REDUCE_SCATTER] = {"reduce_scatter", FANIN_CLASS_ALL, {EVERYONE, 0}, {EVERYONE, 1}},
    [FANIN_BROADCAST] = {"broadcast", FANIN_CLASS_ONE, {ROOT, 0}, {OTHERS, 0}},
    [FANIN_ALLGATHER] = {"allgather", FANIN_CLASS_ONE, {EVERYONE, 1}, {EVERYONE, 0}},
    [FANIN_ALLGATHERV] = {"allgatherv", FANIN_CLASS_ONE, {EVERYONE, 1}, {EVERYONE, 0}},
    [FANIN_GATHER] = {"gather", FANIN_CLASS_ONE, {EVERYONE, 1}, {ROOT, 0}},
    [FANIN_GATHERV] = {"gatherv", FANIN_CLASS_ONE, {EVERYONE, 1}, {ROOT, 0}},
    [FANIN_SCATTER] = {"scatter", FANIN_CLASS_ONE, {ROOT, 0}, {EVERYONE, 1}},
    [FANIN_SCATTERV] = {"scatterv", FANIN_CLASS_ONE, {ROOT, 0}, {EVERYONE, 1}},
    [FANIN_BARRIER] = {"barrier", FANIN_CLASS_NONE, {NOBODY, 0}, {NOBODY, 0}},
};

/* Neighbouring blocks that one request can carry: equal ones, and perhaps a shorter one at the end. */
struct run {
    uint32_t blocks;
    int place;             /* of this rank's own block among them; -1: it is not there */
    uint64_t block;        /* bytes of the first */
    uint64_t last;         /* bytes of the last */
    uint64_t own;          /* bytes of this rank's */
    uint64_t length;
    uint64_t offset;       /* bytes of all blocks before them */
};

struct piece {
    uint32_t first, blocks;
    uint64_t offset, bytes;
};

static uint32_t crc_of(uint32_t crc, const char *text)
{
    static const uint32_t nibbles[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

    for (; *text; text++) {
        crc ^= (uint8_t)*text;
        crc = nibbles[crc & 15] ^ crc >> 4;
        crc = nibbles[crc & 15] ^ crc >> 4;
    }
    return crc;
}

static uint32_t crc_of_number(uint32_t crc, uint64_t number)
{
    char text[21], *digit = text + sizeof text - 1;

    *digit = 0;
    do
        *--digit = (char)('0' + number % 10);
    while (number /= 10);
    return crc_of(crc, digit);
}

/* 16 bits of what all ranks must call alike and devices do not compare: CRC-32 of what Python prints of the tuple
 * (name, root, sizes, type). Data that are only moved are bytes, whatever each rank calls them. */
static uint32_t agreement(const struct row *row, const struct message *message)
{
    uint32_t crc = crc_of(crc_of(crc_of(0xffffffff, "('"), row->name), "', ");

    crc = crc_of(crc_of_number(crc, message->root), ", (");
    for (uint32_t i = 0; i < message->blocks; i++)
        crc = crc_of_number(i ? crc_of(crc, ", ") : crc, message->sizes[i]);
    crc = crc_of(crc, message->blocks == 1 ? ",), " : "), ");
    if (row->contributors == FANIN_CLASS_ONE)
        crc = crc_of(crc, "'|u1'");
    else
        crc = crc_of_number(crc, message->dtype);
    return ~crc_of(crc, ")") & ((1u << FANIN_MID_BITS) - 1);
}

/* The run that begins at block `from`; returns the block after it. Empty blocks take no place in any request. */
static uint32_t next_run(const struct message *message, uint32_t from, uint32_t rank, struct run *run)
{
    uint64_t offset = run->offset + run->length;
    uint32_t i;

    *run = (struct run){.place = -1, .offset = offset};
    for (i = from; i < message->blocks; i++) {
        uint64_t size = message->sizes[i];
        if (!size)
            continue;
        if (run->blocks && (run->last < run->block || size > run->block))
            break;
        if (!run->blocks)
            run->block = size;
        if (i == rank) {
            run->place = (int)run->blocks;
            run->own = size;
        }
        run->blocks++;
        run->length += size;
        run->last = size;
    }
    return i;
}

static int includes(struct side side, uint32_t rank, uint32_t root)
{
    return side.who == EVERYONE || (side.who == ROOT && rank == root) || (side.who == OTHERS && rank != root);
}

static struct piece piece_of(struct side side, const struct run *run, uint32_t rank, uint32_t root)
{
    if (!includes(side, rank, root) || (side.own && run->place < 0))
        return (struct piece){0};
    if (side.own)
        return (struct piece){(uint32_t)run->place, 1, 0, run->own};
    return (struct piece){0, run->blocks, run->offset, run->length};
}

static uint64_t segments(uint64_t bytes, uint32_t chunk)
{
    return (bytes + chunk - 1) / chunk;
}

/* Positions of the job's stream: a segment never crosses the end of a block. */
static uint32_t position_count(const struct row *row, const struct run *run, uint32_t chunk)
{
    if (row->contributors == FANIN_CLASS_NONE)
        return 1;
    return (uint32_t)(run->length / run->block * segments(run->block, chunk) + segments(run->length % run->block, chunk));
}

static void write_request(const struct terms *terms, const struct message *message, const struct run *run,
                          struct fanin_wqe *wqe)
{
    const struct row *row = &rows[message->collective];
    struct piece source = piece_of(row->brings, run, terms->rank, message->root);
    struct piece destination = piece_of(row->wants, run, terms->rank, message->root);

    *wqe = (struct fanin_wqe){
        .opcode = FANIN_WQE_COLLECTIVE, .op = (uint8_t)message->op, .dtype = (uint8_t)message->dtype,
        .contributors = row->contributors, .route = (uint8_t)terms->route, .address_count = 1, .jid = terms->jid,
        .node_bitmap = terms->node_bitmap, .rank_bitmap = terms->rank_bitmap, .length = run->length,
        .block = run->block, .chunk = terms->chunk, .segments = position_count(row, run, terms->chunk),
        .source_lkey = message->source_lkey, .destination_lkey = message->destination_lkey,
        .address = {.destination = message->destination + destination.offset,
                    .destination_first = destination.first, .destination_blocks = destination.blocks,
                    .source_first = source.first, .source_blocks = source.blocks,
                    .source = message->source + source.offset}};
    if (source.bytes && source.bytes <= FANIN_MAX_INLINE) {
        const void *data = (const void *)(uintptr_t)wqe->address.source;
        wqe->flags |= FANIN_WQE_INLINE;
        memcpy((char *)wqe + offsetof(struct fanin_wqe, address.source), data, source.bytes);
    }
}

uint64_t fanin_mpi_part_length(uint64_t size)
{
    uint64_t length = PART;

    while (length * MOST_PARTS < size)
        length *= 2;
    return length;
}

/* Bytes of the one block that a message consists of; 0: it has several, of which ranks have their own, or none. */
static uint64_t only_block(const struct message *message)
{
    const struct row *row = &rows[message->collective];

    return message->blocks == 1 && !row->brings.own && !row->wants.own ? message->sizes[0] : 0;
}

uint32_t fanin_mpi_most_requests(const struct message *message)
{
    uint64_t size = only_block(message), length = fanin_mpi_part_length(size);

    return size > length ? (uint32_t)segments(size, (uint32_t)length) : message->blocks ? message->blocks : 1;
}

/* The next part of a message of one block; it is as a run. Returns whether there is one. */
static int next_part(uint64_t size, struct run *run)
{
    uint64_t offset = run->offset + run->length, length = fanin_mpi_part_length(size);

    if (length > size - offset)
        length = size - offset;
    *run = (struct run){.blocks = 1, .place = -1, .block = length, .last = length, .length = length, .offset = offset};
    return length > 0;
}

uint32_t fanin_digest(const struct message *message)
{
    return agreement(&rows[message->collective], message) << FANIN_MID_BITS;
}

void fanin_request_of(const struct terms *terms, const struct message *message, struct fanin_wqe *wqe)
{
    struct run run = {0};

    next_run(message, 0, terms->rank, &run);
    write_request(terms, message, &run, wqe);
}

/* What the next request of a message carries, from block `*block` on. Returns whether there is one. */
static int next_of(const struct message *message, uint32_t rank, uint32_t *block, struct run *run)
{
    uint64_t size = only_block(message);

    if (size)
        return next_part(size, run);
    if (*block == message->blocks)
        return 0;
    *block = next_run(message, *block, rank, run);
    return run->blocks > 0;
}

uint32_t fanin_mpi_plan(const struct terms *terms, const struct message *message, struct fanin_wqe *wqes)
{
    uint32_t digest = fanin_digest(message), count = 0, block = 0;
    int is_barrier = rows[message->collective].contributors == FANIN_CLASS_NONE;
    struct run run = {0};

    while ((is_barrier && !count) || next_of(message, terms->rank, &block, &run)) {
        write_request(terms, message, &run, &wqes[count]);
        wqes[count].mid = digest;
        if (++count % SIGNAL_INTERVAL == 0)
            wqes[count - 1].flags |= FANIN_WQE_SIGNALED;
    }
    if (count)
        wqes[count - 1].flags |= FANIN_WQE_SIGNALED;
    return count;
}
