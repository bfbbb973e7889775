/* The connection to one device, and declarations that the files of this folder share. */
#ifndef FANIN_CONNECTION_H
#define FANIN_CONNECTION_H
#include "fanin.h"
#include <pthread.h>
#include <sys/types.h>

#define FANIN_REQUEST_TIMEOUT_MS 5000 /* at least; a living device answers in microseconds */
#define FANIN_SLICE_MS 100            /* the longest sleep without a look at the device's health */
#define FANIN_REPLY_BYTES (192 * 1024) /* the longest message of a socket with the kernel's default buffer */
#define FANIN_MAX_FDS 2
#define FANIN_MAX_CQ 64               /* of a client over RDMA */
#define FANIN_MAX_ORDINARY_QP 256     /* of a client, even if the device offers more */
#define FANIN_MAX_SHARED_QUEUE 64     /* likewise */

struct fanin_context {
    int socket;
    int doorbell_fd;
    const struct device_access *access;
    struct fanin_remote *remote;   /* device/remote.c; NULL: the device shares memory with this process */
    uint8_t *region;               /* control region: doorbell page, rings */
    struct fanin_attach_reply limits;
    uint32_t device_version;       /* of the host interface, from the last reply; 0: no reply yet */
    uint32_t lost;                 /* it has ended, or stands still */
    uint32_t stands_still;
    uint32_t checking_health;              /* a thread checks the device's health: it owns the next five fields */
    uint64_t health_checked_ms;    /* other threads read it */
    uint32_t beat;                 /* of the doorbell page, when it last changed */
    uint64_t beat_changed_ms;
    uint64_t device_woken_ms;
    uint64_t first_woken_ms;       /* since the last change of the beat; 0: not */
    uint32_t spin_budget;          /* yields before a sleep; adapted by their success */
    uint32_t poll_credit;          /* successful looks without a yield, less failed ones */
    uint32_t polls_skipped;
    uint32_t sleeps;               /* without a yield, because the budget was too small */

    uint8_t ordinary_states[FANIN_MAX_ORDINARY_QP]; /* enum fanin_qp_state, as set last */
    uint8_t is_shared[FANIN_MAX_ORDINARY_QP];       /* receives from a shared receive queue */
    struct fanin_ordinary_qp ordinary[FANIN_MAX_ORDINARY_QP]; /* as created: number, completion queues */
    uint8_t shared_queues[FANIN_MAX_SHARED_QUEUE];  /* it exists */

    struct region *regions;        /* memory/regions.c: ordered by address */
    uint32_t region_count;
    uint64_t longest_bounced;      /* bytes of a message that is staged: FANIN_STAGING */
    struct bounce_region *bounce_regions; /* memory/bounce_buffers.c */
    uint64_t bounce_bytes;         /* total */
    pthread_mutex_t region_lock;   /* of the table of regions */
    pthread_mutex_t bounce_lock;   /* of the bounce buffers */

    pthread_mutex_t ring_lock;     /* producers of send rings, consumers of completion rings */
    pthread_mutex_t request_lock;  /* all that follows */
    pthread_cond_t answered;
    int reading;                   /* a thread reads the socket on behalf of all */
    uint32_t last_tag;
    struct control_request *pending;
    uint8_t reply[FANIN_REPLY_BYTES]; /* of the reading thread */
};

/* A device on this host reaches any memory of the process by system calls (FANIN_LKEY_PROCESS); one over RDMA does
 * not. */
static inline int reaches_registered_memory_only(const struct fanin_context *context)
{
    return context->remote != NULL;
}

struct control_request {
    struct fanin_context *context;
    struct control_request *next;
    uint32_t tag;
    int answered;
    void *reply;                   /* at least a struct fanin_message */
    size_t capacity;
    size_t length;                 /* of the reply, also when it is longer than `capacity` */
    int *fds;                      /* FANIN_MAX_FDS received with it, -1: none; NULL: close them */
};

/* ---- transport.c: a message with file descriptors over a SEQPACKET socket ---- */
enum fanin_status fanin_status_of_errno(int error);
enum fanin_status fanin_send_message(int socket, const void *message, size_t size, int fd);
/* Bytes received, 0 when the peer has closed, -1 with errno. Never blocks. */
ssize_t fanin_receive_message(int socket, void *buffer, size_t capacity, int fds[FANIN_MAX_FDS]);
void fanin_close_fds(const int fds[FANIN_MAX_FDS]);

/* ---- control_requests.c: tagged requests of several threads over one socket ---- */
enum fanin_status fanin_control_start(struct fanin_context *context, struct control_request *request,
                                      struct fanin_message *message, size_t size, int fd);
enum fanin_status fanin_control_wait(struct control_request *request, uint32_t timeout_ms);
void fanin_control_end(struct control_request *request);
uint32_t fanin_request_timeout_ms(const struct fanin_context *context);
/* Start, wait, end. FANIN_TIMEOUT: no reply. */
enum fanin_status fanin_control_call(struct fanin_context *context, struct control_request *request,
                                     struct fanin_message *message, size_t size, int fd);
/* The same; `message` is overwritten with the reply. */
enum fanin_status fanin_exchange(struct fanin_context *context, uint16_t type, struct fanin_message *message,
                                 size_t size, int fd);

/* ---- health.c ---- */
int fanin_device_lost(struct fanin_context *context);
/* Called on a loss before it is reported. After the return the device reaches nothing here by RDMA. */
void fanin_lose_device(struct fanin_context *context);

/* ---- rings.c ---- */
/* As fanin_post and fanin_poll; the caller's own lock keeps other threads from the ring. */
enum fanin_status fanin_post_owned(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe);
enum fanin_status fanin_poll_owned(struct fanin_context *context, uint32_t cq, struct fanin_cqe *cqes,
                                   uint32_t capacity, uint32_t *count, uint32_t *seen);
/* Remove the completions of a queue pair of ordinary traffic from a queue. */
void fanin_discard_completions(struct fanin_context *context, uint32_t cq, uint32_t qpn);
/* Wake the device, if it sleeps, after a store into a ring. */
void fanin_ring_doorbell(struct fanin_context *context);
/* Sleep until the number of completions ever stored, mod 2^32, is `target`. */
enum fanin_status fanin_await_completion(struct fanin_context *context, uint32_t cq, uint32_t target,
                                         uint32_t timeout_ms);
/* ---- arrivals.c ---- */
/* Whether an arrival has not been taken. A hint, read without a lock. */
int fanin_has_arrivals(const struct fanin_context *context, uint32_t qp);
/* Copy the data of a message that is about to be posted, if they have arrived and `destination` is not NULL; returns
 * whether they were copied. Drops arrivals of earlier messages. The same lock keeps other threads away. */
int fanin_take_arrival(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe, void *destination);

/* ---- ordinary.c ---- */
/* Copy requests, all or none, to the ring of `depth` requests at `offset` in the region. */
enum fanin_status fanin_store_requests(struct fanin_context *context, size_t offset, uint32_t depth, const void *wqes,
                                       uint32_t count, size_t size);

/* ---- context.c ---- */
/* Close the socket and the mapping, and free the context. */
void fanin_disconnect(struct fanin_context *context);

#endif
