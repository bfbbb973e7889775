/* Is the device still there? One that ends says so in the doorbell page; a killed one has left its socket; one that
 * stands still (stopped, or stuck) does not change its beat although it is woken. Nothing is asked of a device while it
 * gives completions: all this happens when a completion ring is empty.
 * Records 0032 and 0108 (docs/decisions): why by the beat, and why a lost device's queue pair is destroyed.
 */
#define _GNU_SOURCE
#include "device/access.h"
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEALTH_INTERVAL_MS 10 /* a busy poller must not pay a system call each time */
#define WAKE_INTERVALS 25     /* wake-ups in the time after which a device is lost */
#define GRACE_MS 20           /* after a wake-up a device shows a beat, if it gets a core */
#define NAP_MS 10

/* To within a tick of the kernel, for a tenth of the price: each post asks. */
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

/* Ranks that poll and yield can keep a device on the same cores from running for seconds (Linux 6.18: a yield is to the
 * others of the session). Whoever needs it leaves his core for some time. */
static void give_way(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
}

/* `idle_ms`: since the last look. Who has not looked for long (the program was busy, or stopped itself) has woken
 * nobody: that time does not count. */
static int stands_still(struct fanin_context *context, uint64_t now, uint64_t idle_ms)
{
    const struct fanin_doorbell *doorbell = (const void *)context->region;
    uint64_t bound = doorbell ? doorbell->detection_ms : 0;
    uint32_t beat;

    if (!bound) {
        context->beat_changed_ms = now; /* not attached yet: the time of a device begins with its first look */
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
        give_way();
    return 0;
}

void fanin_lose_device(struct fanin_context *context)
{
    if (!context->access->cut(context))
        __atomic_store_n(&context->stands_still, 1, __ATOMIC_RELEASE); /* it may write, as one that goes on later */
    __atomic_store_n(&context->lost, 1, __ATOMIC_RELEASE);
}

/* A device that stands still and runs again finds this process gone, and tells the ranks that have waited for it. */
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
    /* One thread at a time has the look; the others come again in 10 ms. */
    if (__atomic_exchange_n(&context->looking, 1, __ATOMIC_ACQUIRE))
        return 0;
    lost = look(context);
    __atomic_store_n(&context->looking, 0, __ATOMIC_RELEASE);
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
