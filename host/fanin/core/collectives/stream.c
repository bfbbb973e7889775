#include "collectives/stream_parts.h"

void fanin_stream_begin(struct stream *stream, struct fanin_context *context, uint32_t qp, uint32_t cq,
                        void (*free_request)(struct fanin_request *))
{
    *stream = (struct stream){.context = context, .qp = qp, .cq = cq, .next_id = 1, .free_request = free_request};
    pthread_mutex_init(&stream->lock, NULL);
}

void fanin_stream_step(struct stream *stream)
{
    enum fanin_status status = fanin_stream_take_completions(stream);

    if (status == FANIN_SUCCESS)
        fanin_stream_post_all(stream);
    else
        fanin_stream_fail_requests(stream, status);
    fanin_stream_complete_throttled(stream);
}

enum fanin_status fanin_stream_submit(struct stream *stream, struct fanin_request *request)
{
    enum fanin_status status = FANIN_PENDING;

    pthread_mutex_lock(&stream->lock);
    if (stream->locally_complete) /* no wait takes their completions */
        fanin_stream_step(stream);
    request->next = NULL;
    request->number = stream->submitted;
    int stopped = stream_is_stopped(stream); /* read once: closing the context stops it without the lock */
    stream->submitted += !stopped;
    if (stopped) {
        status = FANIN_INVALID_REQUEST;
    } else if (stream->ended) {
        request->status = stream->ended;
        fanin_stream_finish(request, 0);
    } else {
        stream->posted++;
        if (stream->last)
            stream->last->next = request;
        else
            stream->first = request;
        stream->last = request;
        if (!stream->posting) {
            stream->posting = request;
            fanin_stream_post_all(stream);
            if (request->waits && request->locally_complete && !request->done) {
                request->detached = 1;
                status = FANIN_SUCCESS;
            }
        }
    }
    pthread_mutex_unlock(&stream->lock);
    return status;
}

void fanin_stream_stop(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    __atomic_store_n(&stream->stopped, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&stream->lock);
}

enum fanin_status fanin_stream_end(struct stream *stream, enum fanin_status status)
{
    enum fanin_status destroyed = FANIN_SUCCESS;

    pthread_mutex_lock(&stream->lock);
    if (stream->context)
        destroyed = fanin_stream_destroy_qp(stream);
    fanin_stream_fail(stream, status);
    pthread_mutex_unlock(&stream->lock);
    return destroyed;
}

void fanin_stream_advance(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->first || stream->queries)
        fanin_stream_step(stream);
    pthread_mutex_unlock(&stream->lock);
}

static int holds(struct stream *stream, struct fanin_request *const *request)
{
    int throttled;

    pthread_mutex_lock(&stream->lock);
    throttled = *request != NULL;
    pthread_mutex_unlock(&stream->lock);
    return throttled;
}

int fanin_stream_has_backlog(struct stream *stream)
{
    return holds(stream, &stream->posting);
}

void fanin_stream_reported(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->reported = 1;
    stream->unreported = FANIN_SUCCESS;
    pthread_mutex_unlock(&stream->lock);
}

int fanin_stream_is_drained(struct stream *stream)
{
    int drained;

    pthread_mutex_lock(&stream->lock);
    fanin_stream_post_marker(stream);
    drained = !stream->first;
    pthread_mutex_unlock(&stream->lock);
    return drained;
}

int fanin_stream_knows_end(struct stream *stream)
{
    int told;

    pthread_mutex_lock(&stream->lock);
    if (stream->end_of_job.status == FANIN_SUCCESS && !stream->ended && stream->context) {
        fanin_stream_step(stream);
        fanin_stream_ask(stream);
    }
    told = stream->end_of_job.status != FANIN_SUCCESS;
    pthread_mutex_unlock(&stream->lock);
    return told;
}

enum fanin_status fanin_stream_flush(struct stream *stream)
{
    enum fanin_status status;

    pthread_mutex_lock(&stream->lock);
    if (stream->first)
        fanin_stream_step(stream);
    fanin_stream_post_marker(stream);
    status = stream->locally_complete ? FANIN_PENDING : stream->unreported;
    if (status != FANIN_PENDING)
        stream->unreported = FANIN_SUCCESS;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

void fanin_stream_sleep(struct stream *stream, const struct fanin_request *request, uint32_t timeout_ms)
{
    uint32_t target, count = 1;

    pthread_mutex_lock(&stream->lock);
    /* Wait for several completions at once: a rank that wakes one too early yields for long, on a core that the device
     * needs. */
    if (stream->throttled == request && stream->locally_complete > MAX_LOCALLY_COMPLETE / 2 + MAX_UNSIGNALED)
        count = (stream->locally_complete - MAX_LOCALLY_COMPLETE / 2 - 2) / MAX_UNSIGNALED + 2;
    target = stream->seen + count;
    pthread_mutex_unlock(&stream->lock);
    if (!has_ended(request))
        fanin_await_completion(stream->context, stream->cq, target, timeout_ms);
}
