/* The stream of a rank in a job: its requests get their positions and are posted in the order of their submission.
 * At most as much is under way as the send queue holds, so no queue can overflow. */
#include "collectives/stream_parts.h"

#define MAX_LOCALLY_COMPLETE 128 /* requests that have ended for the program only: half a queue */
#define MAX_LOCALLY_COMPLETE_BYTES (4u << 20)
#define MAX_UNSIGNALED 16        /* unsignaled requests, of which one completion tells the end */

/* Every post looks, so that leftovers of earlier messages are gone before message numbers wrap around. */
static void look_for_arrival(struct stream *stream, struct fanin_request *request, struct fanin_wqe *wqe)
{
    void *landing = request->arrived ? NULL : fanin_request_landing(request, wqe);

    if (fanin_take_arrival(stream->context, stream->qp, wqe, landing))
        request->arrived = 1;
    if (request->arrived)
        wqe->address.destination_blocks = 0;
    else if (request->destination.mode == MODE_OPEN)
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

static void mark_unsignaled(struct stream *stream)
{
    if (stream->unsignaled && post_marker(stream))
        stream->unsignaled = 0;
}

static void ask(struct stream *stream)
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
    if (request->source.mode == MODE_PIPELINED)
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

static void post_all(struct stream *stream)
{
    while (stream->posting) {
        struct fanin_request *request = stream->posting;
        if (must_wait(stream, request)) {
            mark_unsignaled(stream);
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
    return stream->locally_complete <= MAX_LOCALLY_COMPLETE / 2 &&
           stream->locally_complete_bytes <= MAX_LOCALLY_COMPLETE_BYTES / 2;
}

static void complete_throttled(struct stream *stream)
{
    struct fanin_request *request = stream->throttled;

    if (!request || !has_room(stream))
        return;
    stream->throttled = NULL;
    for (; request && request != stream->posting && !stream->throttled; request = request->next)
        if (!request->locally_complete)
            complete_locally(stream, request);
}

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
        post_all(stream);
    else
        fanin_stream_fail_requests(stream, status);
    complete_throttled(stream);
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
            post_all(stream);
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

int fanin_stream_has_backlog(struct stream *stream)
{
    int waits;

    pthread_mutex_lock(&stream->lock);
    waits = stream->posting != NULL;
    pthread_mutex_unlock(&stream->lock);
    return waits;
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
    mark_unsignaled(stream);
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
        ask(stream);
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
    mark_unsignaled(stream);
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
