#include "abi/next.h"
#include "completions/completions.h"
#include "queue_pairs/queue_pairs.h"
#include <errno.h>
#include <stdlib.h>

const struct ibv_qp_cap our_capacities = {.max_send_wr = OUR_QUEUE_DEPTH,
                                          .max_recv_wr = OUR_QUEUE_DEPTH,
                                          .max_send_sge = FANIN_MAX_SGE,
                                          .max_recv_sge = FANIN_MAX_SGE,
                                          .max_inline_data = FANIN_MAX_INLINE_DATA};

static int fits(const struct ibv_qp_cap *wanted)
{
    return wanted->max_send_wr <= our_capacities.max_send_wr && wanted->max_send_sge <= our_capacities.max_send_sge &&
           wanted->max_inline_data <= our_capacities.max_inline_data;
}

/* With a shared receive queue, the receive limits are ignored. */
static int receives_fit(const struct ibv_qp_init_attr *init)
{
    return init->srq || (init->cap.max_recv_wr <= our_capacities.max_recv_wr &&
                         init->cap.max_recv_sge <= our_capacities.max_recv_sge);
}

static int is_service(int type)
{
    return type == FANIN_SERVICE_RC || type == FANIN_SERVICE_UC || type == FANIN_SERVICE_UD;
}

/* Numbers of queues are local to a context, so that of another would name a wrong queue. */
static int is_of_one_context(const struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
    return init->send_cq->context == pd->context && init->recv_cq->context == pd->context &&
           (!init->srq || init->srq->context == pd->context);
}

static int create_at_device(const struct ibv_pd *pd, const struct ibv_qp_init_attr *init, struct our_qp *qp)
{
    struct fanin_qp_init wanted = {.service = (uint32_t)init->qp_type,
                                   .domain = ((const struct our_pd *)pd)->domain,
                                   .send_cq = our_cq(init->send_cq)->number,
                                   .receive_cq = our_cq(init->recv_cq)->number,
                                   .all_signaled = init->sq_sig_all != 0,
                                   .shared_queue = init->srq ? our_srq(init->srq)->number + 1 : 0};

    return our_errno(fanin_create_ordinary_qp(our_fanin(pd->context), &wanted, &qp->number, &qp->base.qp_base.qp_num));
}

static struct our_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct our_qp *ours;
    struct ibv_qp *qp;
    int error;

    if (!is_service(init->qp_type))
        return our_null(EOPNOTSUPP);
    if (!init->send_cq || !init->recv_cq || !is_of_one_context(pd, init))
        return our_null(EINVAL);
    if (!fits(&init->cap) || !receives_fit(init))
        return our_null(EINVAL);
    if (our_is_inherited(pd->context))
        return our_null(EIO);
    ours = calloc(1, sizeof *ours);
    if (!ours)
        return our_null(ENOMEM);
    error = create_at_device(pd, init, ours);
    if (error) {
        free(ours);
        return our_null(error);
    }
    init->cap = our_capacities;
    ours->all_signaled = init->sq_sig_all;
    qp = &ours->base.qp_base;
    qp->context = pd->context;
    qp->qp_context = init->qp_context;
    qp->pd = pd;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->srq = init->srq;
    qp->handle = ours->number;
    qp->qp_type = init->qp_type;
    pthread_mutex_init(&qp->mutex, NULL);
    pthread_cond_init(&qp->cond, NULL);
    our_use(&our_pd(pd)->users);
    our_use(&our_cq(qp->send_cq)->users);
    our_use(&our_cq(qp->recv_cq)->users);
    if (qp->srq)
        our_use(&our_srq(qp->srq)->users);
    our_add_owner(ours);
    return ours;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct our_qp *made;

    if (!our_context_is(pd->context))
        return NEXT(ibv_create_qp, "IBVERBS_1.1")(pd, init);
    made = create(pd, init);
    return made ? &made->base.qp_base : NULL;
}

/* Forget the unread events of a queue pair, and wait until the others are acknowledged. */
static void end_events(struct our_qp *qp)
{
    struct our_events *events = &our_context(qp->base.qp_base.context)->events;
    uint32_t taken = our_forget_event(events, &qp->failed.event) + our_forget_event(events, &qp->established.event);

    pthread_mutex_lock(&qp->base.qp_base.mutex);
    while (qp->base.qp_base.events_completed != taken)
        pthread_cond_wait(&qp->base.qp_base.cond, &qp->base.qp_base.mutex);
    pthread_mutex_unlock(&qp->base.qp_base.mutex);
    pthread_cond_destroy(&qp->base.qp_base.cond);
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct our_qp *ours = our_qp(qp);
    int error;

    if (!our_context_is(qp->context))
        return NEXT(ibv_destroy_qp, "IBVERBS_1.1")(qp);
    error = our_end_at_device(qp->context, fanin_destroy_ordinary_qp, ours->number);
    if (error)
        return error;
    if (!our_is_inherited(qp->context)) { /* in a child the wait would never end */
        our_remove_owner(ours);
        end_events(ours);
    }
    our_end_extended_post(ours);
    our_release(&our_pd(qp->pd)->users);
    our_release(&our_cq(qp->send_cq)->users);
    our_release(&our_cq(qp->recv_cq)->users);
    if (qp->srq)
        our_release(&our_srq(qp->srq)->users);
    pthread_mutex_destroy(&qp->mutex);
    free(ours);
    return 0;
}

struct ibv_qp *our_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
    const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    int has_flags = init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags;
    int is_extended = (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    struct our_qp *made;

    (void)context;
    if (init->comp_mask & ~known || has_flags)
        return our_null(EOPNOTSUPP);
    if (is_extended && init->send_ops_flags & ~(uint64_t)IBV_QP_EX_WITH_ALL_HERE)
        return our_null(EOPNOTSUPP);
    if (!(init->comp_mask & IBV_QP_INIT_ATTR_PD))
        return our_null(EINVAL);
    made = create(init->pd, (struct ibv_qp_init_attr *)init);
    if (made && is_extended && !our_offer_extended_post(made)) {
        ibv_destroy_qp(&made->base.qp_base);
        return our_null(ENOMEM);
    }
    return made ? &made->base.qp_base : NULL;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    if (!our_context_is(qp->context))
        return NEXT(ibv_qp_to_qp_ex, "IBVERBS_1.6")(qp);
    return our_qp(qp)->batch ? &our_qp(qp)->base : NULL;
}
