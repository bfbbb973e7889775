/* Shared by stream.c, posting.c, completion.c, inquiry.c and ending.c. All of it is under the lock of the stream. */
#ifndef FANIN_STREAM_PARTS_H
#define FANIN_STREAM_PARTS_H
#include "collectives/stream.h"

#define MID_MASK ((1u << FANIN_MID_BITS) - 1)
#define MOST_TAKEN 128    /* requests that have ended for the program only: half a queue; the next one waits */
#define MOST_TAKEN_BYTES (4u << 20)
#define MOST_SILENT 16    /* of these requests one completion tells the end */
#define MARK (1ull << 63) /* in the wr_id of a mark, which has that of the request before it */
#define QUESTIONS 16      /* entries of the send queue that are kept free, so that a question always gets through */

/* Questions about work requests under way, one after the other, and their answers. */
struct inquiry {
    struct inquiry *next;         /* in its stream */
    uint64_t first_id;            /* wr_id of the first */
    uint32_t count, answered;     /* how many; which, a bit for each */
    struct fanin_cqe answers[QUESTIONS];
};

/* Take completions, post what has waited for room, and let the program go on with what is posted. */
void fanin_stream_step(struct stream *stream);

/* ending.c */
/* FANIN_SUCCESS: the device touches no memory any more on behalf of the queue pair. Else it may be called again: a
 * queue pair that is no more is not destroyed twice, only its results are waited for. Whoever calls it keeps the lock
 * until fanin_stream_fail: nothing may be posted to that number, which another queue pair may have been given. */
enum fanin_status fanin_stream_destroy_qp(struct stream *stream);
/* Nothing of a request is under way any more: it is its maker's. Frees it if nobody asks for it any more. */
void fanin_stream_finish(struct fanin_request *request, int spoiled);
/* Everything that is under way or waits ends: nothing will come any more. */
void fanin_stream_fail_requests(struct stream *stream, enum fanin_status status);
/* So does everything that is submitted later. */
void fanin_stream_fail(struct stream *stream, enum fanin_status status);

/* completion.c */
enum fanin_status fanin_stream_take_completions(struct stream *stream);

/* posting.c */
void fanin_stream_post_all(struct stream *stream);
/* Post a work request without positions, which ends when all before it have ended, if their end is not told else. */
void fanin_stream_post_mark(struct stream *stream);
/* Post a mark whose completion tells whether the job goes on. */
void fanin_stream_ask(struct stream *stream);
/* Where there is room again: the oldest that has waited for it, and those behind it that have been posted as a whole,
 * end for the program. */
void fanin_stream_take_over_held(struct stream *stream);
#endif
