/* This process as one rank of one job. */
#ifndef FANIN_COMMUNICATOR_H
#define FANIN_COMMUNICATOR_H
#include "collectives/stream.h"

struct fanin_communicator {
    struct stream stream;             /* first member, for communicator_of */
    struct fanin_communicator *next;  /* of this process */
    uint32_t references;              /* one until it is left, and one for each request */
    struct fanin_membership_request *membership; /* a JOIN or LEAVE under way */
    struct fanin_join join;
    struct fanin_join_reply lease;
    struct fanin_job job;             /* owns its places */
    uint32_t made, shrunk;            /* communicators made from this one; equal on all ranks */
    uint32_t has_queues, has_joined;
    struct agreement *agreement;      /* under way, about the survivors; until then `job` is the old one */
    uint64_t join_by;                 /* after an agreement: deadline for all to join; 0: none */
    struct fanin_request *unused;     /* ended ones, for reuse; a lock-free stack */
    uint32_t unused_count;            /* approximate */
};

/* Acquire: another thread may have stored the lease. */
static inline int has_joined(const struct fanin_communicator *communicator)
{
    return __atomic_load_n(&communicator->has_joined, __ATOMIC_ACQUIRE) != 0;
}

static inline struct fanin_communicator *communicator_of(const struct fanin_request *request)
{
    return (struct fanin_communicator *)request->stream;
}

/* ---- membership.c ---- */
/* A communicator that has not begun to join, or NULL. fanin_withdraw frees it. */
struct fanin_communicator *fanin_new_communicator(struct fanin_context *context);
enum fanin_status fanin_copy_job(struct fanin_communicator *communicator, const struct fanin_job *job);
/* Begin to join a job, which is copied. After a failure the caller calls fanin_withdraw. */
enum fanin_status fanin_start_join(struct fanin_communicator *communicator, const struct fanin_job *job, uint32_t rank);
/* As fanin_finish_join, without an agreement. */
enum fanin_status fanin_await_lease(struct fanin_communicator *communicator, struct fanin_join_reply *reply,
                                    uint32_t timeout_ms);
/* As fanin_abandon, without an agreement. */
enum fanin_status fanin_withdraw(struct fanin_communicator *communicator);
void fanin_leave_job(struct fanin_communicator *communicator, uint32_t timeout_ms);

/* ---- agreement.c ---- */
/* Begin to agree with the other survivors of `lost` on the members of the new job. After a failure the caller calls
 * fanin_abandon. */
enum fanin_status fanin_begin_agreement(struct fanin_communicator *communicator, struct fanin_communicator *lost,
                                        uint32_t timeout_ms);
/* Advance an agreement for at most `timeout_ms`. FANIN_PENDING: not reached yet, or the survivors' job is being
 * joined. */
enum fanin_status fanin_agree(struct fanin_communicator *communicator, uint32_t timeout_ms);
void fanin_end_agreement(struct fanin_communicator *communicator);

/* ---- requests.c ---- */
void fanin_free_request(struct fanin_request *request);

/* ---- registry.c ---- */
void fanin_register_communicator(struct fanin_communicator *communicator);
void fanin_hold(struct fanin_communicator *communicator);
void fanin_release(struct fanin_communicator *communicator);
/* Whether all requests of a connection that have ended for the program have ended. */
int fanin_is_flushed(const struct fanin_context *context);
/* A communicator of a connection that is in a job and has nothing under way, held for the caller; or NULL. */
struct fanin_communicator *fanin_hold_idle(const struct fanin_context *context);
/* Detach communicators from a connection that is closed. inherited: in a forked child, where threads that no longer
 * exist may hold the locks. */
void fanin_forget_communicators(const struct fanin_context *context, int inherited);
#endif
