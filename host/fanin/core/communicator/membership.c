#include "communicator/communicator.h"
#include "complaint.h"
#include "geometry.h"
#include <stdlib.h>
#include <string.h>

#define GIVE_UP_MS 1000 /* for the device's answer; without it, the device sees the connection end */
#define NODE_BITS 64    /* of the node bitmap in a work request */
#define DRAIN_MS 1      /* between two looks at what is still under way */

/* Limited by this rank's device: a job whose devices differ must give the numbers. */
static void use_defaults(struct fanin_job *job, const struct fanin_context *context)
{
    if (!job->chunk) {
        job->chunk = DEFAULT_CHUNK;
        while (job->chunk > fanin_limits(context)->max_chunk && job->chunk > 256)
            job->chunk /= 2;
    }
    if (!job->slots)
        job->slots = DEFAULT_SLOTS;
}

enum fanin_status fanin_copy_job(struct fanin_communicator *communicator, const struct fanin_job *given)
{
    struct fanin_job job = *given;
    struct fanin_place *places = malloc(job.ranks * sizeof *places);

    if (!places)
        return FANIN_NO_RESOURCES;
    job.places = memcpy(places, given->places, job.ranks * sizeof *places);
    free((void *)communicator->job.places);
    communicator->job = job;
    return FANIN_SUCCESS;
}

static enum fanin_status make_queues(struct fanin_communicator *communicator)
{
    struct stream *stream = &communicator->stream;
    enum fanin_status status = fanin_create_cq(stream->context, &stream->cq);

    if (status != FANIN_SUCCESS)
        return status;
    status = fanin_create_qp(stream->context, stream->cq, &stream->qp);
    if (status != FANIN_SUCCESS)
        fanin_destroy_cq(stream->context, stream->cq);
    communicator->has_queues = status == FANIN_SUCCESS;
    return status;
}

/* Destroy everything except the memory that requests refer to. */
static enum fanin_status destroy(struct fanin_communicator *communicator)
{
    struct stream *stream = &communicator->stream;
    enum fanin_status status = FANIN_SUCCESS;

    if (communicator->membership)
        fanin_forget_membership(communicator->membership);
    communicator->membership = NULL;
    if (communicator->has_queues)
        status = fanin_stream_end(stream, FANIN_FLUSHED);
    if (communicator->has_queues && stream->context && status == FANIN_SUCCESS) {
        fanin_return_quarantined(stream);
        fanin_destroy_cq(stream->context, stream->cq);
    }
    fanin_release(communicator);
    return status;
}

struct fanin_communicator *fanin_new_communicator(struct fanin_context *context)
{
    struct fanin_communicator *communicator = calloc(1, sizeof *communicator);

    if (!communicator)
        return NULL;
    communicator->references = 1;
    fanin_stream_begin(&communicator->stream, context, 0, 0, fanin_free_request);
    fanin_register_communicator(communicator);
    return communicator;
}

enum fanin_status fanin_start_join(struct fanin_communicator *communicator, const struct fanin_job *given,
                                   uint32_t rank)
{
    struct fanin_context *context = communicator->stream.context;
    struct fanin_job job = *given;
    enum fanin_status status;

    use_defaults(&job, context);
    status = fanin_describe(&job, rank, &communicator->join);
    if (status == FANIN_SUCCESS)
        status = fanin_copy_job(communicator, &job);
    if (status == FANIN_SUCCESS)
        status = make_queues(communicator);
    if (status != FANIN_SUCCESS)
        return status;
    communicator->stream.job_params = (struct job_params){.rank = rank, .ranks = job.ranks};
    communicator->join.qp = communicator->stream.qp;
    return fanin_join_qp(context, &communicator->join, &communicator->membership);
}

enum fanin_status fanin_begin_join(struct fanin_context *context, const struct fanin_job *job, uint32_t rank,
                                   struct fanin_communicator **begun)
{
    struct fanin_communicator *communicator;
    enum fanin_status status;

    fanin_forget_complaint();
    if (!context)
        return fanin_complain("the device has been closed");
    communicator = fanin_new_communicator(context);
    if (!communicator)
        return FANIN_NO_RESOURCES;
    status = fanin_start_join(communicator, job, rank);
    if (status == FANIN_SUCCESS)
        *begun = communicator;
    else
        destroy(communicator);
    return status;
}

static void take_lease(struct fanin_communicator *communicator)
{
    const struct fanin_join *join = &communicator->join;
    struct stream *stream = &communicator->stream;
    uint32_t nodes = join->node_count < NODE_BITS ? join->node_count : NODE_BITS;

    stream->cursor.slots = communicator->lease.slots;
    stream->job_params = (struct job_params){
        .jid = join->jid, .chunk = communicator->lease.chunk, .route = join->route,
        .wide = (join->flags & (FANIN_JOB_WIDE | FANIN_JOB_REPRODUCIBLE_SHAPE)) != 0,
        .rank = stream->job_params.rank, .ranks = stream->job_params.ranks, .node_bitmap = ~0ull >> (NODE_BITS - nodes),
        .rank_bitmap = join->rank_bitmap};
}

enum fanin_status fanin_await_lease(struct fanin_communicator *communicator, struct fanin_join_reply *reply,
                                    uint32_t timeout_ms)
{
    enum fanin_status status;

    fanin_forget_complaint();
    memset(reply, 0, sizeof *reply);
    if (!communicator->membership || has_joined(communicator))
        return fanin_complain("no join is under way");
    status = fanin_await_membership(communicator->membership, reply, timeout_ms);
    if (communicator->join_by && status == FANIN_PENDING && fanin_now_ms() >= communicator->join_by)
        status = FANIN_TIMEOUT;
    if (communicator->join_by && status == FANIN_TIMEOUT)
        fanin_complain("a survivor has not joined the new job in time: it is lost, or does not know of the job");
    if (status != FANIN_SUCCESS)
        return status;
    fanin_forget_membership(communicator->membership);
    communicator->membership = NULL;
    communicator->lease = *reply;
    if (!communicator->lease.chunk)
        communicator->lease.chunk = communicator->join.chunk;
    take_lease(communicator);
    __atomic_store_n(&communicator->has_joined, 1, __ATOMIC_RELEASE);
    return FANIN_SUCCESS;
}

static enum fanin_status send_leave(struct fanin_communicator *communicator)
{
    if (communicator->membership)
        fanin_forget_membership(communicator->membership);
    communicator->membership = NULL;
    return fanin_leave_qp(communicator->stream.context, communicator->stream.qp, &communicator->membership);
}

static enum fanin_status leave_job(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    struct fanin_join_reply reply;
    enum fanin_status status = send_leave(communicator);

    return status == FANIN_SUCCESS ? fanin_await_membership(communicator->membership, &reply, timeout_ms) : status;
}

void fanin_leave_job(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    fanin_stream_stop(&communicator->stream);
    leave_job(communicator, timeout_ms);
}

static void wait_a_moment(const struct stream *stream)
{
    fanin_wait_cq(stream->context, stream->cq, __atomic_load_n(&stream->seen, __ATOMIC_ACQUIRE), DRAIN_MS);
    fanin_progress();
}

enum fanin_status fanin_flush(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    uint64_t deadline = fanin_now_ms() + timeout_ms;
    enum fanin_status status;

    if (!has_joined(communicator) || !communicator->stream.context)
        return FANIN_SUCCESS;
    while ((status = fanin_stream_flush(&communicator->stream)) == FANIN_PENDING && fanin_now_ms() < deadline)
        wait_a_moment(&communicator->stream);
    return status;
}

enum fanin_status fanin_leave(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    uint64_t deadline = fanin_now_ms() + timeout_ms, now;

    fanin_stream_advance(&communicator->stream);
    fanin_stream_stop(&communicator->stream);
    fanin_flush(communicator, timeout_ms);
    now = fanin_now_ms();
    if (!stream_has_ended(&communicator->stream))
        leave_job(communicator, deadline > now ? (uint32_t)(deadline - now) : 0);
    return destroy(communicator);
}

/* A JOIN under way is cancelled, so that the other members learn who is missing, not that this one left. */
enum fanin_status fanin_withdraw(struct fanin_communicator *communicator)
{
    fanin_stream_stop(&communicator->stream);
    if (!has_joined(communicator) && communicator->membership)
        leave_job(communicator, GIVE_UP_MS);
    return destroy(communicator);
}

void fanin_begin_leave(struct fanin_communicator *communicator)
{
    fanin_stream_stop(&communicator->stream);
}

/* Wait for the end of what is under way, since the device writes to the program's memory. */
static enum fanin_status drain(struct fanin_communicator *communicator, uint64_t deadline)
{
    struct stream *stream = &communicator->stream;

    for (;;) {
        fanin_stream_advance(stream);
        if (fanin_stream_is_drained(stream))
            return FANIN_SUCCESS;
        if (fanin_now_ms() >= deadline)
            return FANIN_PENDING;
        wait_a_moment(stream);
    }
}

enum fanin_status fanin_finish_leave(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    uint64_t deadline = fanin_now_ms() + timeout_ms, now;
    struct fanin_join_reply reply;

    if (drain(communicator, deadline) == FANIN_PENDING)
        return FANIN_PENDING;
    if (!stream_has_ended(&communicator->stream)) {
        enum fanin_status status = communicator->membership ? FANIN_SUCCESS : send_leave(communicator);
        now = fanin_now_ms();
        if (status == FANIN_SUCCESS)
            status = fanin_await_membership(communicator->membership, &reply,
                                            deadline > now ? (uint32_t)(deadline - now) : 0);
        if (status == FANIN_PENDING)
            return status;
    }
    return destroy(communicator);
}

void fanin_end_job(struct fanin_communicator *communicator, enum fanin_status status)
{
    fanin_stream_end(&communicator->stream, status);
}

uint32_t fanin_rank(const struct fanin_communicator *communicator)
{
    return communicator->stream.job_params.rank;
}

uint32_t fanin_size(const struct fanin_communicator *communicator)
{
    return communicator->stream.job_params.ranks;
}

const struct fanin_job *fanin_job_of(const struct fanin_communicator *communicator)
{
    return &communicator->job;
}

void fanin_name_path_of(const struct fanin_communicator *communicator, char *words, size_t capacity)
{
    const struct fanin_context *context = communicator->stream.context;
    uint32_t chunk = communicator->lease.chunk ? communicator->lease.chunk : communicator->job.chunk;
    uint32_t mtu = context ? fanin_limits(context)->mtu : 0;

    fanin_name_path(&communicator->job, fanin_rank(communicator), chunk, mtu, words, capacity);
}

int fanin_has_backlog(struct fanin_communicator *communicator)
{
    return fanin_stream_has_backlog(&communicator->stream);
}

void fanin_communicator_state(struct fanin_communicator *communicator, struct fanin_communicator_state *state)
{
    struct stream *stream = &communicator->stream;

    fanin_stream_is_drained(stream);
    pthread_mutex_lock(&stream->lock);
    *state = (struct fanin_communicator_state){
        .jid = communicator->join.jid, .slots = communicator->lease.slots, .window = communicator->lease.window,
        .chunk = communicator->lease.chunk, .qp = stream->qp, .cq = stream->cq, .posted = stream->posted,
        .ended = stream->end_of_job, .ended_number = stream->end_of_job_number};
    for (const struct fanin_request *request = stream->first; request; request = request->next) {
        if (request->posted)
            state->outstanding++;
        else
            state->backlog++;
    }
    pthread_mutex_unlock(&stream->lock);
}
