/* One collective on its way through the devices: from a call of the program to requests, and back. */
#ifndef FANIN_MPI_OPERATION_H
#define FANIN_MPI_OPERATION_H
#include "call.h"
#include "elements.h"
#include "plan.h"
#include "staging.h"
#include "stream.h"

enum { FEW = 16, DEPTH = 4 };

enum sized { ALIKE, AS_SOURCE, AS_DESTINATION };

/* What a call means for this rank: the message, as all ranks must say it, and this rank's buffers. */
struct meaning {
    enum collective collective;
    const struct datatype *computed; /* with what devices compute; NULL: they only move */
    uint8_t op;
    int root;
    int blocks;                /* of the message */
    uint64_t block;            /* bytes of each, where all are alike */
    enum sized sized;          /* whose blocks are those of the message, where they are not */
    int counts_of_root;        /* only the root knows the sizes (of a gather: each its own), so they are exchanged first */
    int discard;               /* what comes to this rank is not wanted */
    int mismatch;              /* its sizes are not those of the others */
    struct elements source, destination; /* no blocks: none */
};

/* Memory that a device reads or writes for an operation. */
struct side {
    struct elements elements;
    uint64_t bytes;
    uint8_t *memory;           /* dense; the program's own where that is possible */
    struct area *area;         /* that holds `memory`, or NULL */
    int allocated;             /* `memory` was, for this operation */
    int shared;                /* `area` is that of another side, which gives it back */
    int copied;                /* `memory` is not the program's own */
};

/* A long message, cut: registered memory for those pieces that are under way (pieces.h). */
struct pieces {
    uint64_t block, part;      /* bytes of each block, and how many of them are in a piece */
    uint32_t digest, present;  /* present: memories */
    struct side memory[DEPTH];
};

struct operation {
    struct transfer transfer;
    const struct terms *terms;
    struct meaning meaning;
    struct message message;
    struct side source, destination, exchange; /* exchange: of the sizes that only some know */
    uint64_t *sizes;           /* bytes of the message's blocks: in `few`, or memory of their own */
    uint64_t few[FEW];
    int ranks;
    struct pieces pieces;
};

/* Bytes of a block of the message, as this rank's arguments have it. */
static inline uint64_t fanin_size_of(const struct meaning *meaning, int block)
{
    if (meaning->sized == ALIKE)
        return meaning->block;
    return fanin_block_bytes(meaning->sized == AS_SOURCE ? &meaning->source : &meaning->destination, block);
}

/* What a call means; 0: it makes no sense to us, which the MPI shall say in its own words. */
int fanin_meaning(const struct call *call, int rank, int ranks, struct meaning *meaning);

/* Bytes of the message, where all ranks know them; else 0. */
uint64_t fanin_message_bytes(const struct meaning *meaning);

/* Make the requests of an operation. Returns 0 if there is no memory for it. */
int fanin_prepare(struct operation *operation, const struct terms *terms, int ranks);

/* The steps that are common to all ways of preparing one. Return 0 if there is no memory. */
int fanin_begin_operation(struct operation *operation, const struct terms *terms, int ranks);
void fanin_fill_message(struct operation *operation);

uint64_t fanin_bytes_of(const struct elements *elements);
/* What a rank brings, by `side->elements`, where a device finds it. */
int fanin_place_source(struct side *side);
/* Memory that is not the program's, for `side->bytes`: registered where there is some, else ordinary. */
int fanin_stand_in(struct side *side);
/* Give it back; not if a device may still write there. */
void fanin_release_side(struct side *side, int spoiled);

/* It could not be prepared, so no device knows of it: give back what was taken. Its status is NO_RESOURCES then. */
void fanin_drop_operation(struct operation *operation);

/* The operation has ended: put what came where it belongs, and give back what was taken. Returns its status. */
enum fanin_status fanin_conclude(struct operation *operation);
#endif
