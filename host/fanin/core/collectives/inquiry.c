#include "collectives/stream_parts.h"

#define ANSWER_MS 5000    /* a living device answers a question in microseconds */

static uint64_t count_segments(const struct fanin_request *request, uint32_t from, uint32_t to)
{
    const struct terms *terms = &request->stream->terms;
    struct run run = {0};
    uint64_t segments = 0;

    for (uint32_t number = 0; number < to; number++) {
        fanin_next_run(&request->message, terms->rank, &run);
        if (number >= from)
            segments += fanin_count_positions(terms, &request->message, &run);
    }
    return segments;
}

static enum fanin_status ask(struct stream *stream, const struct fanin_request *request, struct inquiry *inquiry)
{
    inquiry->first_id = request->first_id + request->taken;
    for (uint32_t number = request->taken; number < request->posted && inquiry->count < QUESTIONS; number++) {
        struct fanin_wqe wqe = {
            .opcode = FANIN_WQE_QUERY, .flags = FANIN_WQE_SIGNALED, .wr_id = request->first_id + number,
            .mid = request->agreement << FANIN_MID_BITS | ((request->first_mid + number) & MID_MASK),
            .jid = stream->terms.jid};
        enum fanin_status status = fanin_post_owned(stream->context, stream->qp, &wqe);
        if (status != FANIN_SUCCESS)
            return inquiry->count ? FANIN_SUCCESS : status;
        inquiry->count++;
    }
    return FANIN_SUCCESS;
}

/* Work requests that have ended meanwhile may lack an answer. `missing` is that of the first incomplete segment. */
static void sum_up(const struct fanin_request *request, const struct inquiry *inquiry,
                   struct fanin_request_progress *progress)
{
    int exchanges = request->wanted.row != NULL; /* nothing is known of the message itself yet */

    if (!exchanges) {
        progress->segments = count_segments(request, 0, request->count);
        progress->done = count_segments(request, 0, request->taken);
    }
    for (uint32_t i = 0; i < inquiry->count && !is_done(request); i++) {
        const struct fanin_cqe *answer = &inquiry->answers[i];
        uint64_t number = inquiry->first_id + i - request->first_id;
        if (!(inquiry->answered >> i & 1) || number < request->taken || number >= request->posted)
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
    struct inquiry inquiry = {0}, **link = &stream->inquiries;
    uint64_t deadline = fanin_now_ms() + ANSWER_MS;
    enum fanin_status status = FANIN_SUCCESS;

    *progress = (struct fanin_request_progress){0};
    pthread_mutex_lock(&stream->lock);
    if (!is_done(request) && stream->first)
        fanin_stream_step(stream);
    inquiry.next = stream->inquiries;
    stream->inquiries = &inquiry;
    if (!is_done(request))
        status = ask(stream, request, &inquiry);
    while (inquiry.answered != (1u << inquiry.count) - 1 && !is_done(request) && status == FANIN_SUCCESS) {
        uint32_t seen = stream->seen;
        if (fanin_now_ms() > deadline)
            status = FANIN_TIMEOUT;
        pthread_mutex_unlock(&stream->lock);
        fanin_wait_cq(stream->context, stream->cq, seen, FANIN_SLICE_MS);
        pthread_mutex_lock(&stream->lock);
        fanin_stream_step(stream);
    }
    while (*link != &inquiry)
        link = &(*link)->next;
    *link = inquiry.next;
    sum_up(request, &inquiry, progress);
    pthread_mutex_unlock(&stream->lock);
    return status;
}
