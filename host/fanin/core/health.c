/* Is the device still there? An orderly one says so in the doorbell page; a killed one has left its socket. */
#define _GNU_SOURCE
#include "context.h"
#include <poll.h>
#include <time.h>

#define HEALTH_INTERVAL_MS 10 /* a busy poller must not pay a system call each time */

uint64_t fanin_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int socket_hung_up(const struct fanin_context *context)
{
    struct pollfd descriptor = {.fd = context->socket, .events = POLLRDHUP};

    return poll(&descriptor, 1, 0) > 0 && descriptor.revents;
}

int fanin_device_lost(struct fanin_context *context)
{
    const struct fanin_doorbell *doorbell = (const void *)context->region;
    uint64_t now;

    if (__atomic_load_n(&context->lost, __ATOMIC_ACQUIRE) ||
        (doorbell && __atomic_load_n(&doorbell->device_gone, __ATOMIC_ACQUIRE)))
        return 1;
    now = fanin_now_ms();
    if (now - __atomic_load_n(&context->health_checked_ms, __ATOMIC_RELAXED) < HEALTH_INTERVAL_MS)
        return 0;
    __atomic_store_n(&context->health_checked_ms, now, __ATOMIC_RELAXED);
    if (!socket_hung_up(context))
        return 0;
    __atomic_store_n(&context->lost, 1, __ATOMIC_RELEASE);
    return 1;
}
