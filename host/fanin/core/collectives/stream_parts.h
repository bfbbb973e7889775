/* Shared by stream.c, completion.c and query.c. Callers hold the stream's lock. */
#ifndef FANIN_STREAM_PARTS_H
#define FANIN_STREAM_PARTS_H
#include "collectives/stream.h"

#define MID_MASK ((1u << FANIN_MID_BITS) - 1)
#define MARKER (1ull << 63)   /* in the wr_id of a marker, beside that of the request before it */
#define QUERY_ENTRIES 16      /* entries of the send queue kept free for queries */

/* Questions about consecutive work requests under way, and their answers. */
struct query {
    struct query *next;           /* in its stream */
    uint64_t first_id;            /* wr_id of the first */
    uint32_t count, answered;     /* questions; bitmap of the answers */
    struct fanin_cqe answers[QUERY_ENTRIES];
};

/* ---- stream.c ---- */
/* Take completions, post what has waited for room, and end for the program what may end. */
void fanin_stream_step(struct stream *stream);

/* ---- completion.c ---- */
/* FANIN_SUCCESS: the device no longer touches memory on behalf of the queue pair. After any other status it may be
 * called again, to wait for the results. The caller keeps the lock until fanin_stream_fail, since the number may belong
 * to another queue pair now. */
enum fanin_status fanin_stream_destroy_qp(struct stream *stream);
/* End a request of which nothing is under way; frees a detached one. */
void fanin_stream_finish(struct fanin_request *request, int quarantined);
void fanin_stream_fail_requests(struct stream *stream, enum fanin_status status);
/* The same, also for everything that is submitted later. */
void fanin_stream_fail(struct stream *stream, enum fanin_status status);
enum fanin_status fanin_stream_take_completions(struct stream *stream);
#endif
