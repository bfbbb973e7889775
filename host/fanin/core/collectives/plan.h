/* From a collective to work requests: how its message is cut, and what one rank brings and wants of each part.
 *
 * All ranks must cut alike, so only what all of them know decides: collective, sizes, and flags that all give.
 */
#ifndef FANIN_PLAN_H
#define FANIN_PLAN_H
#include "geometry.h"
#include "tables.h"

/* What a job fixes in the requests of a rank. */
struct terms {
    uint32_t jid;
    uint32_t chunk;           /* payload bytes of a segment */
    uint32_t route;           /* enum fanin_route */
    uint32_t wide;            /* partials of small floats travel as f32 */
    uint32_t rank, ranks;
    uint64_t node_bitmap;
    uint64_t rank_bitmap;
};

/* A message: what all ranks know of it. */
struct message {
    const struct collective_row *row;
    uint32_t root;
    uint32_t op;              /* enum fanin_op */
    uint32_t dtype;           /* enum fanin_dtype; U8 where nothing is computed */
    uint32_t blocks;          /* one, or one for each rank; a barrier has none */
    uint64_t block;           /* bytes of each, where `sizes` is NULL */
    uint64_t part;            /* a run has so many bytes of each block, where `sizes` is NULL; 0: all */
    const uint64_t *sizes;    /* bytes of the blocks */
};

/* What one request carries: neighbouring blocks, equal ones and perhaps a shorter one at the end; or the same part of
 * each block of a message. */
struct run {
    uint32_t blocks;
    int64_t place;            /* of this rank's own block among them; -1: it is not there */
    uint64_t block;           /* bytes of the first */
    uint64_t last;            /* bytes of the last */
    uint64_t own;             /* bytes of this rank's */
    uint64_t length;
    uint64_t offset;          /* bytes of all blocks before them; or, in each block, of the parts before */
    uint32_t next;            /* where fanin_next_run goes on: a block, or where all are equal the number of a run */
};

/* The blocks have these sizes, if any are given. Even sizes are one number, however they were given. */
void fanin_use_sizes(struct message *message, const uint64_t *sizes);

/* Bytes of the blocks before `end`. UINT64_MAX: they are more than a number holds. */
uint64_t fanin_bytes_before(const struct message *message, uint32_t end);
uint64_t fanin_message_length(const struct message *message);
/* Bytes that a rank brings (wants). */
uint64_t fanin_side_length(const struct message *message, struct collective_side side, uint32_t rank);

/* Bytes of the parts of a message of one block; it is cut if it is longer. */
uint64_t fanin_part_length(uint64_t length);

/* The next run of a message. `run` is all zero before the first. Returns 0 if there is none. A message without bytes is
 * one run without bytes, as a barrier is: so devices see that all ranks post it. */
int fanin_next_run(const struct message *message, uint32_t rank, struct run *run);
/* Run `number` of a message whose blocks are equal. */
struct run fanin_even_run(const struct message *message, uint32_t rank, uint32_t number);
uint32_t fanin_count_runs(const struct message *message, uint32_t rank);

/* Positions that a run takes. */
uint32_t fanin_count_positions(const struct terms *terms, const struct message *message, const struct run *run);

/* Write the request of a run, but for what depends on its place in the stream and in memory: its addresses count from
 * the first byte that the rank brings (wants). */
void fanin_write_request(const struct terms *terms, const struct message *message, const struct run *run,
                         struct fanin_wqe *wqe);

/* 16 bits of what all ranks must call alike and devices do not compare by themselves, in the upper half of a mid. */
uint32_t fanin_agreement(const struct message *message, uint32_t tag);
#endif
