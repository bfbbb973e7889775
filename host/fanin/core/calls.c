/* Requests that are posted again and again: begin, finish, or both in one call. For programs that wait for each before
 * the next. A long message goes in parts: where it is copied, the next ones come in, and the last ones go out, while
 * the device works on those between. */
#include "context.h"
#include <string.h>

#define MID_MASK ((1u << FANIN_MID_BITS) - 1)

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* Where a part lies for the device. */
static uint64_t place_of(const struct fanin_prepared *prepared, const struct fanin_side *side, uint32_t part)
{
    return side->place + part % side->depth * prepared->part_length;
}

static uint64_t length_of(const struct fanin_prepared *prepared, uint32_t part)
{
    return smaller(prepared->part_length, prepared->length - part * prepared->part_length);
}

static void aim_part(struct fanin_prepared *prepared, uint32_t part)
{
    struct fanin_wqe *wqe = &prepared->wqe;
    int last = part + 1 == prepared->parts;

    wqe->length = wqe->block = length_of(prepared, part);
    wqe->segments = (uint32_t)((wqe->length + prepared->segment - 1) / prepared->segment);
    wqe->address.source = place_of(prepared, &prepared->source, part);
    wqe->address.destination = place_of(prepared, &prepared->destination, part);
    wqe->flags &= (uint16_t)~FANIN_WQE_SIGNALED;
    if (last || (part + 1) % prepared->signal_interval == 0)
        wqe->flags |= FANIN_WQE_SIGNALED;
}

static void bring(struct fanin_prepared *prepared, uint32_t part)
{
    const struct fanin_side *source = &prepared->source;
    struct fanin_wqe *wqe = &prepared->wqe;

    if (!source->length)
        return;
    if (prepared->parts > 1)
        memcpy(at(wqe->address.source), at(source->memory + part * prepared->part_length), wqe->length);
    else
        memcpy(wqe->flags & FANIN_WQE_INLINE ? (void *)&wqe->address.source : at(source->place), at(source->memory),
               source->length);
}

static void deliver(const struct fanin_prepared *prepared, uint32_t part)
{
    const struct fanin_side *destination = &prepared->destination;

    if (!destination->length)
        return;
    if (prepared->parts > 1)
        memcpy(at(destination->memory + part * prepared->part_length), at(place_of(prepared, destination, part)),
               length_of(prepared, part));
    else
        memcpy(at(destination->memory), at(destination->place), destination->length);
}

/* Completions of other requests, which nobody waits for any more, are dropped. */
static enum fanin_status take(struct fanin_stream *stream, const struct fanin_prepared *prepared, uint64_t deadline)
{
    struct fanin_cqe *cqe = &stream->cqe;
    enum fanin_status status;
    uint32_t count;
    uint64_t now;

    do {
        status = fanin_poll(stream->context, stream->cq, cqe, 1, &count, &stream->seen);
        if (count && cqe->opcode == FANIN_WQE_COLLECTIVE && cqe->wr_id - prepared->first_id < prepared->parts)
            return FANIN_SUCCESS;
        if (count)
            continue;
        now = fanin_now_ms();
        if (status == FANIN_SUCCESS)
            status = fanin_wait(stream->context, stream->cq, stream->seen,
                                deadline > now ? (uint32_t)(deadline - now) : 0);
    } while (status == FANIN_SUCCESS);
    return status;
}

enum fanin_status fanin_post_next(struct fanin_context *context, uint32_t qp, struct fanin_cursor *cursor,
                                  const struct fanin_wqe *wqe)
{
    enum fanin_status status = fanin_post(context, qp, wqe);

    if (status != FANIN_SUCCESS)
        return status;
    cursor->mid = (wqe->mid + 1) & MID_MASK;
    cursor->position += wqe->segments;
    return status;
}

enum fanin_status fanin_post_part(struct fanin_stream *stream, struct fanin_prepared *prepared)
{
    struct fanin_cursor *cursor = &stream->cursor;
    struct fanin_wqe *wqe = &prepared->wqe;

    if (!stream->context)
        return FANIN_NOT_CONFIGURED;
    if (prepared->parts > 1)
        aim_part(prepared, prepared->posted);
    wqe->wr_id = prepared->first_id + prepared->posted;
    wqe->mid = (wqe->mid & ~MID_MASK) | cursor->mid;
    wqe->seg = cursor->slots ? cursor->position % cursor->slots : 0;
    bring(prepared, prepared->posted);
    enum fanin_status status = fanin_post_next(stream->context, stream->qp, cursor, wqe);
    if (status == FANIN_SUCCESS)
        prepared->posted++;
    return status;
}

/* Parts that may be under way: those whose places are not in use. */
static enum fanin_status post_parts(struct fanin_stream *stream, struct fanin_prepared *prepared)
{
    uint64_t room = prepared->ended + smaller(prepared->source.depth, prepared->destination.depth);
    enum fanin_status status = FANIN_SUCCESS;

    while (status == FANIN_SUCCESS && prepared->posted < smaller(prepared->parts, room))
        status = fanin_post_part(stream, prepared);
    return status == FANIN_QUEUE_FULL && prepared->posted ? FANIN_SUCCESS : status;
}

enum fanin_status fanin_begin(struct fanin_stream *stream, struct fanin_prepared *prepared)
{
    enum fanin_status status;

    prepared->progress = FANIN_PREPARED;
    prepared->posted = prepared->ended = 0;
    if (prepared->wqe.flags & FANIN_WQE_INLINE && prepared->source.length > FANIN_MAX_INLINE)
        return FANIN_INVALID_REQUEST;
    prepared->first_id = stream->next_id;
    status = post_parts(stream, prepared);
    if (prepared->posted) {
        prepared->progress = FANIN_POSTED;
        stream->next_id += prepared->parts;
        stream->begun++;
    }
    return status;
}

void fanin_write_to(struct fanin_prepared *prepared, uint64_t memory)
{
    struct fanin_side *destination = &prepared->destination;

    destination->memory = memory;
    if (!destination->length) /* nothing stands in for it */
        destination->place = prepared->wqe.address.destination = memory;
}

/* See to the parts that a completion tells of. */
static enum fanin_status end_parts(struct fanin_stream *stream, struct fanin_prepared *prepared)
{
    uint32_t ended = (uint32_t)(stream->cqe.wr_id - prepared->first_id) + 1;

    if (stream->cqe.status != FANIN_SUCCESS) {
        prepared->progress = FANIN_COMPLETE;
        return stream->cqe.status;
    }
    for (uint32_t part = prepared->ended; part < ended; part++)
        deliver(prepared, part);
    prepared->ended = ended;
    if (ended == prepared->parts)
        prepared->progress = FANIN_PREPARED;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_finish(struct fanin_stream *stream, struct fanin_prepared *prepared, uint32_t timeout_ms)
{
    uint64_t deadline = fanin_now_ms() + timeout_ms;
    enum fanin_status status;

    if (!stream->context)
        return FANIN_NOT_CONFIGURED;
    if (prepared->progress != FANIN_POSTED)
        return FANIN_INVALID_REQUEST;
    for (;;) {
        status = take(stream, prepared, deadline);
        if (status == FANIN_SUCCESS)
            status = end_parts(stream, prepared);
        if (status != FANIN_SUCCESS || prepared->progress == FANIN_PREPARED)
            return status;
        status = post_parts(stream, prepared);
        if (status != FANIN_SUCCESS)
            return status;
        if (fanin_now_ms() > deadline)
            return FANIN_PENDING; /* also where a completion is always there */
    }
}

enum fanin_status fanin_call(struct fanin_stream *stream, struct fanin_prepared *prepared, uint32_t timeout_ms)
{
    enum fanin_status status = fanin_begin(stream, prepared);

    return status == FANIN_SUCCESS ? fanin_finish(stream, prepared, timeout_ms) : status;
}
