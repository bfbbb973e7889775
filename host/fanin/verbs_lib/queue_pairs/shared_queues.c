#include "abi/next.h"
#include "device/device.h"
#include "queue_pairs/queue_pairs.h"
#include <errno.h>
#include <stdlib.h>

/* Of every queue. There is no event for a limit. */
static const struct ibv_srq_attr capacities = {.max_wr = FANIN_SHARED_DEPTH, .max_sge = FANIN_MAX_SGE};

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct our_srq *ours;
    int error;

    if (!our_context_is(pd->context))
        return NEXT(ibv_create_srq, "IBVERBS_1.1")(pd, init);
    if (init->attr.max_wr > capacities.max_wr || init->attr.max_sge > capacities.max_sge)
        return our_null(EINVAL);
    if (our_is_inherited(pd->context))
        return our_null(EIO);
    ours = calloc(1, sizeof *ours);
    if (!ours)
        return our_null(ENOMEM);
    error = our_errno(fanin_create_shared_queue(our_fanin(pd->context), our_pd(pd)->domain, &ours->number));
    if (error) {
        free(ours);
        return our_null(error);
    }
    init->attr = capacities;
    ours->base.context = pd->context;
    ours->base.srq_context = init->srq_context;
    ours->base.pd = pd;
    ours->base.handle = ours->number;
    pthread_mutex_init(&ours->base.mutex, NULL);
    pthread_cond_init(&ours->base.cond, NULL);
    our_use(&our_pd(pd)->users);
    return &ours->base;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
    struct our_srq *ours = our_srq(srq);
    int error;

    if (!our_context_is(srq->context))
        return NEXT(ibv_destroy_srq, "IBVERBS_1.1")(srq);
    if (our_in_use(&ours->users))
        return EBUSY;
    error = our_end_at_device(srq->context, fanin_destroy_shared_queue, ours->number);
    if (error)
        return error;
    our_release(&our_pd(srq->pd)->users);
    pthread_mutex_destroy(&srq->mutex);
    pthread_cond_destroy(&srq->cond);
    free(ours);
    return 0;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    if (!our_context_is(srq->context))
        return NEXT(ibv_query_srq, "IBVERBS_1.1")(srq, attr);
    *attr = capacities;
    return 0;
}

/* Neither size nor limit can change. */
EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    if (!our_context_is(srq->context))
        return NEXT(ibv_modify_srq, "IBVERBS_1.1")(srq, attr, mask);
    if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
        return EINVAL;
    if (mask & IBV_SRQ_MAX_WR || (mask & IBV_SRQ_LIMIT && attr->srq_limit))
        return EOPNOTSUPP;
    return 0;
}

static int post_one(struct ibv_srq *srq, const struct ibv_recv_wr *wr)
{
    struct fanin_receive_wqe wqe;

    if (our_is_inherited(srq->context))
        return EIO;
    if (!our_receive_wqe(wr, &wqe))
        return EINVAL;
    return our_outcome(srq->context, fanin_post_shared(our_fanin(srq->context), our_srq(srq)->number, &wqe));
}

int our_post_shared(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int error = 0;

    for (; wr && !error; wr = wr->next)
        if ((error = post_one(srq, wr)))
            *bad = wr;
    return error;
}
