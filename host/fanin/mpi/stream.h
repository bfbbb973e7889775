/* The collectives of one rank in one job, in order, from the program to the send queue and back: the C form of the host
 * library's stream.py.
 */
#ifndef FANIN_MPI_STREAM_H
#define FANIN_MPI_STREAM_H
#include "fanin.h"
#include <pthread.h>

/* The requests of one collective. Lives until it is done, and is then nobody's but its maker's. */
struct transfer {
    struct transfer *next;
    struct fanin_wqe *wqes;       /* `one`, or memory of its own */
    struct fanin_wqe one;
    uint32_t count, posted, taken;
    uint64_t first_id;
    int done;                     /* stored with release when all that follows is there */
    uint32_t status;              /* enum fanin_status: of the first request that failed */
    /* Whether the requests have only brought what is needed to make the others: called, under the stream's lock, to put
     * those in their place. Transfers behind this one wait, so that all ranks post in one order. NULL: no. */
    enum fanin_status (*expand)(struct transfer *transfer);
    /* Of a transfer whose requests take turns in a little memory, `window` at a time: called, under the stream's lock, for
     * each before it is posted (it returns what to post), and when it is complete. NULL: they are in `wqes`. */
    struct fanin_wqe *(*load)(struct transfer *transfer, uint32_t number);
    void (*store)(struct transfer *transfer, uint32_t number);
    uint32_t window;
};

struct stream {
    struct fanin_context *context;
    uint32_t qp, cq;
    struct fanin_cursor cursor;
    pthread_mutex_t lock;         /* of all that follows */
    uint64_t next_id;
    uint32_t outstanding;         /* requests in the queues */
    struct transfer *first, *last;
    struct transfer *posting;     /* the first that has not been posted as a whole */
    uint32_t ended;               /* enum fanin_status: why nothing is posted any more */
};

void fanin_stream_begin(struct stream *stream, struct fanin_context *context, uint32_t qp, uint32_t cq,
                        const struct fanin_join_reply *lease);
/* Take a transfer. It is posted now or when there is room; never blocks. */
void fanin_stream_submit(struct stream *stream, struct transfer *transfer);
/* Take completions and post what has waited for room. */
void fanin_stream_advance(struct stream *stream);
/* Post nothing any more: all that is under way, and all that is submitted later, ends with this status. */
void fanin_stream_end(struct stream *stream, enum fanin_status status);
/* Whether something waits to be posted: for room, or for sizes that are still exchanged. */
int fanin_stream_has_backlog(struct stream *stream);
/* Sleep until a completion may have come, at most `timeout_ms`. */
void fanin_stream_sleep(struct stream *stream, const struct transfer *transfer, uint32_t timeout_ms);

/* Whether nothing is posted any more. */
static inline int has_ended(const struct stream *stream)
{
    return __atomic_load_n(&stream->ended, __ATOMIC_ACQUIRE) != FANIN_SUCCESS;
}

static inline int is_done(const struct transfer *transfer)
{
    return __atomic_load_n(&transfer->done, __ATOMIC_ACQUIRE);
}
#endif
