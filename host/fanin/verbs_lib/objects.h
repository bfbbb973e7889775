/* The objects behind verbs' pointers; each begins with its structure of infiniband/verbs.h. */
#ifndef FANIN_VERBS_OBJECTS_H
#define FANIN_VERBS_OBJECTS_H
#include "ibv.h"
#include "events.h"
#include "fanin.h"
#include "registry.h"

enum {
    OUR_PORT = 1,             /* a device has one, with one GID and one partition */
    OUR_PARTITION = 0xffff,
    OUR_QUEUE_DEPTH = FANIN_ORDINARY_DEPTH,
    OUR_OWNERS = 256          /* of a table; a power of two */
};

/* An asynchronous event, reported once. */
struct our_async_event {
    struct our_event event;
    int type;                 /* enum ibv_event_type */
    uint32_t is_told;
    void *element;
};

struct our_device {
    struct ibv_device base;
    char socket[256];
    uint32_t number;
    uint32_t address;         /* IPv4, host order; 0: unknown yet */
};

struct our_context {
    struct verbs_context base;
    struct fanin_context *fanin;
    uint32_t domains;         /* protection domains ever created */
    uint32_t users;           /* completion queues with a thread, and send queues of collectives */
    uint32_t forks;           /* inheritance.c */
    struct our_events events; /* device/async_events.c */
    struct our_async_event lost;
    pthread_mutex_t owners_lock;
    struct our_qp *owners[OUR_OWNERS]; /* completions/owners.c */
    struct our_collectives *collectives; /* completions/collectives.c; under the same lock */
};

struct our_collectives {
    struct our_collectives *next;
    uint32_t number;
    struct fanin_cqe last;    /* last polled */
};

struct our_pd {
    struct ibv_pd base;
    uint32_t domain;
    uint32_t users;           /* regions, queue pairs and addresses in it */
    struct our_known known;
};

struct our_mr {
    struct ibv_mr base;
    unsigned int access;      /* enum ibv_access_flags */
    struct our_known known;
};

struct our_ah {
    struct ibv_ah base;
    uint32_t ipv4;            /* host order */
};

struct our_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex;
    } base;
    uint32_t number;
    uint32_t users;           /* queue pairs */
    struct our_known known;
    pthread_mutex_t poll_lock; /* held during an extended poll */
    struct ibv_wc current;    /* of the extended poll */
    struct our_watch *watch;  /* completions/watch.c; NULL: no channel */
    struct our_event completion; /* in its channel */
    struct our_async_event overrun;
};

struct our_srq {
    struct ibv_srq base;
    uint32_t number;
    uint32_t users;           /* queue pairs */
};

struct our_qp {
    struct ibv_qp_ex base;
    uint32_t number;
    int all_signaled;
    uint32_t receives;        /* posted, completion not polled */
    struct our_batch *batch;  /* queue_pairs/extended_post.c; NULL: not extended */
    struct our_qp *next_owner; /* completions/owners.c */
    struct our_async_event failed, established;
};

/* device/list.c: whether a device is Fanin's. */
int our_device_is(const struct ibv_device *device);

static inline int our_context_is(const struct ibv_context *context)
{
    return our_device_is(context->device);
}

static inline struct our_context *our_context(struct ibv_context *context)
{
    return (void *)((char *)context - offsetof(struct our_context, base.context));
}

static inline struct fanin_context *our_fanin(struct ibv_context *context)
{
    return our_context(context)->fanin;
}

static inline struct our_pd *our_pd(struct ibv_pd *pd)
{
    return (struct our_pd *)pd;
}

static inline struct our_cq *our_cq(struct ibv_cq *cq)
{
    return (struct our_cq *)cq;
}

static inline struct our_srq *our_srq(struct ibv_srq *srq)
{
    return (struct our_srq *)srq;
}

static inline struct our_qp *our_qp(struct ibv_qp *qp)
{
    return (struct our_qp *)qp;
}

static inline void our_use(uint32_t *users)
{
    __atomic_add_fetch(users, 1, __ATOMIC_RELAXED);
}

/* Release: whoever reads 0 may free the object. */
static inline void our_release(uint32_t *users)
{
    __atomic_sub_fetch(users, 1, __ATOMIC_RELEASE);
}

static inline int our_in_use(const uint32_t *users)
{
    return __atomic_load_n(users, __ATOMIC_ACQUIRE) != 0;
}

/* inheritance.c: whether an ancestor of this process has opened the context. */
int our_is_inherited(const struct ibv_context *context);
void our_own(struct our_context *context);
/* End an object at the device; errno. 0 also if the device is lost, or the object is inherited. */
int our_end_at_device(const struct ibv_context *context, enum fanin_status (*end)(struct fanin_context *, uint32_t),
                      uint32_t number);

/* The errno for a status; 0: success. */
int our_errno(enum fanin_status status);
/* Print once why a call is refused, if its errno does not tell. */
void our_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Set errno, and return NULL or -1. */
void *our_null(int error);
int our_minus_one(int error);

#endif
