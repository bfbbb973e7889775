/* Requests that are posted again and again: begin, finish, or both in one call. For programs that wait for each before
 * the next. */
#include "context.h"
#include <string.h>

#define MID_MASK ((1u << FANIN_MID_BITS) - 1)

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* What only the moment of posting knows: where the stream stands, and what the data are now. */
static void complete_request(struct fanin_prepared *prepared, const struct fanin_cursor *cursor)
{
    struct fanin_wqe *wqe = &prepared->wqe;

    wqe->mid = (wqe->mid & ~MID_MASK) | cursor->mid;
    wqe->seg = cursor->slots ? cursor->position % cursor->slots : 0;
    if (prepared->source_length)
        memcpy(wqe->flags & FANIN_WQE_INLINE ? (void *)&wqe->address.source : at(prepared->staged_source),
               at(prepared->source), prepared->source_length);
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

enum fanin_status fanin_begin(struct fanin_context *context, uint32_t qp, struct fanin_cursor *cursor,
                              struct fanin_prepared *prepared)
{
    enum fanin_status status;

    prepared->progress = FANIN_PREPARED;
    if (prepared->wqe.flags & FANIN_WQE_INLINE && prepared->source_length > FANIN_MAX_INLINE)
        return FANIN_INVALID_REQUEST;
    complete_request(prepared, cursor);
    status = fanin_post(context, qp, &prepared->wqe);
    if (status != FANIN_SUCCESS)
        return status;
    cursor->mid = (cursor->mid + 1) & MID_MASK;
    cursor->position += prepared->wqe.segments;
    prepared->progress = FANIN_POSTED;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_finish(struct fanin_context *context, uint32_t cq, struct fanin_prepared *prepared,
                               uint32_t timeout_ms, struct fanin_cqe *cqe)
{
    enum fanin_status status = take(context, cq, prepared->wqe.wr_id, fanin_now_ms() + timeout_ms, cqe);

    if (status != FANIN_SUCCESS)
        return status;
    if (cqe->status == FANIN_SUCCESS && prepared->destination_length)
        memcpy(at(prepared->destination), at(prepared->staged_destination), prepared->destination_length);
    prepared->progress = FANIN_COMPLETE;
    return status;
}

enum fanin_status fanin_call(struct fanin_context *context, uint32_t qp, uint32_t cq, struct fanin_cursor *cursor,
                             struct fanin_prepared *prepared, uint32_t timeout_ms, struct fanin_cqe *cqe)
{
    enum fanin_status status = fanin_begin(context, qp, cursor, prepared);

    return status == FANIN_SUCCESS ? fanin_finish(context, cq, prepared, timeout_ms, cqe) : status;
}
