/* Send queues of collectives, beside the queue pairs of verbs in the same context. */
#include "abi/next.h"
#include "collectives/fanin_verbs.h"
#include "completions/completions.h"
#include "registry.h"
#include <stdlib.h>

struct queue {
    struct fanin_verbs_qp base;
    struct our_pd *pd;
    struct our_cq *cq;
    struct our_collectives collectives;
};

static const struct fanin_verbs_calls calls = {
    .fanin_join_qp = fanin_join_qp,
    .fanin_leave_qp = fanin_leave_qp,
    .fanin_await_membership = fanin_await_membership,
    .fanin_forget_membership = fanin_forget_membership,
    .fanin_post = fanin_post,
    .fanin_post_next = fanin_post_next,
};

static struct our_context *context_of(const struct queue *queue)
{
    return our_context(queue->pd->base.context);
}

/* Find its objects, and keep them from being freed. */
static int hold(struct queue *queue, uint32_t pd, uint32_t cq)
{
    struct our_known *found_pd, *found_cq;
    int is_right = 0;

    our_lock_known();
    found_pd = our_find_known(OUR_PDS, pd);
    found_cq = our_find_known(OUR_CQS, cq);
    if (found_pd && found_cq) {
        queue->pd = (struct our_pd *)((char *)found_pd - offsetof(struct our_pd, known));
        queue->cq = (struct our_cq *)((char *)found_cq - offsetof(struct our_cq, known));
        is_right = queue->pd->base.context == queue->cq->base.cq.context && !our_is_inherited(queue->pd->base.context);
    }
    if (is_right) {
        our_use(&queue->pd->users);
        our_use(&queue->cq->users);
        our_use(&context_of(queue)->users);
    }
    our_unlock_known();
    return is_right;
}

static void let_go(struct queue *queue)
{
    our_release(&queue->pd->users);
    our_release(&queue->cq->users);
    our_release(&context_of(queue)->users);
    free(queue);
}

EXPORT enum fanin_status fanin_verbs_create_qp(uint32_t version, uint32_t pd, uint32_t cq, struct fanin_verbs_qp **qp)
{
    struct queue *queue;
    enum fanin_status status;

    if (version != FANIN_ABI_VERSION)
        return FANIN_VERSION_MISMATCH;
    queue = calloc(1, sizeof *queue);
    if (!queue)
        return FANIN_NO_RESOURCES;
    if (!hold(queue, pd, cq)) {
        free(queue);
        return FANIN_INVALID_REQUEST;
    }
    queue->base.calls = &calls;
    queue->base.context = context_of(queue)->fanin;
    status = fanin_create_qp(queue->base.context, queue->cq->number, &queue->base.number);
    if (status != FANIN_SUCCESS) {
        let_go(queue);
        return status;
    }
    queue->collectives.number = queue->base.number;
    our_add_collectives(context_of(queue), &queue->collectives);
    *qp = &queue->base;
    return FANIN_SUCCESS;
}

EXPORT enum fanin_status fanin_verbs_destroy_qp(struct fanin_verbs_qp *qp)
{
    struct queue *queue = (struct queue *)qp;
    enum fanin_status status = FANIN_SUCCESS;

    if (!our_is_inherited(queue->pd->base.context)) {
        status = fanin_destroy_qp(qp->context, qp->number);
        if (status != FANIN_SUCCESS && status != FANIN_DEVICE_LOST)
            return status;
        our_remove_collectives(context_of(queue), &queue->collectives);
    }
    let_go(queue);
    return status;
}

EXPORT void fanin_verbs_last_completion(const struct fanin_verbs_qp *qp, struct fanin_cqe *cqe)
{
    const struct queue *queue = (const struct queue *)qp;

    our_read_collectives(context_of(queue), &queue->collectives, cqe);
}

/* Bytes in a range of blocks, of which the last may be shorter. */
static uint64_t bytes_of(const struct fanin_wqe *wqe, uint32_t first, uint32_t blocks)
{
    unsigned __int128 start = (unsigned __int128)first * wqe->block;
    unsigned __int128 end = start + (unsigned __int128)blocks * wqe->block;

    start = start < wqe->length ? start : wqe->length;
    end = end < wqe->length ? end : wqe->length;
    return (uint64_t)(end - start);
}

static int is_within(const struct ibv_mr *mr, uint64_t address, uint64_t length)
{
    uint64_t start = (uintptr_t)mr->addr;

    return address >= start && length <= mr->length && address - start <= mr->length - length;
}

/* Whether a key names a region with these bytes and rights; if so, it becomes that of process memory. */
static int localize(const struct queue *queue, uint32_t *key, uint64_t address, uint64_t length, unsigned int rights)
{
    struct our_known *found;
    const struct our_mr *mr;
    int is_right = 0;

    if (*key == FANIN_LKEY_PROCESS || length == 0) {
        *key = FANIN_LKEY_PROCESS;
        return 1;
    }
    our_lock_known();
    for (found = our_find_known(OUR_MRS, *key); found && !is_right; found = our_find_next_known(found)) {
        mr = (const struct our_mr *)((char *)found - offsetof(struct our_mr, known));
        is_right = mr->base.context == queue->pd->base.context && is_within(&mr->base, address, length) &&
                   (mr->access & rights) == rights;
    }
    our_unlock_known();
    if (is_right)
        *key = FANIN_LKEY_PROCESS;
    return is_right;
}

EXPORT enum fanin_status fanin_verbs_localize(const struct fanin_verbs_qp *qp, struct fanin_wqe *wqe)
{
    const struct fanin_address *place = &wqe->address;
    const struct queue *queue = (const struct queue *)qp;
    int is_right;

    if (wqe->flags & FANIN_WQE_ADDRESS_LIST)
        return FANIN_NOT_SUPPORTED;
    is_right = wqe->flags & FANIN_WQE_INLINE ||
               localize(queue, &wqe->source_lkey, place->source,
                        bytes_of(wqe, place->source_first, place->source_blocks), 0);
    is_right = is_right && localize(queue, &wqe->destination_lkey, place->destination,
                                    bytes_of(wqe, place->destination_first, place->destination_blocks),
                                    IBV_ACCESS_LOCAL_WRITE);
    return is_right ? FANIN_SUCCESS : FANIN_LOCAL_PROTECTION_ERROR;
}
