/* Whether the device lives. One that ends says so in the doorbell page; a killed one has closed its socket; one that
 * stands still (stopped, or stuck) does not change its beat when it is woken. Checked only while a completion ring is
 * empty. Records 0032 and 0108 (docs/decisions): why by the beat, and why a lost device's queue pair is destroyed. */
#define _GNU_SOURCE
#include "device/access.h"
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEALTH_INTERVAL_MS 10 /* so that a busy poller rarely pays a system call */
#define WAKE_INTERVALS 25     /* wake-ups within the detection time */
#define GRACE_MS 20           /* for a woken device with a core to show a beat */
#define NAP_MS 10

/* Precise to a tick of the kernel, at a tenth of the cost: every post asks. */
static uint64_t coarse_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int socket_hung_up(const struct fanin_context *context)
{
    struct pollfd descriptor = {.fd = context->socket, .events = POLLRDHUP};

    return poll(&descriptor, 1, 0) > 0 && descriptor.revents;
}

/* Ranks that poll and yield can keep a device on the same cores from running for seconds (Linux 6.18 yields within the
 * session only), so sleep for a while. */
static void yield_core(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
}

/* `idle_ms`: time since the last look. A long time without a look does not count, since it had no wake-ups. */
static int stands_still(struct fanin_context *context, uint64_t now, uint64_t idle_ms)
{
    const struct fanin_doorbell *doorbell = (const void *)context->region;
    uint64_t bound = doorbell ? doorbell->detection_ms : 0;
    uint32_t beat;

    if (!bound) {
        context->beat_changed_ms = now; /* not attached yet */
        return 0;
    }
    beat = __atomic_load_n(&doorbell->beat, __ATOMIC_ACQUIRE);
    if (idle_ms > 2 * FANIN_SLICE_MS)
        context->beat_changed_ms += idle_ms - FANIN_SLICE_MS;
    if (beat != context->beat || context->beat_changed_ms > now) {
        context->beat = beat;
        context->beat_changed_ms = context->device_woken_ms = now;
        context->first_woken_ms = 0;
        return 0;
    }
    if ((int64_t)(now - context->beat_changed_ms) > (int64_t)bound)
        return 1;
    if (now - context->device_woken_ms >= bound / WAKE_INTERVALS) {
        context->device_woken_ms = now;
        if (!context->first_woken_ms)
            context->first_woken_ms = now;
        context->access->wake(context);
    }
    if (context->first_woken_ms && now - context->first_woken_ms >= GRACE_MS)
        yield_core();
    return 0;
}

void fanin_lose_device(struct fanin_context *context)
{
    if (!context->access->cut(context))
        __atomic_store_n(&context->stands_still, 1, __ATOMIC_RELEASE); /* it may still write */
    __atomic_store_n(&context->lost, 1, __ATOMIC_RELEASE);
}

/* The shutdown tells a device that runs again later that this process has gone, so that it tells the other ranks. */
static void give_up(struct fanin_context *context)
{
    context->access->cut(context);
    __atomic_store_n(&context->stands_still, 1, __ATOMIC_RELEASE);
    shutdown(context->socket, SHUT_RDWR);
}

static int look(struct fanin_context *context)
{
    uint64_t now = coarse_now_ms(), checked = __atomic_load_n(&context->health_checked_ms, __ATOMIC_RELAXED);
    int lost = socket_hung_up(context) || context->access->is_broken(context);

    __atomic_store_n(&context->health_checked_ms, now, __ATOMIC_RELAXED);
    if (!lost && stands_still(context, now, now - checked)) {
        give_up(context);
        lost = 1;
    }
    if (lost)
        fanin_lose_device(context);
    return lost;
}

int fanin_device_lost(struct fanin_context *context)
{
    const struct fanin_doorbell *doorbell = (const void *)context->region;
    int lost;

    if (__atomic_load_n(&context->lost, __ATOMIC_ACQUIRE))
        return 1;
    if (doorbell && __atomic_load_n(&doorbell->device_gone, __ATOMIC_ACQUIRE)) {
        fanin_lose_device(context);
        return 1;
    }
    if (coarse_now_ms() - __atomic_load_n(&context->health_checked_ms, __ATOMIC_RELAXED) < HEALTH_INTERVAL_MS)
        return 0;
    /* One thread at a time looks; the others try again in 10 ms. */
    if (__atomic_exchange_n(&context->checking_health, 1, __ATOMIC_ACQUIRE))
        return 0;
    lost = look(context);
    __atomic_store_n(&context->checking_health, 0, __ATOMIC_RELEASE);
    return lost;
}

int fanin_device_is_lost(struct fanin_context *context)
{
    return fanin_device_lost(context);
}

int fanin_device_stands_still(const struct fanin_context *context)
{
    return (int)__atomic_load_n(&context->stands_still, __ATOMIC_ACQUIRE);
}
