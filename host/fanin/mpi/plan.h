/* From a collective to work requests: the C form of the host library's collectives.py, plan.py and call.py, and equal to
 * them byte for byte, since all ranks of a job must say the same and devices know one protocol only.
 */
#ifndef FANIN_MPI_PLAN_H
#define FANIN_MPI_PLAN_H
#include "abi.h"

enum collective {
    FANIN_ALLREDUCE,
    FANIN_REDUCE,
    FANIN_REDUCE_SCATTER,
    FANIN_BROADCAST,
    FANIN_ALLGATHER,
    FANIN_ALLGATHERV,
    FANIN_GATHER,
    FANIN_GATHERV,
    FANIN_SCATTER,
    FANIN_SCATTERV,
    FANIN_BARRIER,
    FANIN_COLLECTIVES
};

/* What a job fixes in the requests of a rank. */
struct terms {
    uint32_t jid;
    uint32_t chunk;           /* bytes of a segment's payload */
    uint32_t route;           /* enum fanin_route */
    uint32_t rank;
    uint64_t node_bitmap;
    uint64_t rank_bitmap;
};

/* A collective, as one rank takes part in it. */
struct message {
    uint32_t collective;      /* enum collective */
    uint32_t root;
    uint32_t op;              /* enum fanin_op; NONE where nothing is computed */
    uint32_t dtype;           /* enum fanin_dtype; U8 where nothing is computed */
    uint32_t blocks;          /* one, or one for each rank; a barrier has none */
    uint32_t source_lkey;
    uint32_t destination_lkey;
    uint32_t reserved;
    const uint64_t *sizes;    /* bytes of the blocks, equal on all ranks */
    uint64_t source;          /* what the rank brings, dense; 0: nothing */
    uint64_t destination;     /* where it wants what comes, dense; 0: nothing */
};

/* What all requests of a message say in their mid: 16 bits of what ranks must call alike. */
uint32_t fanin_digest(const struct message *message);

/* The one request of a message that is not cut: of even blocks. */
void fanin_request_of(const struct terms *terms, const struct message *message, struct fanin_wqe *wqe);

#pragma GCC visibility push(default)
/* Bytes of the messages that one of a single block is cut into, if it is longer, on all ranks. */
uint64_t fanin_mpi_part_length(uint64_t size);

/* For how many requests there must be room: one for each block or part, and at least one. */
uint32_t fanin_mpi_most_requests(const struct message *message);

/* Write the requests of a rank into `wqes`, which has room for fanin_mpi_most_requests. Returns how many: none if there are
 * no bytes. The place in the stream (seg, the count in mid, wr_id) is filled in when one is posted.
 * Short data are copied into their request here. */
uint32_t fanin_mpi_plan(const struct terms *terms, const struct message *message, struct fanin_wqe *wqes);
#pragma GCC visibility pop
#endif
