/* A collective in one call: post, wait, take the completion. For programs that wait for each before the next. */
#include "context.h"
#include <string.h>

#define MID_MASK ((1u << FANIN_MID_BITS) - 1)

/* What only the moment of posting knows: where the stream stands, and what inline data are now. */
static void complete_request(struct fanin_prepared *prepared, const struct fanin_cursor *cursor)
{
    struct fanin_wqe *wqe = &prepared->wqe;

    wqe->mid = (wqe->mid & ~MID_MASK) | cursor->mid;
    wqe->seg = cursor->slots ? cursor->position % cursor->slots : 0;
    if (wqe->flags & FANIN_WQE_INLINE)
        memcpy(&wqe->address.source, (const void *)(uintptr_t)prepared->inline_source, prepared->inline_length);
}

/* Completions of other requests, which nobody waits for any more, are dropped. */
static enum fanin_status take(struct fanin_context *context, uint32_t cq, uint64_t wr_id, uint64_t deadline,
                              struct fanin_cqe *cqe)
{
    enum fanin_status status;
    uint32_t count, seen;
    uint64_t now;

    do {
        status = fanin_poll(context, cq, cqe, 1, &count, &seen);
        if (count && cqe->wr_id == wr_id && cqe->opcode == FANIN_WQE_COLLECTIVE)
            return FANIN_SUCCESS;
        if (count)
            continue;
        now = fanin_now_ms();
        if (status == FANIN_SUCCESS)
            status = fanin_wait(context, cq, seen, deadline > now ? (uint32_t)(deadline - now) : 0);
    } while (status == FANIN_SUCCESS);
    return status;
}

enum fanin_status fanin_call(struct fanin_context *context, uint32_t qp, uint32_t cq, struct fanin_cursor *cursor,
                             struct fanin_prepared *prepared, uint32_t timeout_ms, struct fanin_cqe *cqe)
{
    uint64_t deadline = fanin_now_ms() + timeout_ms;
    enum fanin_status status;

    if (prepared->inline_length > FANIN_MAX_INLINE)
        return FANIN_INVALID_REQUEST;
    prepared->progress = FANIN_PREPARED;
    complete_request(prepared, cursor);
    status = fanin_post(context, qp, &prepared->wqe);
    if (status != FANIN_SUCCESS)
        return status;
    cursor->mid = (cursor->mid + 1) & MID_MASK;
    cursor->position += prepared->wqe.segments;
    prepared->progress = FANIN_POSTED;
    status = take(context, cq, prepared->wqe.wr_id, deadline, cqe);
    if (status == FANIN_SUCCESS)
        prepared->progress = FANIN_COMPLETE;
    return status;
}
