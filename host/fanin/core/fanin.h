/* The driver core: what a host program uses to work with one Fanin device.
 *
 * Every function returns enum fanin_status (>= 0); FANIN_SUCCESS is 0. Output arguments are written on success, or
 * where the comment says so. A context may be used by several threads; it must not be closed while another thread
 * is inside a call. cffi reads the declarations of this file: no macros, no inline functions.
 */
#ifndef FANIN_H
#define FANIN_H
#include "abi.h"
#include <stddef.h>

/* Where a queue pair stands in its job's stream of segments; equal on all ranks. */
struct fanin_cursor {
    uint32_t position;        /* the next free one */
    uint32_t mid;             /* the count in the next message number */
    uint32_t slots;           /* of the lease; 0: none is needed */
    uint32_t reserved;
};

/* PREPARED: nothing of it is under way. It has not been posted, or has ended well. COMPLETE: it has failed. */
enum fanin_progress { FANIN_PREPARED = 0, FANIN_POSTED = 1, FANIN_COMPLETE = 2 };

/* One side of a prepared request: the program's memory, and what the device reads or writes in its place. */
struct fanin_side {
    uint64_t memory;              /* copied to or from `place`, or into a request that is INLINE */
    uint64_t place;               /* where the first part lies for the device */
    uint64_t length;              /* bytes that are copied; 0: none */
    uint32_t depth;               /* parts that have room at `place`; the next one takes the place of the first again */
    uint32_t reserved;
};

/* A request that is posted again and again, as one message or in parts of equal length (the last may be shorter). */
struct fanin_prepared {
    struct fanin_wqe wqe;         /* all but what fanin_begin fills in: wr_id, seg, the count in mid, inline data; of
                                   * parts also length, segments, addresses, and whether they are signaled */
    struct fanin_side source, destination;
    uint64_t first_id;            /* wr_id of the first part, from fanin_begin; the others follow it */
    uint64_t length;              /* bytes of the message; of this and the next three nothing is read of a single part */
    uint64_t part_length;
    uint32_t segment;             /* bytes of a segment */
    uint32_t signal_interval;     /* of so many parts one has a completion, and the last */
    uint32_t parts;
    uint32_t posted;              /* parts, since fanin_begin */
    uint32_t ended;               /* that are known to have */
    uint32_t progress;            /* enum fanin_progress: how far fanin_begin and fanin_finish have come the last time */
};

struct fanin_context;         /* a connection to one device */

/* The requests of one rank in one job, in order: its queues, and where it stands. One thread at a time uses it. */
struct fanin_stream {
    struct fanin_context *context; /* NULL: the job has not been joined, or has been left */
    uint32_t qp, cq;
    struct fanin_cursor cursor;
    uint64_t next_id;             /* wr_id of what is posted next */
    uint64_t begun;               /* prepared requests, ever: those of which something was posted */
    struct fanin_cqe cqe;         /* the completion that fanin_finish has taken last */
    uint32_t seen;                /* completions taken so far, mod 2^32, as of its last look: see fanin_wait */
    uint32_t reserved;
};

enum fanin_arguments_limit { FANIN_MOST_DIMENSIONS = 8 };

/* An argument of a Python call, as it was. */
struct fanin_argument {
    uint64_t object;              /* the address of what must be the same object, if there is no type */
    uint64_t type;                /* of an array, as all that follows: the addresses of its type, memory, and dtype */
    uint64_t data, dtype;
    int32_t flags, dimensions;
    int64_t shape[FANIN_MOST_DIMENSIONS];
};

struct fanin_arguments {
    uint32_t head, tuple_head;    /* bytes of an object and of a tuple before what is their own */
    int32_t count;
    int32_t reserved;
    struct fanin_argument each[];
};

enum fanin_object { FANIN_OBJECT_HEAD = 16 }; /* bytes of a Python object before what is its own */

/* A blocking call that Python may make again (again.c). Addresses are those of Python's objects. */
struct fanin_repeat {
    const struct fanin_arguments *arguments;
    struct fanin_stream *stream;
    const uint64_t *regions;      /* the version of the table of regions now, */
    uint64_t version;             /* and when the call was made ready */
    uint64_t spare;               /* address of the list of what waits for its next time: one attempt, or none */
    uint64_t make;                /* address of the function that makes a new array for the result; 0: none does */
    int32_t result;               /* otherwise, which argument is; -1: None */
    uint32_t patience_ms;         /* in one call; then others are looked after */
    uint32_t is_used;             /* since it was last said not to be */
    uint32_t reserved;
};

/* Where attributes of Python's objects lie, in bytes from the object's beginning; again.py says of which classes. */
struct fanin_slots {
    uint32_t again;               /* of a communicator */
    uint32_t last;                /* of its calls */
    uint32_t address, follower;   /* of one of them: of its struct fanin_repeat; the call after it */
    uint32_t prepared;            /* of one time that it is done: the address of its struct fanin_prepared; */
    uint32_t values, result;      /* its arguments, and its result if that is new */
    uint32_t current, stopped;    /* of its fast path, of its stream */
};

#pragma GCC visibility push(default)

struct fanin_request;         /* a JOIN or LEAVE under way */

/* Connect to the control socket of a device. Enough for fanin_read_status; all the rest needs fanin_attach. */
enum fanin_status fanin_connect(const char *socket_path, struct fanin_context **context);

/* Exchange memory with the device: it gets this process's memory (where /proc allows it), we get rings and limits. */
enum fanin_status fanin_attach(struct fanin_context *context, struct fanin_attach_reply *limits);

/* Version of the host interface that the device speaks, as its last reply says; 0: it has not answered. */
uint32_t fanin_device_version(const struct fanin_context *context);

/* Give everything back. Sends nothing, so that a forked child can drop its copy without touching its parent's. */
void fanin_close(struct fanin_context *context);

/* Whether the device was lost because it stands still: it may go on later, and write to memory of requests under way. */
int fanin_device_stands_still(const struct fanin_context *context);

/* The device's status as JSON (UTF-8, no terminator). `length` is set also when `capacity` is too small. */
enum fanin_status fanin_read_status(struct fanin_context *context, char *json, size_t capacity, size_t *length);

/* Register `length` bytes at `address`, which are the bytes from `offset` of a memfd sealed against shrinking. */
enum fanin_status fanin_register(struct fanin_context *context, int memfd, uint64_t offset, void *address,
                                 uint64_t length, uint32_t access, uint32_t *lkey);
enum fanin_status fanin_deregister(struct fanin_context *context, uint32_t lkey);

/* New zeroed memory that is registered: a sealed memfd, mapped. */
enum fanin_status fanin_allocate(struct fanin_context *context, uint64_t length, uint32_t access, void **address,
                                 uint32_t *lkey);

/* Unmap what fanin_allocate mapped. Deregister it first; needs no context, so memory may outlive the device. */
void fanin_unmap(void *address, uint64_t length);

enum fanin_status fanin_create_cq(struct fanin_context *context, uint32_t *cq);
enum fanin_status fanin_destroy_cq(struct fanin_context *context, uint32_t cq);
enum fanin_status fanin_create_qp(struct fanin_context *context, uint32_t cq, uint32_t *qp);
/* When it returns FANIN_SUCCESS the device touches no memory any more on behalf of this queue pair. */
enum fanin_status fanin_destroy_qp(struct fanin_context *context, uint32_t qp);

/* Start to join (leave) the job; head fields are filled in here. fanin_await tells the outcome, fanin_forget frees. */
enum fanin_status fanin_join(struct fanin_context *context, const struct fanin_join *join,
                             struct fanin_request **request);
enum fanin_status fanin_leave(struct fanin_context *context, uint32_t qp, struct fanin_request **request);

/* Wait for the outcome, at most `timeout_ms`. FANIN_PENDING: not yet. `reply` holds what is known, also on refusal. */
enum fanin_status fanin_await(struct fanin_request *request, struct fanin_join_reply *reply, uint32_t timeout_ms);
void fanin_forget(struct fanin_request *request);

/* Copy a WQE into the send ring and ring the doorbell. FANIN_QUEUE_FULL: the device has not taken enough yet. */
enum fanin_status fanin_post(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe);

/* The same for a request of a job's stream; when it is posted, the cursor has moved past it. */
enum fanin_status fanin_post_next(struct fanin_context *context, uint32_t qp, struct fanin_cursor *cursor,
                                  const struct fanin_wqe *wqe);

/* Take up to `capacity` completions. `seen` becomes the number of completions ever taken, for fanin_wait.
 * Only when none is left: FANIN_DEVICE_LOST; FANIN_CQ_OVERRUN, a completion found no room and its job was ended. */
enum fanin_status fanin_poll(struct fanin_context *context, uint32_t cq, struct fanin_cqe *cqes, uint32_t capacity,
                             uint32_t *count, uint32_t *seen);

/* Milliseconds by the clock of all time-outs here, which never goes back. */
uint64_t fanin_now_ms(void);

/* Wait until the device has stored more than `seen` completions. FANIN_PENDING: none within `timeout_ms`.
 * FANIN_CQ_OVERRUN: none will come. */
enum fanin_status fanin_wait(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t timeout_ms);

/* Post the next part of a prepared request: number `posted`, which then counts it, and the cursor has moved on. Of what
 * fanin_begin has not begun, the caller has set `posted` and `first_id` before.
 * FANIN_NOT_CONFIGURED, here and below: the stream has no context. */
enum fanin_status fanin_post_part(struct fanin_stream *stream, struct fanin_prepared *prepared);

/* Post a prepared request, of its parts as many as have room; `progress` says when something is posted. */
enum fanin_status fanin_begin(struct fanin_stream *stream, struct fanin_prepared *prepared);

/* The result of a prepared request is to be written to other memory than the last time. */
void fanin_write_to(struct fanin_prepared *prepared, uint64_t memory);

/* Wait at most `timeout_ms` for the completion of a request that was begun, and take it. Its status, unless that can not
 * be had; FANIN_PENDING: the time is over. Parts that get room meanwhile are posted. Nothing else may be under way in the
 * two queues. */
enum fanin_status fanin_finish(struct fanin_stream *stream, struct fanin_prepared *prepared, uint32_t timeout_ms);

/* Both, one after the other. */
enum fanin_status fanin_call(struct fanin_stream *stream, struct fanin_prepared *prepared, uint32_t timeout_ms);

/* Whether the tuple of objects whose address is `values` holds the arguments that are known. The caller holds the
 * tuple, and nobody changes its arrays meanwhile: they are read without Python's global lock, which cffi lets go of. */
int fanin_same_arguments(const struct fanin_arguments *known, uint64_t values);

#pragma GCC visibility pop
#endif
