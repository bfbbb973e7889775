/* Posting and completion. Never more is under way than the send queue holds, so that no queue can overflow. */
#include "collectives/stream.h"

#define BATCH 32
#define MID_MASK ((1u << FANIN_MID_BITS) - 1)
#define MOST_TAKEN 128    /* requests that have ended for the program only: half a queue; the next one waits */
#define MOST_TAKEN_BYTES (4u << 20)
#define MOST_SILENT 16    /* of these requests one completion tells the end */
#define MARK (1ull << 63) /* in the wr_id of a mark, which has that of the request before it */
#define QUESTIONS 16      /* entries of the send queue that are kept free, so that a question always gets through */
#define ANSWER_MS 5000    /* a living device answers a question in microseconds */

/* Questions about work requests under way, one after the other, and their answers. */
struct inquiry {
    struct inquiry *next;         /* in its stream */
    uint64_t first_id;            /* wr_id of the first */
    uint32_t count, answered;     /* how many; which, a bit for each */
    struct fanin_cqe answers[QUESTIONS];
};

void fanin_stream_begin(struct stream *stream, struct fanin_context *context, uint32_t qp, uint32_t cq,
                        void (*free_request)(struct fanin_request *))
{
    *stream = (struct stream){.context = context, .qp = qp, .cq = cq, .next_id = 1, .free_request = free_request};
    pthread_mutex_init(&stream->lock, NULL);
}

/* A failed request says to the program why the job has ended, unless the program has taken it for done. */
static void report(struct stream *stream, const struct fanin_request *request)
{
    if (!request->taken_over && !request->detached && stream->end_of_job.status != FANIN_SUCCESS)
        stream->reported = 1;
    if (stream->reported)
        stream->unreported = FANIN_SUCCESS;
    else if (stream->unreported == FANIN_SUCCESS)
        stream->unreported = request->status;
}

/* Nothing of a request is under way any more: it is its maker's. Frees it if nobody asks for it any more. */
static void finish(struct fanin_request *request, int spoiled)
{
    struct stream *stream = request->stream;

    if (stream->held == request)
        stream->held = NULL;
    fanin_request_release(request, spoiled);
    if (request->taken_over) {
        stream->taken_over--;
        stream->taken_bytes -= request->source.length;
    }
    if (request->status != FANIN_SUCCESS)
        report(stream, request);
    if (request->detached) {
        fanin_request_destroy(request);
        stream->free_request(request);
        return;
    }
    __atomic_store_n(&request->done, 1, __ATOMIC_RELEASE);
}

/* Everything that is under way or waits ends: nothing will come any more. */
static void fail_all(struct stream *stream, enum fanin_status status)
{
    struct fanin_request *request = stream->first;

    if (stream->end_of_job.status == FANIN_SUCCESS)
        stream->end_of_job = (struct fanin_cqe){.status = (uint8_t)status, .jid = stream->terms.jid};
    stream->first = stream->last = stream->posting = NULL;
    stream->outstanding = 0;
    while (request) {
        struct fanin_request *next = request->next;
        int spoiled = request->posted > request->taken || request->status != FANIN_SUCCESS;
        if (request->status == FANIN_SUCCESS)
            request->status = status;
        finish(request, spoiled);
        request = next;
    }
}

static void end(struct stream *stream, enum fanin_status status)
{
    __atomic_store_n(&stream->ended, status, __ATOMIC_RELEASE);
    fail_all(stream, status);
}

enum fanin_status fanin_stream_destroy_qp(struct stream *stream)
{
    enum fanin_status status;

    if (stream->qp_destroyed)
        return FANIN_SUCCESS;
    status = fanin_destroy_qp(stream->context, stream->qp);
    stream->qp_destroyed = status == FANIN_SUCCESS;
    if (status == FANIN_DEVICE_LOST && !fanin_device_stands_still(stream->context))
        return FANIN_SUCCESS; /* a device that has ended writes nothing */
    return status;
}

static void unlink_request(struct stream *stream, const struct fanin_request *request)
{
    struct fanin_request **link = &stream->first, *before = NULL;

    while (*link != request) {
        before = *link;
        link = &before->next;
    }
    *link = request->next;
    if (stream->last == request)
        stream->last = before;
    if (stream->posting == request)
        stream->posting = request->next;
}

/* All its completions are there. If they have only brought the sizes, the message itself begins. */
static void conclude(struct stream *stream, struct fanin_request *request)
{
    if (request->wanted.row && request->status == FANIN_SUCCESS) {
        enum fanin_status status = fanin_request_expand(request);
        if (status != FANIN_SUCCESS) { /* nobody shall wait for what will never be posted here */
            fanin_stream_destroy_qp(stream);
            end(stream, status);
        }
        return;
    }
    if (request->mismatch && request->status == FANIN_SUCCESS)
        request->status = FANIN_OP_MISMATCH;
    unlink_request(stream, request);
    finish(request, request->status != FANIN_SUCCESS && !request->mismatch);
}

static struct fanin_request *request_of(struct stream *stream, uint64_t id)
{
    struct fanin_request *request = stream->first;

    while (request && id - request->first_id >= request->posted)
        request = request->next;
    return request;
}

static void answer(struct stream *stream, const struct fanin_cqe *cqe)
{
    for (struct inquiry *inquiry = stream->inquiries; inquiry; inquiry = inquiry->next) {
        uint64_t number = cqe->wr_id - inquiry->first_id;
        if (number < inquiry->count) {
            inquiry->answers[number] = *cqe;
            inquiry->answered |= 1u << number;
        }
    }
}

static int ends_the_job(uint32_t status)
{
    return status == FANIN_PEER_LOST || status == FANIN_TIMEOUT || status == FANIN_OP_MISMATCH ||
           status == FANIN_ABORTED || status == FANIN_CQ_OVERRUN;
}

static void note_failure(struct stream *stream, struct fanin_request *request, const struct fanin_cqe *cqe)
{
    if (request->status == FANIN_SUCCESS) {
        request->status = cqe->status;
        request->failure = *cqe;
    }
    if (stream->end_of_job.status == FANIN_SUCCESS && ends_the_job(cqe->status)) {
        stream->end_of_job = *cqe;
        stream->end_of_job_number = request->number;
    }
}

/* Requests end in order, so those before this one have ended, too. What fails is never silent. */
static void complete_silent(struct stream *stream, const struct fanin_request *end)
{
    while (stream->first != end) {
        struct fanin_request *request = stream->first;
        stream->outstanding -= request->posted - request->taken;
        request->taken = request->posted;
        conclude(stream, request);
    }
}

/* The job may have ended since: then what is still there has ended before. */
static void complete_mark(struct stream *stream, const struct fanin_cqe *cqe)
{
    const struct fanin_request *last = request_of(stream, cqe->wr_id & ~MARK);

    if (last)
        complete_silent(stream, last->next);
    if (stream->end_of_job.status == FANIN_SUCCESS && ends_the_job(cqe->status))
        stream->end_of_job = *cqe;
}

/* Work requests that are not signaled have no completion of their own; they end in order. */
static void complete(struct stream *stream, const struct fanin_cqe *cqe)
{
    struct fanin_request *request = cqe->opcode == FANIN_WQE_COLLECTIVE ? request_of(stream, cqe->wr_id) : NULL;
    uint32_t taken;

    if (cqe->opcode == FANIN_WQE_QUERY)
        answer(stream, cqe);
    if (cqe->opcode == FANIN_WQE_COLLECTIVE && cqe->wr_id & MARK)
        complete_mark(stream, cqe);
    if (!request)
        return;
    complete_silent(stream, request);
    taken = (uint32_t)(cqe->wr_id - request->first_id) + 1;
    if (cqe->status != FANIN_SUCCESS)
        note_failure(stream, request, cqe);
    for (; request->taken < taken; request->taken++) {
        stream->outstanding--;
        if (request->status == FANIN_SUCCESS)
            fanin_request_store(request, request->taken);
    }
    if (request->taken == request->count)
        conclude(stream, request);
}

static enum fanin_status take_completions(struct stream *stream)
{
    struct fanin_cqe cqes[BATCH];
    enum fanin_status status;
    uint32_t count, seen;

    do {
        status = fanin_poll_owned(stream->context, stream->cq, cqes, BATCH, &count, &seen);
        for (uint32_t i = 0; i < count; i++)
            complete(stream, &cqes[i]);
        __atomic_store_n(&stream->seen, seen, __ATOMIC_RELEASE); /* then whoever sees it sees what has ended */
    } while (count == BATCH);
    return status;
}

/* If the result is there already, the request wants nothing any more. Every post looks, so that what is left over from
 * earlier messages goes before message numbers come round again. */
static void look_for_arrival(struct stream *stream, struct fanin_request *request, struct fanin_wqe *wqe)
{
    void *landing = request->arrived ? NULL : fanin_request_landing(request, wqe);

    if (fanin_take_arrival(stream->context, stream->qp, wqe, landing))
        request->arrived = 1;
    if (request->arrived)
        wqe->address.destination_blocks = 0;
}

/* Whether a request ends for the program when all of it is posted. */
static int may_take_over(const struct stream *stream, const struct fanin_request *request)
{
    return stream->end_of_job.status == FANIN_SUCCESS && stream->taken_over < MOST_TAKEN &&
           stream->taken_bytes <= MOST_TAKEN_BYTES && fanin_request_is_one_way(request);
}

/* The program does not wait for the end of such a request: the end of a later one tells it, or a mark. */
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

/* A work request without positions ends when all before it have ended. */
static void post_mark(struct stream *stream)
{
    const struct terms *terms = &stream->terms;
    struct fanin_wqe wqe = {
        .opcode = FANIN_WQE_COLLECTIVE, .op = FANIN_OP_NONE, .dtype = FANIN_DTYPE_U8,
        .contributors = FANIN_CLASS_ONE, .flags = FANIN_WQE_SIGNALED, .route = (uint8_t)terms->route,
        .address_count = 1, .wr_id = stream->last_silent | MARK, .jid = terms->jid,
        .node_bitmap = terms->node_bitmap, .rank_bitmap = terms->rank_bitmap, .chunk = terms->chunk,
        .seg = stream->cursor.slots ? stream->cursor.position % stream->cursor.slots : 0};

    if (stream->silent && stream->context && !stream->ended &&
        fanin_post_owned(stream->context, stream->qp, &wqe) == FANIN_SUCCESS)
        stream->silent = 0;
}

/* FANIN_PENDING: its bounce buffer is still in use. */
static enum fanin_status post_next(struct stream *stream, struct fanin_request *request)
{
    struct run run = request->run;
    struct fanin_wqe wqe;
    enum fanin_status status;
    uint32_t before;

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
    save_completion(stream, request, &wqe);
    status = fanin_post_owned(stream->context, stream->qp, &wqe);
    if (status != FANIN_SUCCESS) {
        stream->silent = before;
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

/* Behind a fence the input may be a result: that the host has yet to copy to its place, or that the host is to read. */
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

/* All of it is posted: it may have ended for the program. */
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

static void post_all(struct stream *stream)
{
    while (stream->posting) {
        struct fanin_request *request = stream->posting;
        if (must_wait(stream, request)) {
            post_mark(stream);
            return;
        }
        while (request->posted < request->count) {
            enum fanin_status status = post_next(stream, request);
            if (status == FANIN_QUEUE_FULL || status == FANIN_PENDING)
                return;
            if (status != FANIN_SUCCESS) {
                fail_all(stream, status);
                return;
            }
        }
        take_over(stream, request);
        if (request->wanted.row)
            return; /* the ranks post in one order: what follows waits for the sizes */
        stream->posting = request->next;
    }
}

static int has_room(const struct stream *stream)
{
    return stream->taken_over <= MOST_TAKEN / 2 && stream->taken_bytes <= MOST_TAKEN_BYTES / 2;
}

/* The oldest that has waited for room, and those behind it that have been posted as a whole. */
static void take_over_held(struct stream *stream)
{
    struct fanin_request *request = stream->held;

    stream->held = NULL;
    for (; request && request != stream->posting && !stream->held; request = request->next)
        if (!request->taken_over)
            take_over(stream, request);
}

static void advance(struct stream *stream)
{
    enum fanin_status status = take_completions(stream);

    if (status == FANIN_SUCCESS)
        post_all(stream);
    else
        fail_all(stream, status);
    if (stream->held && has_room(stream))
        take_over_held(stream);
}

enum fanin_status fanin_stream_submit(struct stream *stream, struct fanin_request *request)
{
    enum fanin_status status = FANIN_PENDING;

    pthread_mutex_lock(&stream->lock);
    if (stream->taken_over) /* nobody waits for these */
        advance(stream);
    request->next = NULL;
    request->number = stream->submitted;
    stream->submitted += !stream->stopped;
    if (stream->stopped) {
        status = FANIN_INVALID_REQUEST;
    } else if (stream->ended) {
        request->status = stream->ended;
        finish(request, 0);
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
            if (request->waits && request->taken_over && !request->done) {
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
    stream->stopped = 1;
    pthread_mutex_unlock(&stream->lock);
}

void fanin_stream_end(struct stream *stream, enum fanin_status status)
{
    pthread_mutex_lock(&stream->lock);
    end(stream, status);
    pthread_mutex_unlock(&stream->lock);
}

void fanin_stream_advance(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->first || stream->inquiries)
        advance(stream);
    pthread_mutex_unlock(&stream->lock);
}

static int holds(struct stream *stream, struct fanin_request *const *request)
{
    int held;

    pthread_mutex_lock(&stream->lock);
    held = *request != NULL;
    pthread_mutex_unlock(&stream->lock);
    return held;
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
    post_mark(stream);
    drained = !stream->first;
    pthread_mutex_unlock(&stream->lock);
    return drained;
}

enum fanin_status fanin_stream_settled(struct stream *stream)
{
    enum fanin_status status;

    pthread_mutex_lock(&stream->lock);
    if (stream->first)
        advance(stream);
    post_mark(stream);
    status = stream->taken_over ? FANIN_PENDING : stream->unreported;
    if (status != FANIN_PENDING)
        stream->unreported = FANIN_SUCCESS;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

void fanin_stream_sleep(struct stream *stream, const struct fanin_request *request, uint32_t timeout_ms)
{
    uint32_t target, count = 1;

    pthread_mutex_lock(&stream->lock);
    /* The first completion may tell the end of one request only. A rank that wakes up one completion too early yields
     * for a long time, on a core that the device needs. */
    if (stream->held == request && stream->taken_over > MOST_TAKEN / 2 + MOST_SILENT)
        count = (stream->taken_over - MOST_TAKEN / 2 - 2) / MOST_SILENT + 2;
    target = stream->seen + count;
    pthread_mutex_unlock(&stream->lock);
    if (!has_ended(request))
        fanin_await_completion(stream->context, stream->cq, target, timeout_ms);
}

/* ---- Questions ---- */

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

/* Ask about the oldest work requests of `request` that are under way. */
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

/* From the answers. What has ended meanwhile may lack one. Who the first incomplete segment waits for comes first. */
static void sum_up(const struct fanin_request *request, const struct inquiry *inquiry,
                   struct fanin_request_progress *progress)
{
    int exchanges = request->wanted.row != NULL; /* of the message itself nothing is known yet */

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
        advance(stream);
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
        advance(stream);
    }
    while (*link != &inquiry)
        link = &(*link)->next;
    *link = inquiry.next;
    sum_up(request, &inquiry, progress);
    pthread_mutex_unlock(&stream->lock);
    return status;
}
