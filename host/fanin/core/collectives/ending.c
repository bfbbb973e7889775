#include "collectives/stream_parts.h"

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
