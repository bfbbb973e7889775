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
    struct fanin_job job;             /* with places of its own */
    uint32_t made, shrunk;            /* communicators made from this one; equal on all ranks */
    uint32_t has_queues, has_joined;
    struct agreement *agreement;      /* on the ranks that are left, which is under way; then the job is the old one */
    uint64_t join_by;                 /* after an agreement: when all are to have joined; 0: no such limit */
    struct fanin_request *unused;     /* ended ones, for the next starts; a stack without a lock */
    uint32_t unused_count;            /* of them, about */
};

/* Another thread may have joined: then what it has found out is there, too. */
static inline int has_joined(const struct fanin_communicator *communicator)
{
    return __atomic_load_n(&communicator->has_joined, __ATOMIC_ACQUIRE) != 0;
}

static inline struct fanin_communicator *communicator_of(const struct fanin_request *request)
{
    return (struct fanin_communicator *)request->stream;
}

/* membership.c */
/* A communicator that has not begun to join. fanin_withdraw frees it. NULL: there is no memory. */
struct fanin_communicator *fanin_new_communicator(struct fanin_context *context);
/* Give it a job, with places of its own. */
enum fanin_status fanin_copy_job(struct fanin_communicator *communicator, const struct fanin_job *job);
/* Let it join a job, which is copied. On failure fanin_withdraw is still to be called. */
enum fanin_status fanin_start_join(struct fanin_communicator *communicator, const struct fanin_job *job, uint32_t rank);
/* Wait for the end of its JOIN, as fanin_finish_join, and take what the device grants. */
enum fanin_status fanin_await_lease(struct fanin_communicator *communicator, struct fanin_join_reply *reply,
                                    uint32_t timeout_ms);
/* Free one that has no agreement, as fanin_abandon. */
enum fanin_status fanin_withdraw(struct fanin_communicator *communicator);
/* Leave the job; the communicator stays. */
void fanin_leave_job(struct fanin_communicator *communicator, uint32_t timeout_ms);

/* join.c */
/* fanin_finish_join until all have joined, or `timeout_ms` are over. The communicator is abandoned if that fails. */
enum fanin_status fanin_await_join(struct fanin_communicator *communicator, uint32_t timeout_ms,
                                   struct fanin_communicator **joined);

/* agreement.c */
/* Let a communicator begin to agree with the other survivors of `lost` on the members of its job. On failure
 * fanin_abandon is still to be called. */
enum fanin_status fanin_begin_agreement(struct fanin_communicator *communicator, struct fanin_communicator *lost,
                                        uint32_t timeout_ms);
/* Go on with an agreement for at most `timeout_ms`. FANIN_PENDING: not reached yet, or the job of the survivors is
 * being joined. */
enum fanin_status fanin_agree(struct fanin_communicator *communicator, uint32_t timeout_ms);
void fanin_end_agreement(struct fanin_communicator *communicator);

/* requests.c */
void fanin_free_request(struct fanin_request *request);

/* registry.c */
void fanin_register_communicator(struct fanin_communicator *communicator);
void fanin_unregister_communicator(struct fanin_communicator *communicator);
void fanin_hold(struct fanin_communicator *communicator);
void fanin_release(struct fanin_communicator *communicator);
/* Whether nothing is under way on a connection that has ended for the program. */
int fanin_is_settled(const struct fanin_context *context);
/* A communicator of a connection that takes part in a job and has nothing under way; held. NULL: there is none. */
struct fanin_communicator *fanin_hold_idle(const struct fanin_context *context);
/* The connection is closed: what is left of its communicators must not use it. inherited: in a forked child, whose
 * locks may have been held by threads that it does not have. */
void fanin_forget_communicators(const struct fanin_context *context, int inherited);
#endif
