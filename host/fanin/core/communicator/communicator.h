/* This process as one rank of one job: its queues, its stream, and how it leaves. */
#ifndef FANIN_COMMUNICATOR_H
#define FANIN_COMMUNICATOR_H
#include "collectives/stream.h"

struct fanin_communicator {
    struct stream stream;             /* first: a request finds its communicator by it */
    struct fanin_communicator *next;  /* of this process */
    uint32_t references;              /* one until it is left, one for each request */
    struct fanin_membership_request *membership; /* a JOIN or LEAVE under way */
    struct fanin_join join;
    struct fanin_join_reply lease;
    struct fanin_job job;             /* with places of its own; no ranks: it was joined without a description */
    uint32_t made;                    /* communicators made from this one; equal on all ranks */
    uint32_t has_joined;
    struct fanin_request *unused;     /* one, for the next start */
};

static inline struct fanin_communicator *communicator_of(const struct fanin_request *request)
{
    return (struct fanin_communicator *)request->stream;
}

/* requests.c */
void fanin_free_request(struct fanin_request *request);

/* registry.c */
void fanin_register_communicator(struct fanin_communicator *communicator);
void fanin_unregister_communicator(struct fanin_communicator *communicator);
void fanin_hold(struct fanin_communicator *communicator);
void fanin_release(struct fanin_communicator *communicator);
/* The connection is closed: what is left of its communicators must not use it. inherited: in a forked child, whose locks
 * may have been held by threads that it does not have. */
void fanin_forget_communicators(const struct fanin_context *context, int inherited);
#endif
