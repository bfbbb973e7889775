/* Queue pairs of ordinary RDMA traffic: requests about them, and work requests into their rings. */
#include "complaint.h"
#include "device/connection.h"
#include <stddef.h>
#include <string.h>

enum fanin_status fanin_create_ordinary_qp(struct fanin_context *context, const struct fanin_qp_init *init,
                                           uint32_t *qp, uint32_t *qpn)
{
    struct fanin_ordinary_qp message = {.service = init->service,
                                        .domain = init->domain,
                                        .send_cq = init->send_cq,
                                        .receive_cq = init->receive_cq,
                                        .all_signaled = init->all_signaled,
                                        .shared_queue = init->shared_queue};
    enum fanin_status status;

    fanin_forget_complaint();
    status = fanin_exchange(context, FANIN_MSG_CREATE_ORDINARY_QP, &message.head, sizeof message, -1);
    if (status == FANIN_INVALID_REQUEST)
        fanin_complain("the device refused the service, the protection domain, a completion queue or the shared queue");
    if (status != FANIN_SUCCESS)
        return status;
    if (message.qp >= FANIN_MAX_ORDINARY_QP) {
        fanin_destroy_ordinary_qp(context, message.qp);
        return FANIN_NO_RESOURCES;
    }
    __atomic_store_n(&context->ordinary_states[message.qp], FANIN_QP_RESET, __ATOMIC_RELAXED);
    __atomic_store_n(&context->is_shared[message.qp], init->shared_queue != 0, __ATOMIC_RELAXED);
    context->ordinary[message.qp] = message;
    *qp = message.qp;
    *qpn = message.qpn;
    return FANIN_SUCCESS;
}

/* As other verbs devices do: the program may free what its wr_ids point to. */
static void forget_completions(struct fanin_context *context, const struct fanin_ordinary_qp *made)
{
    fanin_discard_completions(context, made->send_cq, made->qpn);
    if (made->receive_cq != made->send_cq)
        fanin_discard_completions(context, made->receive_cq, made->qpn);
}

enum fanin_status fanin_destroy_ordinary_qp(struct fanin_context *context, uint32_t qp)
{
    struct fanin_ordinary_qp message = {.qp = qp}, made = {0};
    enum fanin_status status;
    uint8_t state = FANIN_QP_RESET;

    if (qp < FANIN_MAX_ORDINARY_QP) { /* before the device gives the number to another thread */
        made = context->ordinary[qp];
        state = __atomic_exchange_n(&context->ordinary_states[qp], FANIN_QP_RESET, __ATOMIC_RELAXED);
    }
    status = fanin_exchange(context, FANIN_MSG_DESTROY_ORDINARY_QP, &message.head, sizeof message, -1);
    if (qp >= FANIN_MAX_ORDINARY_QP)
        return status;
    if (status == FANIN_SUCCESS)
        forget_completions(context, &made);
    else
        __atomic_store_n(&context->ordinary_states[qp], state, __ATOMIC_RELAXED);
    return status;
}

enum fanin_status fanin_modify_ordinary_qp(struct fanin_context *context, uint32_t qp,
                                           const struct fanin_qp_attributes *attributes)
{
    struct fanin_qp_attributes message = *attributes;
    enum fanin_status status;

    fanin_forget_complaint();
    message.head = (struct fanin_message){0};
    message.qp = qp;
    status = fanin_exchange(context, FANIN_MSG_MODIFY_ORDINARY_QP, &message.head, sizeof message, -1);
    if (status == FANIN_INVALID_REQUEST)
        fanin_complain("the change to state %u with attributes %#x is not allowed, or a value is wrong",
                       attributes->state, attributes->mask);
    if (status != FANIN_SUCCESS || qp >= FANIN_MAX_ORDINARY_QP)
        return status;
    __atomic_store_n(&context->ordinary_states[qp], attributes->state, __ATOMIC_RELAXED);
    if (attributes->state == FANIN_QP_RESET)
        forget_completions(context, &context->ordinary[qp]);
    return status;
}

enum fanin_status fanin_query_ordinary_qp(struct fanin_context *context, uint32_t qp,
                                          struct fanin_qp_attributes *attributes)
{
    struct fanin_qp_attributes message = {.qp = qp};
    enum fanin_status status =
        fanin_exchange(context, FANIN_MSG_QUERY_ORDINARY_QP, &message.head, sizeof message, -1);

    if (status == FANIN_SUCCESS)
        *attributes = message;
    return status;
}

/* Offset of the send ring of a queue pair; its receive ring follows. */
static size_t rings_of(const struct fanin_context *context, uint32_t qp)
{
    return context->limits.oq_offset + (size_t)qp * context->limits.oq_stride;
}

enum fanin_status fanin_store_requests(struct fanin_context *context, size_t offset, uint32_t depth, const void *wqes,
                                       uint32_t count, size_t size)
{
    struct fanin_ring *ring;
    uint32_t producer;

    if (fanin_device_lost(context))
        return FANIN_DEVICE_LOST;
    if (count > depth)
        return FANIN_QUEUE_FULL;
    ring = (void *)(context->region + offset);
    pthread_mutex_lock(&context->ring_lock);
    producer = ring->producer;
    if (producer - ring->consumer_seen > depth - count)
        ring->consumer_seen = __atomic_load_n(&ring->consumer, __ATOMIC_ACQUIRE);
    if (producer - ring->consumer_seen > depth - count) {
        pthread_mutex_unlock(&context->ring_lock);
        return FANIN_QUEUE_FULL;
    }
    for (uint32_t i = 0; i < count; i++)
        memcpy((uint8_t *)(ring + 1) + (producer + i) % depth * size, (const uint8_t *)wqes + i * size, size);
    __atomic_store_n(&ring->producer, producer + count, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&context->ring_lock);
    fanin_ring_doorbell(context);
    return FANIN_SUCCESS;
}

/* Check that the queue pair exists, and is at least in state `least`. */
static enum fanin_status check(struct fanin_context *context, uint32_t qp, uint32_t least)
{
    uint32_t state;

    fanin_forget_complaint();
    if (!context->region || qp >= context->limits.max_ordinary_qp || qp >= FANIN_MAX_ORDINARY_QP)
        return fanin_complain("there is no queue pair %u of ordinary traffic", qp);
    state = __atomic_load_n(&context->ordinary_states[qp], __ATOMIC_RELAXED);
    if (state < least)
        return fanin_complain("the queue pair is in state %u; this request needs state %u", state, least);
    return FANIN_SUCCESS;
}

enum fanin_status fanin_post_send(struct fanin_context *context, uint32_t qp, const struct fanin_send_wqe *wqe)
{
    return fanin_post_sends(context, qp, wqe, 1);
}

enum fanin_status fanin_post_sends(struct fanin_context *context, uint32_t qp, const struct fanin_send_wqe *wqes,
                                   uint32_t count)
{
    enum fanin_status status = check(context, qp, FANIN_QP_RTS);

    for (uint32_t i = 0; i < count && status == FANIN_SUCCESS; i++) {
        if (wqes[i].sge_count > FANIN_MAX_SGE)
            return fanin_complain("%u pieces of memory exceed the limit %u", wqes[i].sge_count, FANIN_MAX_SGE);
        if (wqes[i].flags & FANIN_SEND_INLINE && wqes[i].inline_length > FANIN_MAX_INLINE_DATA)
            return fanin_complain("%u bytes of inline data exceed the limit %u", wqes[i].inline_length,
                                  FANIN_MAX_INLINE_DATA);
    }
    if (status != FANIN_SUCCESS || count == 0)
        return status;
    return fanin_store_requests(context, rings_of(context, qp), FANIN_ORDINARY_DEPTH, wqes, count, sizeof *wqes);
}

enum fanin_status fanin_post_receive(struct fanin_context *context, uint32_t qp, const struct fanin_receive_wqe *wqe)
{
    enum fanin_status status = check(context, qp, FANIN_QP_INIT);

    if (status != FANIN_SUCCESS)
        return status;
    if (__atomic_load_n(&context->is_shared[qp], __ATOMIC_RELAXED))
        return fanin_complain("this queue pair receives from a shared receive queue; post to that");
    if (wqe->sge_count > FANIN_MAX_SGE)
        return fanin_complain("%u pieces of memory exceed the limit %u", wqe->sge_count, FANIN_MAX_SGE);
    return fanin_store_requests(context, rings_of(context, qp) + context->limits.oq_receive, FANIN_ORDINARY_DEPTH, wqe,
                                1, sizeof *wqe);
}
