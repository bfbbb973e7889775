#include "collectives/stream_parts.h"

#define ANSWER_MS 5000    /* a living device answers a question in microseconds */

static uint64_t count_segments(const struct fanin_request *request, uint32_t from, uint32_t to)
{
    const struct job_params *job_params = &request->stream->job_params;
    struct run run = {0};
    uint64_t segments = 0;

    for (uint32_t number = 0; number < to; number++) {
        fanin_next_run(&request->message, job_params->rank, &run);
        if (number >= from)
            segments += fanin_count_positions(job_params, &request->message, &run);
    }
    return segments;
}

static enum fanin_status ask(struct stream *stream, const struct fanin_request *request, struct query *query)
{
    query->first_id = request->first_id + request->taken;
    for (uint32_t number = request->taken; number < request->posted && query->count < QUERY_ENTRIES; number++) {
        struct fanin_wqe wqe = {
            .opcode = FANIN_WQE_QUERY, .flags = FANIN_WQE_SIGNALED, .wr_id = request->first_id + number,
            .mid = request->agreement << FANIN_MID_BITS | ((request->first_mid + number) & MID_MASK),
            .jid = stream->job_params.jid};
        enum fanin_status status = fanin_post_owned(stream->context, stream->qp, &wqe);
        if (status != FANIN_SUCCESS)
            return query->count ? FANIN_SUCCESS : status;
        query->count++;
    }
    return FANIN_SUCCESS;
}

/* Work requests that have ended meanwhile may lack an answer. `missing` is that of the first incomplete segment. */
static void sum_up(const struct fanin_request *request, const struct query *query,
                   struct fanin_request_progress *progress)
{
    int exchanges = request->wanted.row != NULL; /* nothing is known of the message itself yet */

    if (!exchanges) {
        progress->segments = count_segments(request, 0, request->count);
        progress->done = count_segments(request, 0, request->taken);
    }
    for (uint32_t i = 0; i < query->count && !is_done(request); i++) {
        const struct fanin_cqe *answer = &query->answers[i];
        uint64_t number = query->first_id + i - request->first_id;
        if (!(query->answered >> i & 1) || number < request->taken || number >= request->posted)
            continue;
        if (!exchanges)
            progress->done += answer->status == FANIN_SUCCESS
                                  ? count_segments(request, (uint32_t)number, (uint32_t)number + 1) : answer->positions;
        if (!progress->missing) {
            progress->missing = answer->missing;
            progress->missing_kind = answer->missing_kind;
        }
    }
}

enum fanin_status fanin_stream_query(struct stream *stream, struct fanin_request *request,
                                     struct fanin_request_progress *progress)
{
    struct query query = {0}, **link = &stream->queries;
    uint64_t deadline = fanin_now_ms() + ANSWER_MS;
    enum fanin_status status = FANIN_SUCCESS;

    *progress = (struct fanin_request_progress){0};
    pthread_mutex_lock(&stream->lock);
    if (!is_done(request) && stream->first)
        fanin_stream_step(stream);
    query.next = stream->queries;
    stream->queries = &query;
    if (!is_done(request))
        status = ask(stream, request, &query);
    while (query.answered != (1u << query.count) - 1 && !is_done(request) && status == FANIN_SUCCESS) {
        uint32_t seen = stream->seen;
        if (fanin_now_ms() > deadline)
            status = FANIN_TIMEOUT;
        pthread_mutex_unlock(&stream->lock);
        fanin_wait_cq(stream->context, stream->cq, seen, FANIN_SLICE_MS);
        pthread_mutex_lock(&stream->lock);
        fanin_stream_step(stream);
    }
    while (*link != &query)
        link = &(*link)->next;
    *link = query.next;
    sum_up(request, &query, progress);
    pthread_mutex_unlock(&stream->lock);
    return status;
}
