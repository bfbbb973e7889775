/* Posting. At most as much is under way as the send queue holds, so no queue can overflow. */
#include "collectives/stream_parts.h"

/* Every post looks, so that leftovers of earlier messages are gone before message numbers wrap around. */
static void look_for_arrival(struct stream *stream, struct fanin_request *request, struct fanin_wqe *wqe)
{
    void *landing = request->arrived ? NULL : fanin_request_landing(request, wqe);

    if (fanin_take_arrival(stream->context, stream->qp, wqe, landing))
        request->arrived = 1;
    if (request->arrived)
        wqe->address.destination_blocks = 0;
    else if (request->destination.way == WAY_OPEN)
        fanin_request_choose_way(request, wqe);
}

static int may_take_over(const struct stream *stream, const struct fanin_request *request)
{
    return stream->end_of_job.status == FANIN_SUCCESS && stream->taken_over < MOST_TAKEN &&
           stream->taken_bytes <= MOST_TAKEN_BYTES && fanin_request_is_one_way(request);
}

/* The completion of a later request, or a mark, tells the end of an unsignaled one. */
static void save_completion(struct stream *stream, const struct fanin_request *request, struct fanin_wqe *wqe)
{
    if (request->count == 1 && stream->silent + 1 < MOST_SILENT && may_take_over(stream, request)) {
        wqe->flags &= (uint16_t)~FANIN_WQE_SIGNALED;
        stream->silent++;
        stream->last_silent = wqe->wr_id;
    } else if (wqe->flags & FANIN_WQE_SIGNALED) {
        stream->silent = 0;
    }
}

static int post_mark(const struct stream *stream)
{
    const struct terms *terms = &stream->terms;
    struct fanin_wqe wqe = {
        .opcode = FANIN_WQE_COLLECTIVE, .op = FANIN_OP_NONE, .dtype = FANIN_DTYPE_U8,
        .contributors = FANIN_CLASS_ONE, .flags = FANIN_WQE_SIGNALED, .route = (uint8_t)terms->route,
        .address_count = 1, .wr_id = stream->last_silent | MARK, .jid = terms->jid,
        .node_bitmap = terms->node_bitmap, .rank_bitmap = terms->rank_bitmap, .chunk = terms->chunk,
        .seg = stream->cursor.slots ? stream->cursor.position % stream->cursor.slots : 0};

    return stream->context && !stream->ended &&
           fanin_post_owned(stream->context, stream->qp, &wqe) == FANIN_SUCCESS;
}

void fanin_stream_post_mark(struct stream *stream)
{
    if (stream->silent && post_mark(stream))
        stream->silent = 0;
}

void fanin_stream_ask(struct stream *stream)
{
    if (!stream->asked && stream->end_of_job.status == FANIN_SUCCESS)
        stream->asked = post_mark(stream) != 0;
}

/* FANIN_PENDING: the bounce buffer is still in use. */
static enum fanin_status post_next(struct stream *stream, struct fanin_request *request)
{
    struct run run = request->run;
    struct fanin_wqe wqe;
    enum fanin_status status;
    uint32_t before;
    uint64_t last_before;

    if (stream->outstanding >= FANIN_SQ_DEPTH - QUESTIONS)
        return FANIN_QUEUE_FULL;
    if (!fanin_request_load(request, &run, &wqe))
        return FANIN_PENDING;
    if (!request->posted) {
        request->first_id = stream->next_id;
        request->first_mid = stream->cursor.mid;
    }
    wqe.wr_id = request->first_id + request->posted;
    wqe.mid |= stream->cursor.mid;
    wqe.seg = stream->cursor.slots ? stream->cursor.position % stream->cursor.slots : 0;
    look_for_arrival(stream, request, &wqe);
    before = stream->silent;
    last_before = stream->last_silent;
    save_completion(stream, request, &wqe);
    status = fanin_post_owned(stream->context, stream->qp, &wqe);
    if (status != FANIN_SUCCESS) {
        stream->silent = before;
        stream->last_silent = last_before;
        return status;
    }
    stream->cursor.mid = (stream->cursor.mid + 1) & MID_MASK;
    stream->cursor.position += wqe.segments;
    stream->next_id = wqe.wr_id + 1;
    stream->outstanding++;
    request->run = run;
    request->posted++;
    return FANIN_SUCCESS;
}

/* Behind a fence the input may be a result that the host has not copied to its place yet, or cannot read yet. */
static int must_wait(const struct stream *stream, const struct fanin_request *request)
{
    if (!(request->flags & FANIN_FENCE) || request->posted)
        return 0;
    if (request->source.way == WAY_PIPELINED)
        return stream->first != request;
    for (const struct fanin_request *before = stream->first; before != request; before = before->next)
        if (fanin_request_copies_results(before))
            return 1;
    return 0;
}

static void take_over(struct stream *stream, struct fanin_request *request)
{
    if (!may_take_over(stream, request)) {
        if (!stream->held && fanin_request_is_one_way(request))
            stream->held = request;
        return;
    }
    stream->taken_over++;
    stream->taken_bytes += request->source.length;
    __atomic_store_n(&request->taken_over, 1, __ATOMIC_RELEASE);
}

void fanin_stream_post_all(struct stream *stream)
{
    while (stream->posting) {
        struct fanin_request *request = stream->posting;
        if (must_wait(stream, request)) {
            fanin_stream_post_mark(stream);
            return;
        }
        while (request->posted < request->count) {
            enum fanin_status status = post_next(stream, request);
            if (status == FANIN_QUEUE_FULL || status == FANIN_PENDING)
                return;
            if (status != FANIN_SUCCESS) {
                fanin_stream_fail_requests(stream, status);
                return;
            }
        }
        take_over(stream, request);
        if (request->wanted.row)
            return; /* all ranks post in one order, so what follows waits for the sizes */
        stream->posting = request->next;
    }
}

static int has_room(const struct stream *stream)
{
    return stream->taken_over <= MOST_TAKEN / 2 && stream->taken_bytes <= MOST_TAKEN_BYTES / 2;
}

void fanin_stream_take_over_held(struct stream *stream)
{
    struct fanin_request *request = stream->held;

    if (!request || !has_room(stream))
        return;
    stream->held = NULL;
    for (; request && request != stream->posting && !stream->held; request = request->next)
        if (!request->taken_over)
            take_over(stream, request);
}
