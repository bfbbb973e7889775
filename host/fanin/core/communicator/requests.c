/* Calls of a communicator: a request is made, submitted, and waited for; short forms for common calls.
 * Record 0040 (docs/decisions) says why in C. */
#include "communicator/communicator.h"
#include "complaint.h"
#include "job/naming.h"
#include <stdlib.h>

#define NOT_UNDER_WAY "the request has not been started, or its device has been closed"
#define MAX_TRIES 4               /* unused requests that are searched for the same shape */
#define MAX_UNUSED FANIN_SQ_DEPTH /* as many as can be under way */
#define WAIT_MS 60000             /* one round of a wait without limit */
#define BACKLOG_POLL_MS 2         /* between looks at the other communicators, while one of them waits for room */

/* ---- Unused requests ---- */

static void push(struct fanin_communicator *communicator, struct fanin_request *first, struct fanin_request *last)
{
    struct fanin_request *top = __atomic_load_n(&communicator->unused, __ATOMIC_RELAXED);

    do
        last->next = top;
    while (!__atomic_compare_exchange_n(&communicator->unused, &top, first, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static struct fanin_request *last_of(struct fanin_request *request)
{
    while (request->next)
        request = request->next;
    return request;
}

/* An unused request, if possible of the same shape, since programs repeat a few calls. Takes the whole stack, so that
 * no other thread changes it, and puts the rest back. */
static struct fanin_request *new_request(struct fanin_communicator *communicator,
                                         const struct fanin_operation *operation, int waits)
{
    struct fanin_request *stack = __atomic_exchange_n(&communicator->unused, NULL, __ATOMIC_ACQUIRE);
    struct fanin_request **link = &stack, *request, *empty = NULL;

    if (!stack)
        return calloc(1, sizeof *stack);
    for (int tries = 0; tries < MAX_TRIES && *link && !fanin_request_fits(*link, operation, waits); tries++)
        link = &(*link)->next;
    if (!*link)
        link = &stack;
    request = *link;
    *link = request->next;
    __atomic_sub_fetch(&communicator->unused_count, 1, __ATOMIC_RELAXED);
    if (stack && !__atomic_compare_exchange_n(&communicator->unused, &empty, stack, 0, __ATOMIC_RELEASE,
                                              __ATOMIC_RELAXED))
        push(communicator, stack, last_of(stack));
    return request;
}

void fanin_free_request(struct fanin_request *request)
{
    struct fanin_communicator *communicator = communicator_of(request);

    if (__atomic_load_n(&communicator->unused_count, __ATOMIC_RELAXED) >= MAX_UNUSED) {
        free(request);
    } else {
        __atomic_add_fetch(&communicator->unused_count, 1, __ATOMIC_RELAXED);
        push(communicator, request, request);
    }
    fanin_release(communicator);
}

/* ---- Start ---- */

static enum fanin_status make(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                              int waits, struct fanin_request **made)
{
    enum fanin_status status;
    struct fanin_request *request;

    if (!has_joined(communicator) || stream_is_stopped(&communicator->stream) || !communicator->stream.context) {
        fanin_complain("the job has not been joined, or is being left");
        return FANIN_INVALID_REQUEST;
    }
    request = new_request(communicator, operation, waits);
    if (!request)
        return FANIN_NO_RESOURCES;
    status = fanin_request_begin(request, &communicator->stream, operation, waits);
    fanin_hold(communicator);
    if (status == FANIN_SUCCESS)
        *made = request;
    else
        fanin_free_request(request);
    return status;
}

/* `started` becomes NULL if the program need not wait. */
static enum fanin_status start(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                               int waits, struct fanin_request **started)
{
    struct fanin_request *request;
    enum fanin_status status = make(communicator, operation, waits, &request);

    if (status != FANIN_SUCCESS)
        return status;
    request->started = 1;
    status = fanin_stream_submit(&communicator->stream, request);
    if (status == FANIN_PENDING) {
        *started = request;
        return FANIN_SUCCESS;
    }
    *started = NULL;
    if (status == FANIN_SUCCESS)
        return status;
    fanin_request_destroy(request);
    fanin_free_request(request);
    return status;
}

enum fanin_status fanin_start(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                              struct fanin_request **request)
{
    return start(communicator, operation, 0, request);
}

enum fanin_status fanin_prepare(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                                struct fanin_request **request)
{
    enum fanin_status status;

    if (operation->flags & FANIN_EXCHANGE_SIZES) {
        fanin_complain("a persistent request can not exchange sizes; give them on all ranks");
        return FANIN_NOT_SUPPORTED;
    }
    status = make(communicator, operation, 0, request);
    if (status == FANIN_SUCCESS) {
        (*request)->persistent = 1;
        fanin_request_idle(*request);
    }
    return status;
}

enum fanin_status fanin_restart(struct fanin_request *request)
{
    enum fanin_status status;

    if (!request->persistent || !request->stream->context) {
        fanin_complain("the request is not persistent, or its device has been closed");
        return FANIN_INVALID_REQUEST;
    }
    if (request->started && !is_done(request))
        fanin_stream_advance(request->stream);
    if (request->started && !is_done(request)) {
        fanin_complain("the last start of the request is still under way");
        return FANIN_INVALID_REQUEST;
    }
    status = fanin_request_reset(request);
    request->started = 1;
    if (status == FANIN_SUCCESS)
        status = fanin_stream_submit(request->stream, request);
    if (status == FANIN_PENDING)
        return FANIN_SUCCESS;
    request->status = status;
    __atomic_store_n(&request->done, 1, __ATOMIC_RELEASE);
    return status;
}

/* ---- Wait ---- */

static enum fanin_status outcome(const struct fanin_request *request)
{
    if (!is_done(request))
        return has_ended(request) ? FANIN_SUCCESS : FANIN_PENDING;
    if (request->failure.status != FANIN_SUCCESS)
        fanin_complain_of(&communicator_of(request)->job, request->stream->job_params.rank, &request->failure);
    return request->status;
}

enum fanin_status fanin_test(struct fanin_request *request)
{
    if (!request->started || (!has_ended(request) && !request->stream->context))
        return fanin_complain(NOT_UNDER_WAY);
    if (!has_ended(request))
        fanin_stream_advance(request->stream);
    return outcome(request);
}

static uint32_t slice_of(struct fanin_request *request, uint64_t left)
{
    uint64_t slice = fanin_others_have_backlog(communicator_of(request)) ? BACKLOG_POLL_MS : FANIN_SLICE_MS;

    return (uint32_t)(slice < left ? slice : left);
}

enum fanin_status fanin_wait(struct fanin_request *request, uint32_t timeout_ms)
{
    struct stream *stream = request->stream;
    uint64_t deadline, now;

    if (!request->started || (!has_ended(request) && !stream->context))
        return fanin_complain(NOT_UNDER_WAY);
    if (has_ended(request))
        return outcome(request);
    /* Most requests end at once, without a look at other communicators. */
    fanin_stream_sleep(stream, request, timeout_ms ? 1 : 0);
    fanin_stream_advance(stream);
    if (has_ended(request))
        return outcome(request);
    now = fanin_now_ms();
    deadline = now + timeout_ms;
    while (!has_ended(request) && now < deadline) {
        fanin_stream_sleep(stream, request, slice_of(request, deadline - now));
        fanin_progress();
        now = fanin_now_ms();
    }
    return outcome(request);
}

enum fanin_status fanin_call(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                             uint32_t timeout_ms, struct fanin_request **request)
{
    struct fanin_request *started;
    enum fanin_status status = start(communicator, operation, 1, &started);

    if (request)
        *request = NULL;
    if (status != FANIN_SUCCESS || !started)
        return status;
    do
        status = fanin_wait(started, request ? timeout_ms : WAIT_MS);
    while (status == FANIN_PENDING && !request);
    if (request && status != FANIN_SUCCESS)
        *request = started;
    else
        fanin_free(started);
    return status;
}

/* ---- Progress, failure, result, end ---- */

enum fanin_status fanin_query(struct fanin_request *request, struct fanin_request_progress *progress)
{
    if (!request->started || (!is_done(request) && !request->stream->context))
        return fanin_complain(NOT_UNDER_WAY);
    return fanin_stream_query(request->stream, request, progress);
}

void fanin_failure(const struct fanin_request *request, struct fanin_cqe *cqe)
{
    *cqe = request->failure;
    cqe->status = (uint8_t)request->status;
    if (request->locally_complete && request->status != FANIN_SUCCESS)
        fanin_stream_reported(request->stream);
}

uint64_t fanin_number(const struct fanin_request *request)
{
    return request->number;
}

void fanin_result(const struct fanin_request *request, void **address, uint64_t *length, const uint64_t **sizes)
{
    const struct side *destination = &request->destination;

    *address = destination->memory ? destination->memory
               : destination->buffer ? destination->buffer->address : NULL;
    *length = destination->length;
    *sizes = request->message.sizes;
}

void fanin_free(struct fanin_request *request)
{
    struct stream *stream;

    if (!request)
        return;
    stream = request->stream;
    if (request->started && !is_done(request) && stream->context) {
        int detached;
        pthread_mutex_lock(&stream->lock);
        detached = request->detached = !is_done(request);
        pthread_mutex_unlock(&stream->lock);
        if (detached)
            return; /* freed where it ends, perhaps already */
    }
    fanin_request_destroy(request);
    fanin_free_request(request);
}

uint64_t fanin_segments_of(struct fanin_communicator *communicator, const struct fanin_operation *operation)
{
    const struct job_params *job_params = &communicator->stream.job_params;
    struct run run = {0};
    uint64_t segments = 0;
    struct message message;

    if (!has_joined(communicator) || operation->flags & FANIN_EXCHANGE_SIZES ||
        fanin_request_check(job_params, operation) != FANIN_SUCCESS)
        return 0;
    fanin_make_message(job_params, operation, &message);
    fanin_use_sizes(&message, message.row->divided ? operation->sizes : NULL);
    while (fanin_next_run(&message, job_params->rank, &run))
        segments += fanin_count_positions(job_params, &message, &run);
    return segments;
}

/* ---- Short forms: blocking collectives of equal parts, without time limits ---- */

static enum fanin_status computed(struct fanin_communicator *communicator, enum fanin_collective collective,
                                  const void *source, void *destination, uint64_t count, enum fanin_dtype dtype,
                                  enum fanin_op op, uint32_t root)
{
    struct fanin_operation operation = {.collective = collective, .root = root, .op = op, .dtype = dtype,
                                        .flags = FANIN_ALL_BLOCK, .source = source, .destination = destination};

    if (__builtin_mul_overflow(count, fanin_dtype_bytes(dtype), &operation.block)) {
        fanin_complain("%llu elements have more than 2^64 - 1 bytes", (unsigned long long)count);
        return FANIN_INVALID_REQUEST;
    }
    return fanin_call(communicator, &operation, 0, NULL);
}

static enum fanin_status moved(struct fanin_communicator *communicator, enum fanin_collective collective,
                               const void *source, void *destination, uint64_t length, uint32_t root)
{
    struct fanin_operation operation = {.collective = collective, .root = root, .flags = FANIN_ALL_BLOCK,
                                        .block = length, .source = source, .destination = destination};

    return fanin_call(communicator, &operation, 0, NULL);
}

enum fanin_status fanin_allreduce(struct fanin_communicator *communicator, const void *source, void *destination,
                                  uint64_t count, enum fanin_dtype dtype, enum fanin_op op)
{
    return computed(communicator, FANIN_ALLREDUCE, source, destination, count, dtype, op, 0);
}

enum fanin_status fanin_reduce(struct fanin_communicator *communicator, const void *source, void *destination,
                               uint64_t count, enum fanin_dtype dtype, enum fanin_op op, uint32_t root)
{
    return computed(communicator, FANIN_REDUCE, source, destination, count, dtype, op, root);
}

enum fanin_status fanin_reduce_scatter(struct fanin_communicator *communicator, const void *source, void *destination,
                                       uint64_t count, enum fanin_dtype dtype, enum fanin_op op)
{
    return computed(communicator, FANIN_REDUCE_SCATTER, source, destination, count, dtype, op, 0);
}

enum fanin_status fanin_broadcast(struct fanin_communicator *communicator, void *memory, uint64_t length,
                                  uint32_t root)
{
    return moved(communicator, FANIN_BROADCAST, memory, memory, length, root);
}

enum fanin_status fanin_allgather(struct fanin_communicator *communicator, const void *source, void *destination,
                                  uint64_t length)
{
    return moved(communicator, FANIN_ALLGATHER, source, destination, length, 0);
}

enum fanin_status fanin_gather(struct fanin_communicator *communicator, const void *source, void *destination,
                               uint64_t length, uint32_t root)
{
    return moved(communicator, FANIN_GATHER, source, destination, length, root);
}

enum fanin_status fanin_scatter(struct fanin_communicator *communicator, const void *source, void *destination,
                                uint64_t length, uint32_t root)
{
    return moved(communicator, FANIN_SCATTER, source, destination, length, root);
}

enum fanin_status fanin_barrier(struct fanin_communicator *communicator)
{
    return moved(communicator, FANIN_BARRIER, NULL, NULL, 0, 0);
}
