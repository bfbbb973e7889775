/* A collective under way, from the program's call to its end. */
#ifndef FANIN_REQUEST_H
#define FANIN_REQUEST_H
#include "collectives/plan.h"
#include "memory/bounce_buffers.h"

struct stream;

enum { WINDOW = 4 };

/* How one side of a request reaches the device. */
enum way {
    WAY_NONE,                 /* the rank brings (wants) nothing */
    WAY_DIRECT,               /* the device reads (writes) the program's memory */
    WAY_BOUNCED,              /* a bounce buffer stands in for all of it */
    WAY_PIPELINED,            /* bounce buffers stand in for those parts that are under way */
    WAY_OPEN                  /* of a result that may be here already: found out when it is posted */
};

/* The memory of one side of a request. */
struct side {
    enum way way;
    uint8_t *memory;          /* the program's, without gaps */
    uint64_t length;          /* bytes that the rank brings (wants) */
    struct bounce_buffer *buffer; /* BOUNCED; or that of the sizes, while they are exchanged */
    uint64_t address;         /* where the device finds it, but for PIPELINED */
    uint32_t lkey;
};

/* The first fields follow from the operation, without its memory. The next operation of the same shape uses them as
 * they are. */
struct fanin_request {
    struct fanin_request *next;   /* in its stream, or among the unused ones */
    struct stream *stream;        /* lives as long as its requests */
    struct fanin_operation operation; /* that it was made from; not its memory */
    uint8_t is_shaped;            /* the next operation of this shape may use it as it is */
    uint8_t waits;                /* the program does, until it has ended */
    uint8_t has_draft;            /* `draft` and `draft_run` are those of its only work request, but for memory */
    struct message message;
    uint32_t flags;               /* enum fanin_operation_flags */
    uint32_t tag;
    uint32_t agreement;
    uint32_t timeout_ms;          /* of the operation; 0: none */
    uint32_t count;               /* of its work requests */
    struct run draft_run;
    struct fanin_wqe draft;

    /* From here on all is zero when it begins. */
    struct side source, destination;
    uint64_t *sizes;              /* of blocks that may differ; while they are exchanged, what this rank expects */
    uint64_t number;              /* in its stream, from 0 on: equal on all ranks */
    uint64_t deadline_ms;         /* from when its first part was posted */
    uint32_t posted, taken;       /* of its work requests */
    uint64_t first_id;            /* wr_id of the first; the others follow it */
    uint32_t first_mid;           /* count in its message number; likewise */
    struct run run;               /* the one that was posted last */

    struct bounce_buffer *window[WINDOW]; /* PIPELINED: the bounce buffers of parts, used in turn */
    uint32_t window_length;

    struct message wanted;        /* what sizes are exchanged for, with `block` as given here; row NULL: nothing */
    uint8_t arrived;              /* the result was there before it was posted, and is in its place */
    uint8_t mismatch;             /* this rank expects other sizes than those exchanged */

    uint8_t persistent, started, detached;
    uint32_t taken_over;          /* stored with release: it wants nothing, and all that it brings has been taken. For
                                   * the program it has ended */
    uint32_t done;                /* stored with release when everything else is there */
    uint32_t status;              /* enum fanin_status: of the first work request that failed */
    struct fanin_cqe failure;     /* its completion */
};

/* prepare.c: make the message and its memory from an operation. `request` is zero, or has ended and been destroyed:
 * then what it has of an operation of the same shape serves again. FANIN_INVALID_REQUEST: the operation makes no
 * sense. */
enum fanin_status fanin_request_begin(struct fanin_request *request, struct stream *stream,
                                      const struct fanin_operation *operation, int waits);
/* The message of an operation, as if all its blocks had `block` bytes, and with no memory. */
void fanin_make_message(const struct terms *terms, const struct fanin_operation *operation, struct message *message);
/* All ranks have exchanged the sizes: make the message itself. */
enum fanin_status fanin_request_expand(struct fanin_request *request);
/* Whether an operation makes sense, apart from its sizes and memory. */
enum fanin_status fanin_request_check(const struct terms *terms, const struct fanin_operation *operation);
/* Hold no bounce buffers until the next start. */
void fanin_request_idle(struct fanin_request *request);
/* Whether it has been made from an operation of the same shape. */
int fanin_request_fits(const struct fanin_request *request, const struct fanin_operation *operation, int waits);
/* Begin once more: nothing of it is posted. Between its starts a request holds no bounce buffers. */
enum fanin_status fanin_request_reset(struct fanin_request *request);
/* Give back the bounce buffers, but for one that is the program's result. spoiled: the device may still write to them.
 * Then the stream keeps them until the device has left the job. Called with the stream's lock. */
void fanin_request_release(struct fanin_request *request, int spoiled);
/* The device has left the job: the buffers that the stream keeps can be used again. */
void fanin_return_spoiled(struct stream *stream);
/* Free everything of a request that has ended, or was never started. */
void fanin_request_destroy(struct fanin_request *request);

/* transfer.c: the next work request, with its data where the device finds them; `run` goes on from the one before.
 * Returns 0 if its bounce buffer is still in use. */
int fanin_request_load(struct fanin_request *request, struct run *run, struct fanin_wqe *wqe);
/* A result that may have been here is not: the device is to bring it. */
void fanin_request_choose_way(struct fanin_request *request, struct fanin_wqe *wqe);
/* Where a message may have come before its only work request is posted; NULL: this one can not. */
void *fanin_request_landing(const struct fanin_request *request, const struct fanin_wqe *wqe);
/* Work request `number` is complete: put its result where it belongs. */
void fanin_request_store(struct fanin_request *request, uint32_t number);
/* Whether the rank wants nothing, and the program's memory is not read any more once all is posted. */
int fanin_request_is_one_way(const struct fanin_request *request);
/* Whether results pass through a bounce buffer, and are where they belong only when the host has copied them. */
int fanin_request_copies_results(const struct fanin_request *request);

static inline int is_done(const struct fanin_request *request)
{
    return __atomic_load_n(&request->done, __ATOMIC_ACQUIRE) != 0;
}

/* For the program, which may use its memory again. */
static inline int has_ended(const struct fanin_request *request)
{
    return is_done(request) || __atomic_load_n(&request->taken_over, __ATOMIC_ACQUIRE) != 0;
}
#endif
