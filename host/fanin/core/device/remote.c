/* Attaching to a device over RDMA, and the traffic on its queue pair.
 *
 * A message announces the device's completions. Only when it has been taken does RDMA guarantee that all earlier
 * writes, results included, are in memory. So the thread that takes the message stores `producer` of the ring.
 * Record 0108 (docs/decisions) says what this costs, and what else was tried. */
#define _GNU_SOURCE
#include "device/remote.h"
#include "complaint.h"
#include "device/access.h"
#include "device/layout.h"
#include "rdma/queue_pair.h"
#include <ctype.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCHEME "rdma://"
#define CONSUMER_UPDATE_INTERVAL (FANIN_CQ_DEPTH / 8)  /* completions */
#define DEFAULT_PATIENCE_MS 5000
#define HALF_WORD 0xffffu

/* Memory registered for the device. */
struct kept_region {
    struct kept_region *next;
    struct ibv_mr *region;         /* NULL: deregistered */
    uint32_t lkey;                 /* the device's key; 0: it refused the region, which could not be deregistered */
};

struct fanin_remote {
    struct rdma_queue_pair pair;
    char device[64], host[256], port[8]; /* empty `device`: the one with the path to the host */
    pid_t owner;                   /* a forked child has neither the thread nor the queue pair */
    pthread_t thread;              /* takes messages while no other thread does */
    int has_thread, stop_fd;
    struct ibv_mr *region;         /* of the copy of the control region */
    uint64_t device_region;        /* the device's own */
    uint32_t device_rkey;
    uint32_t cq_end;               /* 1 + highest completion queue ever created */
    uint32_t told[FANIN_MAX_CQ];   /* `consumer` of completion rings as last told to the device */
    uint32_t markers;              /* received from the device */
    uint32_t expected;             /* posted before the last reply */
    struct kept_region *kept;
    pthread_mutex_t post_lock;     /* of requests */
    pthread_mutex_t take_lock;     /* of messages */
    pthread_mutex_t region_lock;   /* of `kept` */
};

int fanin_is_remote_address(const char *address)
{
    return strncmp(address, SCHEME, strlen(SCHEME)) == 0;
}

size_t fanin_remote_address_length(const char *list)
{
    size_t length = strlen(SCHEME) + strcspn(list + strlen(SCHEME), ":");

    return list[length] ? length + 1 + strcspn(list + length + 1, ":") : length;
}

/* rdma://[VERBS-DEVICE@]HOST:PORT */
static enum fanin_status parse(struct fanin_remote *remote, const char *address)
{
    const char *place = address + strlen(SCHEME), *at = strchr(place, '@'), *colon = strrchr(place, ':');

    if (at) {
        snprintf(remote->device, sizeof remote->device, "%.*s", (int)(at - place), place);
        place = at + 1;
    }
    if (!colon || colon <= place || !isdigit((unsigned char)colon[1]) || strlen(colon + 1) > 5)
        return fanin_complain("%.200s is not an address; write rdma://ADDRESS:PORT", address);
    snprintf(remote->host, sizeof remote->host, "%.*s", (int)(colon - place), place);
    snprintf(remote->port, sizeof remote->port, "%.5s", colon + 1);
    return FANIN_SUCCESS;
}

static enum fanin_status connect_tcp(struct fanin_context *context, const char *address)
{
    struct fanin_remote *remote = calloc(1, sizeof *remote);
    enum fanin_status status;

    if (!remote)
        return FANIN_NO_RESOURCES;
    remote->stop_fd = -1;
    remote->owner = getpid();
    pthread_mutex_init(&remote->post_lock, NULL);
    pthread_mutex_init(&remote->take_lock, NULL);
    pthread_mutex_init(&remote->region_lock, NULL);
    context->remote = remote;
    status = parse(remote, address);
    return status == FANIN_SUCCESS ? fanin_tcp_connect(&context->socket, remote->host, remote->port) : status;
}

static enum fanin_status read_token(uint8_t token[FANIN_TOKEN_BYTES])
{
    const char *path = getenv("FANIN_TOKEN_FILE");
    FILE *file = path ? fopen(path, "re") : NULL;
    int read = 0;
    unsigned byte;

    if (!path)
        return fanin_complain("a device over RDMA needs a token; name its file in FANIN_TOKEN_FILE");
    while (file && read < FANIN_TOKEN_BYTES && fscanf(file, "%2x", &byte) == 1)
        token[read++] = (uint8_t)byte;
    if (file)
        fclose(file);
    if (read < FANIN_TOKEN_BYTES)
        return fanin_complain("FANIN_TOKEN_FILE %.200s can not be read, or has fewer than %d hexadecimal digits; copy "
                              "that of the device", path, 2 * FANIN_TOKEN_BYTES);
    return FANIN_SUCCESS;
}

static enum fanin_status ask_to_attach(struct fanin_context *context, struct fanin_attach_rdma_reply *reply)
{
    struct fanin_attach_rdma message = {.head = {.type = FANIN_MSG_ATTACH_RDMA},
                                        .endpoint = context->remote->pair.endpoint,
                                        .version = FANIN_RDMA_VERSION};
    struct control_request request = {.reply = reply, .capacity = sizeof *reply};
    enum fanin_status status = read_token(message.token);

    if (status != FANIN_SUCCESS)
        return status;
    status = fanin_control_call(context, &request, &message.head, sizeof message, -1);
    if (status == FANIN_VERSION_MISMATCH || status == FANIN_INVALID_REQUEST) { /* the latter: too old for versions */
        fanin_complain("the device and this library differ in the version of RDMA between them (%u here); upgrade the "
                       "older one to the release of the other", FANIN_RDMA_VERSION);
        return FANIN_VERSION_MISMATCH;
    }
    if (status == FANIN_PERMISSION_DENIED)
        fanin_complain("the device has a different token than FANIN_TOKEN_FILE; copy that of the device");
    if (status == FANIN_NO_RESOURCES)
        fanin_complain("the device has no room for another client, or no queue pair; its log names what it lacks");
    if (status == FANIN_NOT_SUPPORTED)
        fanin_complain("the device takes no clients over RDMA: it has several lanes; start it with --lanes 1");
    if (status == FANIN_SUCCESS && (request.length < sizeof *reply || reply->attached.max_cq > FANIN_MAX_CQ))
        return FANIN_VERSION_MISMATCH;
    return status;
}

/* Address in the device's region of a place in the copy. */
static uint64_t there(const struct fanin_context *context, const void *place)
{
    return context->remote->device_region + (uint64_t)((const uint8_t *)place - context->region);
}

static enum fanin_status post(struct fanin_context *context, int opcode, const void *place, uint32_t length,
                              uint32_t immediate)
{
    struct fanin_remote *remote = context->remote;
    const struct rdma_request request = {.opcode = opcode, .local = place, .length = length,
                                         .lkey = remote->region->lkey, .address = there(context, place),
                                         .rkey = remote->device_rkey, .immediate = immediate};

    return fanin_rdma_post(&remote->pair, &request);
}

/* A copy of the device's region. */
static enum fanin_status make_copy(struct fanin_context *context, const struct fanin_attach_rdma_reply *reply)
{
    struct fanin_remote *remote = context->remote;
    struct fanin_mirror message = {.region = 0};
    void *region = mmap(NULL, reply->attached.region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (region == MAP_FAILED)
        return FANIN_NO_RESOURCES;
    context->region = region;
    ((struct fanin_doorbell *)region)->detection_ms = reply->detection_ms;
    remote->region = remote->pair.library->reg_mr(remote->pair.domain, region, reply->attached.region_bytes,
                                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!remote->region) {
        fanin_complain("the verbs device can not register %llu bytes; raise the limit of locked memory (ulimit -l)",
                       (unsigned long long)reply->attached.region_bytes);
        return FANIN_NO_RESOURCES;
    }
    remote->device_region = reply->region;
    remote->device_rkey = reply->rkey;
    message.region = (uintptr_t)region;
    message.rkey = remote->region->rkey;
    return fanin_exchange(context, FANIN_MSG_MIRROR, &message.head, sizeof message, -1);
}

static void wake_waiters(struct fanin_ring *ring, uint32_t producer)
{
    if (__atomic_load_n(&ring->waiting, __ATOMIC_RELAXED) &&
        (int32_t)(producer - __atomic_load_n(&ring->wake_at, __ATOMIC_RELAXED)) >= 0)
        syscall(SYS_futex, &ring->producer, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void take_marker(struct fanin_remote *remote)
{
    __atomic_store_n(&remote->markers, remote->markers + 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &remote->markers, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The message is a marker, or the number of a completion queue (upper half) and of its new completions. */
static void take_message(struct fanin_context *context, uint32_t immediate)
{
    uint32_t cq = immediate >> 16, count = immediate & HALF_WORD, producer;
    struct fanin_ring *ring;

    if (immediate == FANIN_MARKER) {
        take_marker(context->remote);
        return;
    }
    if (cq >= context->limits.max_cq || count > FANIN_CQ_DEPTH)
        return;
    ring = completion_ring(context, cq);
    producer = ring->producer + count;
    __atomic_store_n(&ring->producer, producer, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    wake_waiters(ring, producer);
}

/* Under `take_lock`. */
static void take_all(struct fanin_context *context)
{
    uint32_t immediates[RDMA_REAPED];
    int count;

    do {
        count = fanin_rdma_take(&context->remote->pair, immediates);
        for (int i = 0; i < count; i++)
            take_message(context, immediates[i]);
    } while (count == RDMA_REAPED);
}

/* If the lock is taken, its holder stores the completions soon. */
void fanin_remote_take(struct fanin_context *context)
{
    if (pthread_mutex_trylock(&context->remote->take_lock))
        return;
    take_all(context);
    pthread_mutex_unlock(&context->remote->take_lock);
}

/* After asking for an event, look once more, since an earlier message makes none. This look waits for the lock, whose
 * holder may have looked before the event was asked for. */
static void *take_messages(void *argument)
{
    struct fanin_context *context = argument;
    struct fanin_remote *remote = context->remote;
    struct pollfd descriptors[] = {{.fd = remote->pair.channel->fd, .events = POLLIN},
                                   {.fd = remote->stop_fd, .events = POLLIN}};

    while (!descriptors[1].revents && !fanin_rdma_is_broken(&remote->pair)) {
        fanin_rdma_take_events(&remote->pair);
        fanin_rdma_ask_for_event(&remote->pair);
        pthread_mutex_lock(&remote->take_lock);
        take_all(context);
        pthread_mutex_unlock(&remote->take_lock);
        poll(descriptors, 2, FANIN_SLICE_MS);
    }
    return NULL;
}

/* Blocks all signals, which are for the program's threads. */
static enum fanin_status start_thread(struct fanin_context *context)
{
    struct fanin_remote *remote = context->remote;
    sigset_t all, before;
    int error;

    remote->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (remote->stop_fd < 0)
        return FANIN_NO_RESOURCES;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&remote->thread, NULL, take_messages, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    remote->has_thread = !error;
    return error ? FANIN_NO_RESOURCES : FANIN_SUCCESS;
}

static enum fanin_status attach(struct fanin_context *context)
{
    struct fanin_remote *remote = context->remote;
    struct fanin_attach_rdma_reply reply = {0};
    uint32_t patience;
    enum fanin_status status = fanin_rdma_open(&remote->pair, *remote->device ? remote->device : NULL,
                                               fanin_tcp_own_address(context->socket));

    if (status == FANIN_SUCCESS)
        status = ask_to_attach(context, &reply);
    if (status == FANIN_SUCCESS && fanin_rdma_is_broken(&remote->pair)) /* the device has ended after its reply */
        status = FANIN_DEVICE_LOST;
    if (status != FANIN_SUCCESS)
        return status;
    patience = reply.detection_ms ? reply.detection_ms : DEFAULT_PATIENCE_MS;
    status = fanin_rdma_connect(&remote->pair, &reply.endpoint, patience);
    if (status == FANIN_SUCCESS && !fanin_rings_fit(&reply.attached))
        status = FANIN_VERSION_MISMATCH;
    context->limits = reply.attached;
    if (status == FANIN_SUCCESS)
        status = make_copy(context, &reply);
    return status == FANIN_SUCCESS ? start_thread(context) : status;
}

/* Destroys the queue pair, since the state ERR does not guarantee that the verbs device is done with it. Returns
 * whether it succeeded. */
static int destroy_qp(struct fanin_remote *remote)
{
    if (remote->pair.qp && !remote->pair.library->destroy_qp(remote->pair.qp))
        remote->pair.qp = NULL;
    return !remote->pair.qp;
}

static int deregister(struct fanin_remote *remote, struct kept_region *kept)
{
    if (kept->region && !remote->pair.library->dereg_mr(kept->region))
        kept->region = NULL;
    return !kept->region;
}

/* Guarantees the same as destroy_qp. Returns whether none is left. */
static int deregister_all(struct fanin_remote *remote)
{
    int done = 1;

    pthread_mutex_lock(&remote->region_lock);
    for (struct kept_region *kept = remote->kept; kept; kept = kept->next)
        done &= deregister(remote, kept);
    pthread_mutex_unlock(&remote->region_lock);
    return done;
}

/* Take the last messages, then destroy the queue pair or, failing that, deregister all memory. Other threads release
 * the locks soon, since the queue pair has failed. In a forked child the queue pair is the parent's. */
static int cut(struct fanin_context *context)
{
    struct fanin_remote *remote = context->remote;
    int done;

    if (remote->owner != getpid())
        return 1;
    pthread_mutex_lock(&remote->take_lock);
    if (remote->pair.qp)
        take_all(context);
    fanin_rdma_fail(&remote->pair);
    pthread_mutex_unlock(&remote->take_lock);
    pthread_mutex_lock(&remote->post_lock);
    pthread_mutex_lock(&remote->take_lock);
    done = destroy_qp(remote);
    pthread_mutex_unlock(&remote->take_lock);
    pthread_mutex_unlock(&remote->post_lock);
    shutdown(context->socket, SHUT_WR); /* so that a living device tells the other ranks */
    return done || deregister_all(remote);
}

/* Deregister the region with a key. */
static void give_back(struct fanin_remote *remote, uint32_t lkey)
{
    struct kept_region *found;

    pthread_mutex_lock(&remote->region_lock);
    for (struct kept_region **link = &remote->kept; (found = *link); link = &found->next)
        if (found->lkey == lkey) {
            if (deregister(remote, found)) {
                *link = found->next;
                free(found);
            }
            break;
        }
    pthread_mutex_unlock(&remote->region_lock);
}

/* In a forked child all this is the parent's. */
static void close_remote(struct fanin_context *context)
{
    struct fanin_remote *remote = context->remote;

    if (!remote || remote->owner != getpid())
        return;
    if (remote->has_thread) {
        eventfd_write(remote->stop_fd, 1);
        pthread_join(remote->thread, NULL);
    }
    if (remote->stop_fd >= 0)
        close(remote->stop_fd);
    destroy_qp(remote); /* first, so that the device reaches none of the memory */
    while (remote->kept)
        give_back(remote, remote->kept->lkey);
    if (remote->region)
        remote->pair.library->dereg_mr(remote->region);
    if (remote->pair.library)
        fanin_rdma_close(&remote->pair);
    free(remote);
}

/* Handle a loss before it is reported. */
static enum fanin_status lose_if_lost(struct fanin_context *context, enum fanin_status status)
{
    if (status == FANIN_DEVICE_LOST)
        fanin_lose_device(context);
    return status;
}

enum fanin_status fanin_remote_send(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *stored)
{
    enum fanin_status status;

    pthread_mutex_lock(&context->remote->post_lock);
    status = post(context, FANIN_SEND_RDMA_WRITE_WITH_IMM, stored, sizeof *stored, qp << 16 | 1);
    pthread_mutex_unlock(&context->remote->post_lock);
    return lose_if_lost(context, status);
}

enum fanin_status fanin_remote_look(struct fanin_context *context, struct fanin_ring *ring)
{
    enum fanin_status status;

    pthread_mutex_lock(&context->remote->post_lock);
    status = post(context, FANIN_SEND_RDMA_READ, &ring->consumer, sizeof ring->consumer, 0);
    if (status == FANIN_SUCCESS)
        status = fanin_rdma_await_reads(&context->remote->pair);
    pthread_mutex_unlock(&context->remote->post_lock);
    return lose_if_lost(context, status);
}

void fanin_remote_consumed(struct fanin_context *context, uint32_t cq, struct fanin_ring *ring)
{
    uint32_t *told = &context->remote->told[cq];

    if (ring->consumer - *told < CONSUMER_UPDATE_INTERVAL)
        return;
    *told = ring->consumer;
    pthread_mutex_lock(&context->remote->post_lock);
    post(context, FANIN_SEND_RDMA_WRITE, &ring->consumer, sizeof ring->consumer, 0);
    pthread_mutex_unlock(&context->remote->post_lock);
}

/* Wake the device, and read its beat and `device_gone`, which are adjacent, and whether a completion ring has
 * overrun. */
static void wake(struct fanin_context *context)
{
    struct fanin_doorbell *doorbell = (void *)context->region;
    const size_t length = offsetof(struct fanin_doorbell, detection_ms) - offsetof(struct fanin_doorbell, device_gone);

    if (!context->remote->region) /* not attached yet */
        return;
    pthread_mutex_lock(&context->remote->post_lock);
    post(context, FANIN_SEND_RDMA_WRITE_WITH_IMM, doorbell, 0, 0);
    post(context, FANIN_SEND_RDMA_READ, &doorbell->device_gone, (uint32_t)length, 0);
    for (uint32_t cq = 0; cq < context->remote->cq_end; cq++)
        post(context, FANIN_SEND_RDMA_READ, &completion_ring(context, cq)->overrun, sizeof(uint32_t), 0);
    pthread_mutex_unlock(&context->remote->post_lock);
}

static int is_broken(const struct fanin_context *context)
{
    return fanin_rdma_is_broken(&context->remote->pair);
}

static enum fanin_status send_message(struct fanin_context *context, const void *message, size_t size, int fd)
{
    (void)fd; /* only a device on this host can use it */
    return fanin_tcp_send(context->socket, message, size);
}

/* A reply has the number of markers that the device posted before it. One thread at a time takes replies, in order. */
static ssize_t receive_message(struct fanin_context *context, void *buffer, size_t capacity, int fds[FANIN_MAX_FDS])
{
    const struct fanin_message *head = buffer;
    ssize_t size = fanin_tcp_receive(context->socket, buffer, capacity);

    (void)fds;
    if (size >= (ssize_t)sizeof *head)
        __atomic_store_n(&context->remote->expected, head->markers, __ATOMIC_RELAXED);
    return size;
}

static void sleep_until_marker(struct fanin_remote *remote, uint32_t seen, uint64_t wait_ms)
{
    struct timespec limit = {.tv_nsec = (long)wait_ms * 1000000};

    syscall(SYS_futex, &remote->markers, FUTEX_WAIT, seen, &limit, NULL, 0);
}

/* Wait for the markers that the last reply counts: all that the device wrote before them is then in memory. */
static enum fanin_status await_results(struct fanin_context *context, uint32_t timeout_ms)
{
    struct fanin_remote *remote = context->remote;
    uint32_t seen, markers = __atomic_load_n(&remote->expected, __ATOMIC_RELAXED);
    uint64_t deadline = fanin_now_ms() + timeout_ms, now;
    int lost = 0;

    while ((int32_t)((seen = __atomic_load_n(&remote->markers, __ATOMIC_ACQUIRE)) - markers) < 0) {
        if (lost)
            return FANIN_DEVICE_LOST;
        lost = fanin_device_lost(context); /* it may have taken the last markers: check once more */
        now = fanin_now_ms();
        if (!lost && now >= deadline)
            return FANIN_PENDING;
        if (!lost)
            sleep_until_marker(remote, seen, deadline - now < FANIN_SLICE_MS ? deadline - now : FANIN_SLICE_MS);
    }
    return FANIN_SUCCESS;
}

static void begin_cq(struct fanin_context *context, uint32_t cq)
{
    struct fanin_ring *ring = completion_ring(context, cq);

    if (!ring)
        return;
    pthread_mutex_lock(&context->remote->post_lock);
    if (cq >= context->remote->cq_end)
        context->remote->cq_end = cq + 1;
    context->remote->told[cq] = 0;
    pthread_mutex_unlock(&context->remote->post_lock);
    memset(ring, 0, sizeof *ring);
}

static void begin_qp(struct fanin_context *context, uint32_t qp)
{
    struct fanin_ring *ring = send_ring(context, qp);

    if (ring)
        memset(ring, 0, sizeof *ring);
}

static enum fanin_status register_with_verbs(struct fanin_context *context, const struct fanin_register *wanted,
                                             struct kept_region **kept)
{
    struct rdma_queue_pair *pair = &context->remote->pair;
    uint32_t access = wanted->access;
    struct kept_region *made;
    int rights = (access & FANIN_ACCESS_READ ? IBV_ACCESS_REMOTE_READ : 0) |
                 (access & FANIN_ACCESS_WRITE ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0);

    if (access & FANIN_ACCESS_ORDINARY) {
        fanin_complain("a device over RDMA has no ordinary traffic; use the verbs device itself");
        return FANIN_NOT_SUPPORTED;
    }
    made = calloc(1, sizeof *made);
    if (!made)
        return FANIN_NO_RESOURCES;
    made->region = pair->library->reg_mr(pair->domain, (void *)(uintptr_t)wanted->address, wanted->length, rights);
    if (!made->region) {
        free(made);
        fanin_complain("the verbs device can not register %llu bytes; raise the limit of locked memory (ulimit -l)",
                       (unsigned long long)wanted->length);
        return FANIN_NO_RESOURCES;
    }
    *kept = made;
    return FANIN_SUCCESS;
}

/* Keep a region under the device's key; without a key, deregister it. */
static void keep(struct fanin_remote *remote, struct kept_region *kept, const uint32_t *lkey)
{
    if (!lkey && deregister(remote, kept)) {
        free(kept);
        return;
    }
    kept->lkey = lkey ? *lkey : 0;
    pthread_mutex_lock(&remote->region_lock);
    kept->next = remote->kept;
    remote->kept = kept;
    pthread_mutex_unlock(&remote->region_lock);
}

static enum fanin_status register_memory(struct fanin_context *context, struct fanin_register *message, int memfd)
{
    struct kept_region *kept;
    enum fanin_status status = register_with_verbs(context, message, &kept);

    (void)memfd;
    if (status != FANIN_SUCCESS)
        return status;
    message->lkey = kept->region->rkey;
    status = fanin_exchange(context, FANIN_MSG_REGISTER, &message->head, sizeof *message, -1);
    keep(context->remote, kept, status == FANIN_SUCCESS ? &message->lkey : NULL);
    return status;
}

static enum fanin_status deregister_memory(struct fanin_context *context, uint32_t lkey)
{
    struct fanin_register message = {.lkey = lkey};
    enum fanin_status status = fanin_exchange(context, FANIN_MSG_DEREGISTER, &message.head, sizeof message, -1);

    if (status == FANIN_SUCCESS)
        give_back(context->remote, lkey);
    return status;
}

const struct device_access fanin_remote_access = {
    .connect = connect_tcp,
    .attach = attach,
    .close = close_remote,
    .send = send_message,
    .receive = receive_message,
    .wake = wake,
    .is_broken = is_broken,
    .cut = cut,
    .begin_cq = begin_cq,
    .begin_qp = begin_qp,
    .await_results = await_results,
    .register_memory = register_memory,
    .deregister_memory = deregister_memory,
};
