/* The requests of one rank in one job, in order, from the program to the send queue and back. */
#ifndef FANIN_STREAM_H
#define FANIN_STREAM_H
#include "collectives/request.h"

struct stream {
    struct fanin_context *context; /* NULL: the connection is closed */
    uint32_t qp, cq;
    struct terms terms;
    void (*free_request)(struct fanin_request *); /* of one that nobody asks for any more, when it has ended */
    pthread_mutex_t lock;         /* of all that follows */
    struct fanin_cursor cursor;
    uint64_t next_id;
    uint32_t outstanding;         /* work requests in the queues */
    uint32_t seen;                /* completions taken so far, mod 2^32 */
    struct fanin_request *first, *last;
    struct fanin_request *posting; /* the first that has not been posted as a whole */
    uint32_t ended;               /* enum fanin_status: why nothing is posted any more */
    uint32_t qp_destroyed;        /* the device may give its number to another */
    uint32_t stopped;             /* nothing may be submitted any more */
    uint64_t submitted;           /* requests, ever */
    uint64_t posted;              /* the same, but for those after the end of the job */
    uint32_t taken_over;          /* requests that have ended for the program, and are still under way */
    uint64_t taken_bytes;         /* what they bring */
    uint32_t silent;              /* the last requests posted whose end the device does not tell */
    uint64_t last_silent;         /* wr_id of the last of them */
    struct fanin_request *held;   /* the oldest that will be such a request when half of them have ended */
    uint32_t unreported;          /* enum fanin_status: of the first of them that failed */
    uint32_t reported;            /* another request has failed as well, and tells the program of it */
    uint32_t asked;               /* a mark is under way that tells whether the job goes on */
    struct inquiry *inquiries;    /* how far requests are, under way */
    struct bounce_buffer *spoiled; /* buffers of failed requests, to which the device may still write */
    struct fanin_cqe end_of_job;  /* the completion that told of it; status SUCCESS: none has */
    uint64_t end_of_job_number;   /* of its request; 0: no request's */
};

/* Without the lock, as other threads may end or stop it at any time. */
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
/* Take a request, to be posted when there is room; never blocks. FANIN_PENDING: it is its maker's, to wait for and to
 * free, and may have failed already. FANIN_SUCCESS: the program waits for it, and it has ended for the program; the
 * stream frees it. FANIN_INVALID_REQUEST: the stream is stopped. */
enum fanin_status fanin_stream_submit(struct stream *stream, struct fanin_request *request);
/* Take completions and post what has waited for room. */
void fanin_stream_advance(struct stream *stream);
/* Submit nothing any more; what is under way goes on. */
void fanin_stream_stop(struct stream *stream);
/* Destroy the queue pair and post nothing any more: all that is under way, and all that is submitted later, ends with
 * `status`. FANIN_SUCCESS: the device touches no memory any more on behalf of the queue pair. */
enum fanin_status fanin_stream_end(struct stream *stream, enum fanin_status status);
int fanin_stream_has_backlog(struct stream *stream);
/* Whether nothing is under way. If the device has not told, it will, for a later call. */
int fanin_stream_is_drained(struct stream *stream);
/* Whether the job is known to have ended. If not, the device is asked, and a later call knows. It disturbs nobody. */
int fanin_stream_knows_end(struct stream *stream);
/* What has become of the requests that have ended for the program only. FANIN_PENDING: some are still under way. A
 * failure is told once. */
enum fanin_status fanin_stream_settled(struct stream *stream);
/* The program has been told of a failure. */
void fanin_stream_reported(struct stream *stream);
/* Sleep until a completion may have come, at most `timeout_ms`. */
void fanin_stream_sleep(struct stream *stream, const struct fanin_request *request, uint32_t timeout_ms);
/* How far a request is. */
enum fanin_status fanin_stream_query(struct stream *stream, struct fanin_request *request,
                                     struct fanin_request_progress *progress);
#endif
