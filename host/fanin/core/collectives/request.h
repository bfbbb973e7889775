/* A collective under way, from the program's call to its end. */
#ifndef FANIN_REQUEST_H
#define FANIN_REQUEST_H
#include "collectives/plan.h"
#include "memory/bounce_buffers.h"

struct stream;

enum { WINDOW = 4 };

enum transfer_mode {
    MODE_NONE,                 /* the rank brings (wants) nothing */
    MODE_DIRECT,               /* the device reads (writes) the program's memory */
    MODE_BOUNCED,              /* a bounce buffer stands in for all of it */
    MODE_PIPELINED,            /* bounce buffers stand in for the parts under way */
    MODE_OPEN                  /* of a result that may be here already: decided when it is posted */
};

struct side {
    enum transfer_mode mode;
    uint8_t *memory;          /* the program's, without gaps */
    uint64_t length;          /* bytes that the rank brings (wants) */
    struct bounce_buffer *buffer; /* if MODE_BOUNCED; or of the sizes, during their exchange */
    uint64_t address;         /* for the device, unless MODE_PIPELINED */
    uint32_t lkey;
};

/* The fields before `source` depend on the operation but not on its memory, so the next operation of the same shape
 * reuses them. */
struct fanin_request {
    struct fanin_request *next;   /* in its stream, or among the unused ones */
    struct stream *stream;        /* lives as long as its requests */
    struct fanin_operation operation; /* it was made from this; without the memory */
    uint8_t is_shaped;            /* reusable by an operation of the same shape */
    uint8_t waits;                /* the program blocks until it has ended */
    uint8_t has_draft;            /* `draft` and `draft_run` are valid: its only work request, without memory */
    struct message message;
    uint32_t flags;               /* enum fanin_operation_flags */
    uint32_t tag;
    uint32_t agreement;
    uint32_t timeout_ms;          /* of the operation; 0: none */
    uint32_t count;               /* of its work requests */
    struct run draft_run;
    struct fanin_wqe draft;

    /* All zero from here on when a request begins. */
    struct side source, destination;
    uint64_t *sizes;              /* of the blocks, if they may differ; during an exchange, as expected here */
    uint64_t number;              /* in its stream, from 0; equal on all ranks */
    uint64_t deadline_ms;         /* set when its first part is posted */
    uint32_t posted, taken;       /* of its work requests */
    uint64_t first_id;            /* wr_id of the first; the others follow it */
    uint32_t first_mid;           /* message number of the first; likewise */
    struct run run;               /* the last one posted */

    struct bounce_buffer *window[WINDOW]; /* if MODE_PIPELINED: used in turn by the parts */
    uint32_t window_length;

    struct message wanted;        /* the message itself, during an exchange of sizes, with `block` as given here;
                                   * otherwise its row is NULL */
    uint8_t arrived;              /* the result came before the request was posted, and is in place */
    uint8_t mismatch;             /* the sizes exchanged differ from those expected here */

    uint8_t persistent, started, detached;
    uint32_t locally_complete;    /* stored with release: it wants nothing and its data have been taken, so for the
                                   * program it has ended */
    uint32_t done;                /* stored with release, last of all */
    uint32_t status;              /* enum fanin_status: of the first work request that failed */
    struct fanin_cqe failure;     /* its completion */
};

/* ---- prepare.c ---- */
/* Make the message and its memory from an operation. `request` is zero, or was destroyed, and may be reused then.
 * FANIN_INVALID_REQUEST: the operation makes no sense. */
enum fanin_status fanin_request_begin(struct fanin_request *request, struct stream *stream,
                                      const struct fanin_operation *operation, int waits);
/* The message of an operation, as if all its blocks had `block` bytes. */
void fanin_make_message(const struct job_params *job_params, const struct fanin_operation *operation,
                        struct message *message);
/* Make the message itself, after the exchange of sizes. */
enum fanin_status fanin_request_expand(struct fanin_request *request);
enum fanin_status fanin_request_check(const struct job_params *job_params, const struct fanin_operation *operation);
/* Choose how the device brings a result that has not arrived early. */
void fanin_request_choose_mode(struct fanin_request *request, struct fanin_wqe *wqe);
/* Give back the bounce buffers until the next start. */
void fanin_request_idle(struct fanin_request *request);
/* Whether it was made from an operation of the same shape. */
int fanin_request_fits(const struct fanin_request *request, const struct fanin_operation *operation, int waits);
enum fanin_status fanin_request_reset(struct fanin_request *request);
/* Give back the bounce buffers, except one with a result for the program. quarantined: the device may still write to
 * them, so the stream keeps them until the device has left the job. The caller holds the stream's lock. */
void fanin_request_release(struct fanin_request *request, int quarantined);
/* Give back the buffers that the stream keeps, after the device has left the job. */
void fanin_return_quarantined(struct stream *stream);
/* Free everything of a request that has ended, or was never started. */
void fanin_request_destroy(struct fanin_request *request);

/* ---- transfer.c ---- */
/* Write the next work request, and put its data where the device finds them; `run` is that of the request before, and
 * becomes the new one. Returns 0 while the bounce buffer is still in use. */
int fanin_request_load(struct fanin_request *request, struct run *run, struct fanin_wqe *wqe);
/* Where to put a message that may have arrived before its only work request is posted; NULL: it can not have. */
void *fanin_request_landing(const struct fanin_request *request, const struct fanin_wqe *wqe);
/* Copy the result of the complete work request `number` to its place. */
void fanin_request_store(struct fanin_request *request, uint32_t number);
/* Whether the rank wants nothing, and the device needs none of the program's memory once all is posted. */
int fanin_request_is_one_way(const struct fanin_request *request);
/* Whether the host must copy results from a bounce buffer to their place. */
int fanin_request_copies_results(const struct fanin_request *request);

static inline int is_done(const struct fanin_request *request)
{
    return __atomic_load_n(&request->done, __ATOMIC_ACQUIRE) != 0;
}

/* Has ended for the program, which may use its memory again. */
static inline int has_ended(const struct fanin_request *request)
{
    return is_done(request) || __atomic_load_n(&request->locally_complete, __ATOMIC_ACQUIRE) != 0;
}
#endif
