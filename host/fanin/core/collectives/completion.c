/* Completions become ends of requests, and what a request held is given back.
 * Record 0058 (docs/decisions): which requests end for the program before they end. */
#include "collectives/stream_parts.h"

#define BATCH 32 /* completions taken at once */

/* A failure is told by the request itself, or, if that has ended for the program, by a later one or a flush. */
static void report(struct stream *stream, const struct fanin_request *request)
{
    int tells = !request->locally_complete && !request->detached;

    if (tells && stream->end_of_job.status != FANIN_SUCCESS)
        stream->reported = 1;
    if (stream->reported)
        stream->unreported = FANIN_SUCCESS;
    else if (!tells && stream->unreported == FANIN_SUCCESS)
        stream->unreported = request->status;
}

void fanin_stream_finish(struct fanin_request *request, int quarantined)
{
    struct stream *stream = request->stream;

    if (stream->throttled == request)
        stream->throttled = NULL;
    fanin_request_release(request, quarantined);
    if (request->locally_complete) {
        stream->locally_complete--;
        stream->locally_complete_bytes -= request->source.length;
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

void fanin_stream_fail_requests(struct stream *stream, enum fanin_status status)
{
    struct fanin_request *request = stream->first;

    if (stream->end_of_job.status == FANIN_SUCCESS)
        stream->end_of_job = (struct fanin_cqe){.status = (uint8_t)status, .jid = stream->job_params.jid};
    stream->first = stream->last = stream->posting = NULL;
    stream->outstanding = 0;
    while (request) {
        struct fanin_request *next = request->next;
        int quarantined = request->posted > request->taken || request->status != FANIN_SUCCESS;
        if (request->status == FANIN_SUCCESS)
            request->status = status;
        fanin_stream_finish(request, quarantined);
        request = next;
    }
}

void fanin_stream_fail(struct stream *stream, enum fanin_status status)
{
    __atomic_store_n(&stream->ended, status, __ATOMIC_RELEASE);
    fanin_stream_fail_requests(stream, status);
}

enum fanin_status fanin_stream_destroy_qp(struct stream *stream)
{
    enum fanin_status status;

    if (stream->qp_destroyed)
        status = fanin_await_results(stream->context, fanin_request_timeout_ms(stream->context));
    else
        status = fanin_destroy_qp(stream->context, stream->qp);
    stream->qp_destroyed |= status == FANIN_SUCCESS || status == FANIN_PENDING;
    if (status == FANIN_DEVICE_LOST && !fanin_device_stands_still(stream->context))
        return FANIN_SUCCESS; /* a device that has ended writes nothing */
    return status == FANIN_PENDING ? FANIN_TIMEOUT : status;
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

/* Whether the device may still write to the memory of a request that has all its completions. After a protection error
 * it does not, if the job goes on: then the positions are done. */
static int may_be_written(const struct stream *stream, const struct fanin_request *request)
{
    int is_done = request->status == FANIN_SUCCESS ||
                  (request->status == FANIN_LOCAL_PROTECTION_ERROR && !stream->ended);

    return !is_done && !request->mismatch;
}

/* A request has all its completions. If they brought the sizes only, the message itself begins. */
static void end_request(struct stream *stream, struct fanin_request *request)
{
    if (request->wanted.row && request->status == FANIN_SUCCESS) {
        enum fanin_status status = fanin_request_expand(request);
        if (status != FANIN_SUCCESS) { /* so that no rank waits for what is never posted here */
            fanin_stream_destroy_qp(stream);
            fanin_stream_fail(stream, status);
        }
        return;
    }
    if (request->mismatch && request->status == FANIN_SUCCESS)
        request->status = FANIN_OP_MISMATCH;
    unlink_request(stream, request);
    fanin_stream_finish(request, may_be_written(stream, request));
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
    for (struct query *query = stream->queries; query; query = query->next) {
        uint64_t number = cqe->wr_id - query->first_id;
        if (number < query->count) {
            query->answers[number] = *cqe;
            query->answered |= 1u << number;
        }
    }
}

static int ends_the_job(uint32_t status)
{
    return status == FANIN_PEER_LOST || status == FANIN_TIMEOUT || status == FANIN_OP_MISMATCH ||
           status == FANIN_ABORTED || status == FANIN_CQ_OVERRUN || status == FANIN_PATH_MTU;
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

/* Requests end in order, so unsignaled ones before this one have ended well: a failure always has a completion. */
static void complete_unsignaled(struct stream *stream, const struct fanin_request *end)
{
    while (stream->first != end) {
        struct fanin_request *request = stream->first;
        stream->outstanding -= request->posted - request->taken;
        request->taken = request->posted;
        end_request(stream, request);
    }
}

static void complete_marker(struct stream *stream, const struct fanin_cqe *cqe)
{
    const struct fanin_request *last = request_of(stream, cqe->wr_id & ~MARKER);

    stream->asked = 0;
    if (last)
        complete_unsignaled(stream, last->next);
    if (stream->end_of_job.status == FANIN_SUCCESS && ends_the_job(cqe->status))
        stream->end_of_job = *cqe;
}

static void complete(struct stream *stream, const struct fanin_cqe *cqe)
{
    struct fanin_request *request = cqe->opcode == FANIN_WQE_COLLECTIVE ? request_of(stream, cqe->wr_id) : NULL;
    uint32_t taken;

    if (cqe->opcode == FANIN_WQE_QUERY)
        answer(stream, cqe);
    if (cqe->opcode == FANIN_WQE_COLLECTIVE && cqe->wr_id & MARKER)
        complete_marker(stream, cqe);
    if (!request)
        return;
    complete_unsignaled(stream, request);
    taken = (uint32_t)(cqe->wr_id - request->first_id) + 1;
    if (cqe->status != FANIN_SUCCESS)
        note_failure(stream, request, cqe);
    for (; request->taken < taken; request->taken++) {
        stream->outstanding--;
        if (request->status == FANIN_SUCCESS)
            fanin_request_store(request, request->taken);
    }
    if (request->taken == request->count)
        end_request(stream, request);
}

enum fanin_status fanin_stream_take_completions(struct stream *stream)
{
    struct fanin_cqe cqes[BATCH];
    enum fanin_status status;
    uint32_t count, seen = stream->seen; /* remains so if the queue is gone */

    do {
        status = fanin_poll_owned(stream->context, stream->cq, cqes, BATCH, &count, &seen);
        for (uint32_t i = 0; i < count; i++)
            complete(stream, &cqes[i]);
        __atomic_store_n(&stream->seen, seen, __ATOMIC_RELEASE); /* publishes what has ended */
    } while (count == BATCH);
    return status;
}
