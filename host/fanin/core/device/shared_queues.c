#include "complaint.h"
#include "device/connection.h"
#include <stddef.h>

enum fanin_status fanin_create_shared_queue(struct fanin_context *context, uint32_t domain, uint32_t *shared_queue)
{
    struct fanin_shared_queue message = {.domain = domain};
    enum fanin_status status;

    fanin_forget_complaint();
    status = fanin_exchange(context, FANIN_MSG_CREATE_SHARED_QUEUE, &message.head, sizeof message, -1);
    if (status == FANIN_INVALID_REQUEST)
        fanin_complain("the device refused the protection domain %u", domain);
    if (status != FANIN_SUCCESS)
        return status;
    if (message.shared_queue >= FANIN_MAX_SHARED_QUEUE) {
        fanin_destroy_shared_queue(context, message.shared_queue);
        return FANIN_NO_RESOURCES;
    }
    __atomic_store_n(&context->shared_queues[message.shared_queue], 1, __ATOMIC_RELAXED);
    *shared_queue = message.shared_queue;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_destroy_shared_queue(struct fanin_context *context, uint32_t shared_queue)
{
    struct fanin_shared_queue message = {.shared_queue = shared_queue};
    enum fanin_status status;

    fanin_forget_complaint();
    status = fanin_exchange(context, FANIN_MSG_DESTROY_SHARED_QUEUE, &message.head, sizeof message, -1);
    if (status == FANIN_INVALID_REQUEST)
        fanin_complain("there is no shared receive queue %u, or queue pairs still receive from it", shared_queue);
    if (status == FANIN_SUCCESS && shared_queue < FANIN_MAX_SHARED_QUEUE)
        __atomic_store_n(&context->shared_queues[shared_queue], 0, __ATOMIC_RELAXED);
    return status;
}

enum fanin_status fanin_post_shared(struct fanin_context *context, uint32_t shared_queue,
                                    const struct fanin_receive_wqe *wqe)
{
    const struct fanin_attach_reply *limits = &context->limits;

    fanin_forget_complaint();
    if (!context->region || shared_queue >= limits->max_shared_queues || shared_queue >= FANIN_MAX_SHARED_QUEUE ||
        !__atomic_load_n(&context->shared_queues[shared_queue], __ATOMIC_RELAXED))
        return fanin_complain("there is no shared receive queue %u", shared_queue);
    if (wqe->sge_count > FANIN_MAX_SGE)
        return fanin_complain("%u pieces of memory exceed the limit %u", wqe->sge_count, FANIN_MAX_SGE);
    return fanin_store_requests(context, limits->srq_offset + (size_t)shared_queue * limits->srq_stride,
                                FANIN_SHARED_DEPTH, wqe, 1, sizeof *wqe);
}
