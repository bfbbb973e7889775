/* The requests of one rank in one job, in their order. */
#ifndef FANIN_STREAM_H
#define FANIN_STREAM_H
#include "collectives/request.h"

struct stream {
    struct fanin_context *context; /* NULL: the connection is closed */
    uint32_t qp, cq;
    struct job_params job_params;
    void (*free_request)(struct fanin_request *); /* called when a detached one has ended */
    pthread_mutex_t lock;         /* of all that follows */
    struct fanin_cursor cursor;
    uint64_t next_id;
    uint32_t outstanding;         /* work requests in the queues */
    uint32_t seen;                /* completions taken so far, mod 2^32 */
    struct fanin_request *first, *last;
    struct fanin_request *posting; /* the first that is not posted completely */
    uint32_t ended;               /* enum fanin_status: why nothing more is posted */
    uint32_t qp_destroyed;        /* its number may belong to another queue pair now */
    uint32_t stopped;             /* submits nothing more */
    uint64_t submitted;           /* requests, ever */
    uint64_t posted;              /* the same, without those after the end of the job */
    uint32_t locally_complete;    /* requests under way that have ended for the program */
    uint64_t locally_complete_bytes; /* what they bring */
    uint32_t unsignaled;          /* unsignaled requests posted since the last signaled one */
    uint64_t last_unsignaled;     /* wr_id of the last of them */
    struct fanin_request *throttled; /* the oldest that may end for the program when half of those have ended */
    uint32_t unreported;          /* enum fanin_status: of the first that failed after it had ended for the program */
    uint32_t reported;            /* another failed request has told the program */
    uint32_t asked;               /* a marker that tells whether the job goes on is under way */
    struct query *queries;        /* under way */
    struct bounce_buffer *quarantined; /* buffers of failed requests: the device may still write to them */
    struct fanin_cqe end_of_job;  /* its completion; status SUCCESS: none */
    uint64_t end_of_job_number;   /* of its request, or 0 */
};

/* Read without the lock, since other threads may end or stop the stream at any time. */
static inline int stream_has_ended(const struct stream *stream)
{
    return __atomic_load_n(&stream->ended, __ATOMIC_ACQUIRE) != 0;
}

static inline int stream_is_stopped(const struct stream *stream)
{
    return __atomic_load_n(&stream->stopped, __ATOMIC_ACQUIRE) != 0;
}

void fanin_stream_begin(struct stream *stream, struct fanin_context *context, uint32_t qp, uint32_t cq,
                        void (*free_request)(struct fanin_request *));
/* Take a request, to be posted when there is room; never blocks. FANIN_PENDING: the caller waits for it and frees it;
 * it may have failed already. FANIN_SUCCESS: a request with `waits` has ended for the program; the stream frees it.
 * FANIN_INVALID_REQUEST: the stream is stopped. */
enum fanin_status fanin_stream_submit(struct stream *stream, struct fanin_request *request);
void fanin_stream_advance(struct stream *stream);
/* Submit nothing more; what is under way goes on. */
void fanin_stream_stop(struct stream *stream);
/* Destroy the queue pair: all that is under way, and all that is submitted later, ends with `status`. FANIN_SUCCESS:
 * the device no longer touches memory on behalf of the queue pair. */
enum fanin_status fanin_stream_end(struct stream *stream, enum fanin_status status);
int fanin_stream_has_backlog(struct stream *stream);
/* Whether nothing is under way. If that is not known, asks the device, for a later call. */
int fanin_stream_is_drained(struct stream *stream);
/* Whether the job is known to have ended. If not, asks the device, for a later call; no other rank notices. */
int fanin_stream_knows_end(struct stream *stream);
/* The outcome of the requests that have ended for the program before they ended. FANIN_PENDING: some are under way. A
 * failure is reported once. */
enum fanin_status fanin_stream_flush(struct stream *stream);
/* Note that the program knows of a failure. */
void fanin_stream_reported(struct stream *stream);
/* Sleep until a completion may have come, at most `timeout_ms`. */
void fanin_stream_sleep(struct stream *stream, const struct fanin_request *request, uint32_t timeout_ms);
enum fanin_status fanin_stream_query(struct stream *stream, struct fanin_request *request,
                                     struct fanin_request_progress *progress);
#endif
