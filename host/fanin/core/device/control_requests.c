/* Tagged requests of several threads over one socket. Replies come in any order. One of the waiting threads reads the
 * socket and hands each reply to its request by tag; when it has its own, the next one takes over. */
#define _GNU_SOURCE
#include "device/access.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

static void unlink_request(struct fanin_context *context, const struct control_request *request)
{
    for (struct control_request **link = &context->pending; *link; link = &(*link)->next)
        if (*link == request) {
            *link = request->next;
            return;
        }
}

/* Drops a reply without a request, and closes its descriptors. */
static void dispatch(struct fanin_context *context, size_t size, int fds[FANIN_MAX_FDS])
{
    const struct fanin_message *head = (const void *)context->reply;
    struct control_request *request = size < sizeof *head ? NULL : context->pending;

    if (size >= sizeof *head)
        __atomic_store_n(&context->device_version, head->version, __ATOMIC_RELAXED);
    while (request && request->tag != head->tag)
        request = request->next;
    if (request && !request->answered) {
        memcpy(request->reply, head, size < request->capacity ? size : request->capacity);
        request->length = size;
        for (int i = 0; request->fds && i < FANIN_MAX_FDS; i++) {
            request->fds[i] = fds[i];
            fds[i] = -1;
        }
        /* PENDING says who is missing in a JOIN; it is not its end. */
        request->answered = head->status != FANIN_PENDING;
    }
    fanin_close_fds(fds);
}

/* Called with the lock held and `reading` clear; releases the lock while it waits. */
static void read_for_all(struct fanin_context *context, uint64_t wait_ms)
{
    struct pollfd descriptor = {.fd = context->socket, .events = POLLIN};
    int fds[FANIN_MAX_FDS] = {-1, -1};
    ssize_t size = -1;

    context->reading = 1;
    pthread_mutex_unlock(&context->request_lock);
    errno = EAGAIN;
    if (poll(&descriptor, 1, (int)wait_ms) > 0)
        size = context->access->receive(context, context->reply, sizeof context->reply, fds);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
        fanin_lose_device(context);
    pthread_mutex_lock(&context->request_lock);
    context->reading = 0;
    if (size > 0)
        dispatch(context, (size_t)size, fds);
    pthread_cond_broadcast(&context->answered);
}

static void sleep_until_answer(struct fanin_context *context, uint64_t wait_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)wait_ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&context->answered, &context->request_lock, &until);
}

enum fanin_status fanin_control_start(struct fanin_context *context, struct control_request *request,
                                      struct fanin_message *message, size_t size, int fd)
{
    enum fanin_status status;

    request->context = context;
    request->answered = 0;
    pthread_mutex_lock(&context->request_lock);
    request->tag = ++context->last_tag;
    request->next = context->pending;
    context->pending = request;
    message->version = FANIN_ABI_VERSION;
    message->tag = request->tag;
    message->status = FANIN_SUCCESS;
    status = context->access->send(context, message, size, fd);
    if (status != FANIN_SUCCESS)
        unlink_request(context, request);
    pthread_mutex_unlock(&context->request_lock);
    if (status == FANIN_DEVICE_LOST)
        fanin_lose_device(context);
    return status;
}

enum fanin_status fanin_control_wait(struct control_request *request, uint32_t timeout_ms)
{
    struct fanin_context *context = request->context;
    uint64_t deadline = fanin_now_ms() + timeout_ms, now;
    enum fanin_status status = FANIN_PENDING;
    int answered;

    pthread_mutex_lock(&context->request_lock);
    do {
        now = fanin_now_ms();
        uint64_t left = deadline > now ? deadline - now : 0;
        uint64_t slice = fanin_device_lost(context) ? 0 : left < FANIN_SLICE_MS ? left : FANIN_SLICE_MS;
        if (request->answered)
            break;
        if (context->reading)
            sleep_until_answer(context, slice);
        else
            read_for_all(context, slice); /* also takes a reply of a device that has ended since */
    } while (now < deadline && !fanin_device_lost(context));
    answered = request->answered;
    if (!answered && fanin_device_lost(context))
        status = FANIN_DEVICE_LOST;
    pthread_mutex_unlock(&context->request_lock);
    return answered ? ((const struct fanin_message *)request->reply)->status : status;
}

void fanin_control_end(struct control_request *request)
{
    pthread_mutex_lock(&request->context->request_lock);
    unlink_request(request->context, request);
    pthread_mutex_unlock(&request->context->request_lock);
}

/* At least the detection time: until then a device that answers late is not lost. */
uint32_t fanin_request_timeout_ms(const struct fanin_context *context)
{
    const struct fanin_doorbell *doorbell = (const void *)context->region;
    uint32_t detection_ms = doorbell ? doorbell->detection_ms : 0;

    return detection_ms > FANIN_REQUEST_TIMEOUT_MS ? detection_ms : FANIN_REQUEST_TIMEOUT_MS;
}

enum fanin_status fanin_control_call(struct fanin_context *context, struct control_request *request,
                                     struct fanin_message *message, size_t size, int fd)
{
    enum fanin_status status = fanin_control_start(context, request, message, size, fd);

    if (status != FANIN_SUCCESS)
        return status;
    status = fanin_control_wait(request, fanin_request_timeout_ms(context));
    fanin_control_end(request);
    return status == FANIN_PENDING ? FANIN_TIMEOUT : status;
}

enum fanin_status fanin_exchange(struct fanin_context *context, uint16_t type, struct fanin_message *message,
                                 size_t size, int fd)
{
    struct control_request request = {.reply = message, .capacity = size};
    enum fanin_status status;

    message->type = type;
    status = fanin_control_call(context, &request, message, size, fd);
    return status == FANIN_SUCCESS && request.length < size ? FANIN_VERSION_MISMATCH : status;
}
