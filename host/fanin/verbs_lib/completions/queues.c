/* Completion queues, all of the host interface's depth. */
#include "abi/next.h"
#include "completions/completions.h"
#include <errno.h>
#include <stdlib.h>

static struct our_cq *create(struct ibv_context *context, int64_t entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct our_cq *ours;
    struct ibv_cq *cq;
    int error;

    if (entries > FANIN_CQ_DEPTH)
        our_say("ibv_create_cq: %lld completions, but a completion queue holds %d; ask for shorter queues (perftest: "
                "-r and -t; UCX: docs/verbs.md)", (long long)entries, FANIN_CQ_DEPTH);
    if (entries < 1 || entries > FANIN_CQ_DEPTH || vector < 0 || vector >= context->num_comp_vectors)
        return our_null(EINVAL);
    if (channel && channel->context != context)
        return our_null(EINVAL);
    if (our_is_inherited(context))
        return our_null(EIO);
    ours = calloc(1, sizeof *ours);
    if (!ours)
        return our_null(ENOMEM);
    error = our_errno(fanin_create_cq(our_fanin(context), &ours->number));
    if (error) {
        free(ours);
        return our_null(error);
    }
    cq = &ours->base.cq;
    cq->context = context;
    cq->channel = channel;
    cq->cq_context = cq_context;
    cq->handle = our_new_number();
    cq->cqe = FANIN_CQ_DEPTH;
    pthread_mutex_init(&cq->mutex, NULL);
    pthread_cond_init(&cq->cond, NULL);
    pthread_mutex_init(&ours->poll_lock, NULL);
    if (channel && !(ours->watch = our_start_watch(cq))) {
        fanin_destroy_cq(our_fanin(context), ours->number);
        free(ours);
        return our_null(ENOMEM);
    }
    if (channel) {
        __atomic_add_fetch(&channel->refcnt, 1, __ATOMIC_RELAXED);
        our_use(&our_context(context)->users);
    }
    our_know(OUR_CQS, &ours->known, cq->handle);
    return ours;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                                    struct ibv_comp_channel *channel, int vector)
{
    struct our_cq *made;

    if (!our_context_is(context))
        return NEXT(ibv_create_cq, "IBVERBS_1.1")(context, entries, cq_context, channel, vector);
    made = create(context, entries, cq_context, channel, vector);
    return made ? &made->base.cq : NULL;
}

struct ibv_cq_ex *our_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init)
{
    struct our_cq *made;

    if (init->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS || init->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS)
        return our_null(EOPNOTSUPP);
    if (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && init->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
        return our_null(EOPNOTSUPP);
    made = create(context, init->cqe, init->cq_context, init->channel, (int)init->comp_vector);
    if (!made)
        return NULL;
    our_offer_extended_poll(&made->base.ex);
    return &made->base.ex;
}

/* Accepts a possible size, but keeps its own. */
EXPORT int ibv_resize_cq(struct ibv_cq *cq, int entries)
{
    uint32_t stored, taken;
    int error;

    if (!our_context_is(cq->context))
        return NEXT(ibv_resize_cq, "IBVERBS_1.1")(cq, entries);
    if (our_is_inherited(cq->context))
        return EIO;
    error = our_errno(fanin_stored(our_fanin(cq->context), our_cq(cq)->number, &stored));
    if (!error)
        error = our_errno(fanin_taken(our_fanin(cq->context), our_cq(cq)->number, &taken));
    if (error)
        return error;
    return entries >= 1 && entries <= FANIN_CQ_DEPTH && (uint32_t)entries >= stored - taken ? 0 : EINVAL;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct our_cq *ours = our_cq(cq);
    int error;

    if (!our_context_is(cq->context))
        return NEXT(ibv_destroy_cq, "IBVERBS_1.1")(cq);
    if (our_in_use(&ours->users))
        return EBUSY;
    if (ours->watch) {
        our_end_watch(ours->watch);
        ours->watch = NULL;
        our_release(&our_context(cq->context)->users);
        __atomic_sub_fetch(&cq->channel->refcnt, 1, __ATOMIC_RELEASE);
    }
    error = our_end_at_device(cq->context, fanin_destroy_cq, ours->number);
    if (error)
        return error;
    our_unknow(OUR_CQS, &ours->known);
    if (!our_is_inherited(cq->context)) { /* in a child the wait would never end */
        our_forget_events(cq);
        pthread_cond_destroy(&cq->cond);
    }
    pthread_mutex_destroy(&cq->mutex);
    pthread_mutex_destroy(&ours->poll_lock);
    free(ours);
    return 0;
}
