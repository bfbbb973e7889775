/* How the message of a collective is cut into work requests (transfer.c). All ranks must cut alike, so the cut depends
 * only on what all of them know: collective, sizes, and flags that all give. */
#ifndef FANIN_PLAN_H
#define FANIN_PLAN_H
#include "geometry.h"
#include "tables.h"

/* The fields of a rank's requests that are the same in the whole job. */
struct job_params {
    uint32_t jid;
    uint32_t chunk;           /* payload bytes of a segment */
    uint32_t route;           /* enum fanin_route */
    uint32_t wide;            /* partials of small floats travel as f32 */
    uint32_t rank, ranks;
    uint64_t node_bitmap;
    uint64_t rank_bitmap;
};

struct message {
    const struct collective_row *row;
    uint32_t root;
    uint32_t op;              /* enum fanin_op */
    uint32_t dtype;           /* enum fanin_dtype; U8 where nothing is computed */
    uint32_t blocks;          /* one, or one for each rank; a barrier has none */
    uint64_t block;           /* bytes of each, where `sizes` is NULL */
    uint64_t part;            /* bytes of each block in a run, where `sizes` is NULL; 0: all */
    const uint64_t *sizes;    /* bytes of the blocks */
};

/* What one work request carries: consecutive blocks of equal size, of which the last may be shorter; or the same part
 * of each block. */
struct run {
    uint32_t blocks;
    int64_t place;            /* index of this rank's own block among them, or -1 */
    uint64_t block;           /* bytes of the first */
    uint64_t last;            /* bytes of the last */
    uint64_t own;             /* bytes of this rank's */
    uint64_t length;
    uint64_t offset;          /* bytes of the blocks before, or of the parts before in each block */
    uint32_t next;            /* where fanin_next_run goes on: a block; if all are equal, a run */
};

/* Set the sizes of the blocks, unless NULL. Equal sizes become `block`. */
void fanin_use_sizes(struct message *message, const uint64_t *sizes);

/* Bytes of the blocks before `end`; UINT64_MAX on overflow. */
uint64_t fanin_bytes_before(const struct message *message, uint32_t end);
uint64_t fanin_message_length(const struct message *message);
/* Bytes that a rank brings (wants). */
uint64_t fanin_side_length(const struct message *message, struct collective_side side, uint32_t rank);

/* The next run of a message; 0 after the last. Before the first, `run` is all zero. A message without bytes is one
 * empty run, like a barrier, so devices see that all ranks post it. */
int fanin_next_run(const struct message *message, uint32_t rank, struct run *run);
uint32_t fanin_count_runs(const struct message *message, uint32_t rank);

uint32_t fanin_count_positions(const struct job_params *job_params, const struct message *message,
                               const struct run *run);
#endif
