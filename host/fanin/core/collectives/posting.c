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
    else if (request->destination.way == MODE_OPEN)
        fanin_request_choose_mode(request, wqe);
}

static int may_complete_locally(const struct stream *stream, const struct fanin_request *request)
{
    return stream->end_of_job.status == FANIN_SUCCESS && stream->locally_complete < MAX_LOCALLY_COMPLETE &&
           stream->locally_complete_bytes <= MAX_LOCALLY_COMPLETE_BYTES && fanin_request_is_one_way(request);
}

/* The completion of a later request, or a marker, tells the end of an unsignaled one. */
static void suppress_completion(struct stream *stream, const struct fanin_request *request, struct fanin_wqe *wqe)
{
    if (request->count == 1 && stream->unsignaled + 1 < MAX_UNSIGNALED && may_complete_locally(stream, request)) {
        wqe->flags &= (uint16_t)~FANIN_WQE_SIGNALED;
        stream->unsignaled++;
        stream->last_unsignaled = wqe->wr_id;
    } else if (wqe->flags & FANIN_WQE_SIGNALED) {
        stream->unsignaled = 0;
    }
}

static int post_marker(const struct stream *stream)
{
    const struct job_params *job_params = &stream->job_params;
    struct fanin_wqe wqe = {
        .opcode = FANIN_WQE_COLLECTIVE, .op = FANIN_OP_NONE, .dtype = FANIN_DTYPE_U8,
        .contributors = FANIN_CLASS_ONE, .flags = FANIN_WQE_SIGNALED, .route = (uint8_t)job_params->route,
        .address_count = 1, .wr_id = stream->last_unsignaled | MARKER, .jid = job_params->jid,
        .node_bitmap = job_params->node_bitmap, .rank_bitmap = job_params->rank_bitmap, .chunk = job_params->chunk,
        .seg = stream->cursor.slots ? stream->cursor.position % stream->cursor.slots : 0};

    return stream->context && !stream->ended &&
           fanin_post_owned(stream->context, stream->qp, &wqe) == FANIN_SUCCESS;
}

void fanin_stream_post_marker(struct stream *stream)
{
    if (stream->unsignaled && post_marker(stream))
        stream->unsignaled = 0;
}

void fanin_stream_ask(struct stream *stream)
{
    if (!stream->asked && stream->end_of_job.status == FANIN_SUCCESS)
        stream->asked = post_marker(stream) != 0;
}

/* FANIN_PENDING: the bounce buffer is still in use. */
static enum fanin_status post_next(struct stream *stream, struct fanin_request *request)
{
    struct run run = request->run;
    struct fanin_wqe wqe;
    enum fanin_status status;
    uint32_t before;
    uint64_t last_before;

    if (stream->outstanding >= FANIN_SQ_DEPTH - QUERY_ENTRIES)
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
    before = stream->unsignaled;
    last_before = stream->last_unsignaled;
    suppress_completion(stream, request, &wqe);
    status = fanin_post_owned(stream->context, stream->qp, &wqe);
    if (status != FANIN_SUCCESS) {
        stream->unsignaled = before;
        stream->last_unsignaled = last_before;
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
    if (request->source.way == MODE_PIPELINED)
        return stream->first != request;
    for (const struct fanin_request *before = stream->first; before != request; before = before->next)
        if (fanin_request_copies_results(before))
            return 1;
    return 0;
}

static void complete_locally(struct stream *stream, struct fanin_request *request)
{
    if (!may_complete_locally(stream, request)) {
        if (!stream->throttled && fanin_request_is_one_way(request))
            stream->throttled = request;
        return;
    }
    stream->locally_complete++;
    stream->locally_complete_bytes += request->source.length;
    __atomic_store_n(&request->locally_complete, 1, __ATOMIC_RELEASE);
}

void fanin_stream_post_all(struct stream *stream)
{
    while (stream->posting) {
        struct fanin_request *request = stream->posting;
        if (must_wait(stream, request)) {
            fanin_stream_post_marker(stream);
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
        complete_locally(stream, request);
        if (request->wanted.row)
            return; /* all ranks post in one order, so what follows waits for the sizes */
        stream->posting = request->next;
    }
}

static int has_room(const struct stream *stream)
{
    return stream->locally_complete <= MAX_LOCALLY_COMPLETE / 2 && stream->locally_complete_bytes <= MAX_LOCALLY_COMPLETE_BYTES / 2;
}

void fanin_stream_complete_throttled(struct stream *stream)
{
    struct fanin_request *request = stream->throttled;

    if (!request || !has_room(stream))
        return;
    stream->throttled = NULL;
    for (; request && request != stream->posting && !stream->throttled; request = request->next)
        if (!request->locally_complete)
            complete_locally(stream, request);
}
