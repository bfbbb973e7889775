/* Connecting to a device, attaching to it, its status, and the end. */
#define _GNU_SOURCE
#include "complaint.h"
#include "device/connection.h"
#include "device/remote.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define INITIAL_SPIN_BUDGET 50

static struct fanin_context *new_context(void)
{
    struct fanin_context *context = calloc(1, sizeof *context);
    pthread_condattr_t clock;

    if (!context)
        return NULL;
    context->socket = context->doorbell_fd = -1;
    context->spin_budget = INITIAL_SPIN_BUDGET;
    pthread_mutex_init(&context->region_lock, NULL);
    pthread_mutex_init(&context->bounce_lock, NULL);
    pthread_mutex_init(&context->ring_lock, NULL);
    pthread_mutex_init(&context->request_lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&context->answered, &clock);
    pthread_condattr_destroy(&clock);
    return context;
}

/* A device that is stopped, or whose backlog is full, must not block us: connect and send respect SO_SNDTIMEO. */
static enum fanin_status open_socket(struct fanin_context *context, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = FANIN_REQUEST_TIMEOUT_MS / 1000};
    uint64_t deadline = fanin_now_ms() + FANIN_REQUEST_TIMEOUT_MS;
    int failed;

    if (strlen(path) >= sizeof address.sun_path)
        return FANIN_INVALID_REQUEST;
    strcpy(address.sun_path, path);
    context->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (context->socket < 0)
        return fanin_status_of_errno(errno);
    setsockopt(context->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    do /* a signal interrupts it whatever its handler says, since there is a limit of time */
        failed = connect(context->socket, (struct sockaddr *)&address, sizeof address) < 0;
    while (failed && errno == EINTR && fanin_now_ms() < deadline);
    return failed ? fanin_status_of_errno(errno) : FANIN_SUCCESS;
}

enum fanin_status fanin_connect(const char *socket_path, struct fanin_context **context)
{
    struct fanin_context *connected = new_context();
    enum fanin_status status = FANIN_NO_RESOURCES;

    fanin_forget_complaint();
    if (connected)
        status = fanin_is_remote_address(socket_path) ? fanin_remote_connect(connected, socket_path)
                                                      : open_socket(connected, socket_path);
    if (status == FANIN_SUCCESS)
        *context = connected;
    else if (connected)
        fanin_disconnect(connected);
    return status;
}

int fanin_rings_fit(const struct fanin_attach_reply *limits)
{
    uint64_t sq_bytes = sizeof(struct fanin_ring) + FANIN_SQ_DEPTH * sizeof(struct fanin_wqe);
    uint64_t cq_bytes = sizeof(struct fanin_ring) + FANIN_CQ_DEPTH * sizeof(struct fanin_cqe);
    uint64_t sq_end = limits->sq_offset + (uint64_t)limits->sq_stride * limits->max_qp;
    uint64_t aq_bytes = sizeof(struct fanin_ring) + FANIN_ARRIVAL_UNITS * FANIN_ARRIVAL_UNIT;
    uint64_t cq_end = limits->cq_offset + (uint64_t)limits->cq_stride * limits->max_cq;
    uint64_t send_bytes = sizeof(struct fanin_ring) + FANIN_ORDINARY_DEPTH * sizeof(struct fanin_send_wqe);
    uint64_t receive_bytes = sizeof(struct fanin_ring) + FANIN_ORDINARY_DEPTH * sizeof(struct fanin_receive_wqe);
    uint64_t oq_end = limits->oq_offset + (uint64_t)limits->oq_stride * limits->max_ordinary_qp;
    uint64_t shared_bytes = sizeof(struct fanin_ring) + FANIN_SHARED_DEPTH * sizeof(struct fanin_receive_wqe);
    uint64_t srq_end = limits->srq_offset + (uint64_t)limits->srq_stride * limits->max_shared_queues;
    uint64_t aq_end = limits->aq_offset + (uint64_t)limits->aq_stride * limits->max_qp;

    return limits->sq_stride >= sq_bytes && limits->cq_stride >= cq_bytes && limits->aq_stride >= aq_bytes &&
           limits->oq_receive >= send_bytes && limits->oq_stride >= limits->oq_receive + receive_bytes &&
           oq_end <= limits->region_bytes && sq_end <= limits->region_bytes && cq_end <= limits->region_bytes &&
           aq_end <= limits->region_bytes && limits->srq_stride >= shared_bytes &&
           srq_end <= limits->region_bytes;
}

static enum fanin_status map_region(struct fanin_context *context, int memfd)
{
    struct stat file;
    void *region;

    if (fstat(memfd, &file) < 0 || (uint64_t)file.st_size < context->limits.region_bytes ||
        !fanin_rings_fit(&context->limits))
        return FANIN_VERSION_MISMATCH;
    region = mmap(NULL, context->limits.region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (region == MAP_FAILED)
        return fanin_status_of_errno(errno);
    context->region = region;
    return FANIN_SUCCESS;
}

/* Takes the eventfd out of `fds`, so that it is not closed with them; the region's memfd is, once mapped. */
static enum fanin_status accept_attachment(struct fanin_context *context, size_t length, int fds[FANIN_MAX_FDS])
{
    enum fanin_status status;

    if (context->limits.head.version != FANIN_ABI_VERSION || length < sizeof context->limits)
        return FANIN_VERSION_MISMATCH;
    if (fds[0] < 0 || fds[1] < 0)
        return FANIN_VERSION_MISMATCH;
    status = map_region(context, fds[0]);
    if (status == FANIN_SUCCESS) {
        context->doorbell_fd = fds[1];
        fds[1] = -1;
    }
    return status;
}

/* The limit of FANIN_STAGING, or no limit. */
static enum fanin_status read_staging_limit(struct fanin_context *context)
{
    const char *text = getenv("FANIN_STAGING");
    char *rest;

    context->longest_bounced = UINT64_MAX;
    if (!text)
        return FANIN_SUCCESS;
    context->longest_bounced = strtoull(text, &rest, 10);
    if (*text >= '0' && *text <= '9' && !*rest)
        return FANIN_SUCCESS;
    return fanin_complain("FANIN_STAGING is '%.100s', not a number of bytes; set it to a number, or unset it", text);
}

enum fanin_status fanin_attach(struct fanin_context *context, struct fanin_attach_reply *limits)
{
    struct fanin_message message = {.type = FANIN_MSG_ATTACH};
    int memory, fds[FANIN_MAX_FDS] = {-1, -1};
    struct control_request request = {.reply = &context->limits, .capacity = sizeof context->limits, .fds = fds};
    enum fanin_status status;

    fanin_forget_complaint();
    if (context->region)
        return fanin_complain("the context is attached already");
    if (read_staging_limit(context) != FANIN_SUCCESS)
        return FANIN_INVALID_REQUEST;
    if (context->remote) {
        status = fanin_remote_attach(context);
        *limits = context->limits;
        return status;
    }
    /* Where /proc forbids it the device refuses FANIN_LKEY_PROCESS; registered memory works all the same. */
    memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    status = fanin_control_call(context, &request, &message, sizeof message, memory);
    if (memory >= 0)
        close(memory);
    if (status == FANIN_NO_RESOURCES)
        fanin_complain("the device has no room for another client: it has too many, or its log names what it lacks "
                       "(files above a limit: start it without ulimit -f)");
    if (status == FANIN_SUCCESS)
        status = accept_attachment(context, request.length, fds);
    fanin_close_fds(fds);
    *limits = context->limits;
    return status;
}

const struct fanin_attach_reply *fanin_limits(const struct fanin_context *context)
{
    return &context->limits;
}

uint32_t fanin_device_version(const struct fanin_context *context)
{
    return __atomic_load_n(&context->device_version, __ATOMIC_RELAXED);
}

void fanin_disconnect(struct fanin_context *context)
{
    if (context->remote)
        fanin_remote_close(context);
    if (context->region)
        munmap(context->region, context->limits.region_bytes);
    if (context->doorbell_fd >= 0)
        close(context->doorbell_fd);
    if (context->socket >= 0)
        close(context->socket);
    free(context);
}

enum fanin_status fanin_read_status(struct fanin_context *context, char *json, size_t capacity, size_t *length)
{
    struct fanin_message message = {.type = FANIN_MSG_STATUS};
    struct control_request request = {.capacity = sizeof message + capacity};
    enum fanin_status status;

    request.reply = calloc(1, request.capacity);
    if (!request.reply)
        return FANIN_NO_RESOURCES;
    status = fanin_control_call(context, &request, &message, sizeof message, -1);
    if (status == FANIN_SUCCESS) {
        *length = request.length - sizeof message;
        if (*length > capacity)
            status = FANIN_NO_RESOURCES;
        else
            memcpy(json, (char *)request.reply + sizeof message, *length);
    }
    free(request.reply);
    return status;
}
