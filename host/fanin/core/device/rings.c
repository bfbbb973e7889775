/* The data path: work requests into send rings, completions out of completion rings, and the sleep between.
 *
 * Counters are free-running 32-bit numbers. Each side stores its own counter with release and loads the other with
 * acquire. "Store, full fence, load the other side" keeps wake-ups from being lost. */
#define _GNU_SOURCE
#include "complaint.h"
#include "device/access.h"
#include "device/layout.h"
#include "device/remote.h"
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_SPIN_BUDGET 50 /* yields: cheaper than a sleep if the device answers at once */
#define MIN_SPIN_BUDGET 3  /* below this, none: across a network or beside other load yields do not pay */
#define RETRY_INTERVAL 64      /* sleeps until the next try, since other load comes and goes */
#define POLL_NS 2000          /* ns of polling without a yield */
#define POLLS_PER_CLOCK 8            /* polls per look at the clock */
#define POLL_MISS_COST 2       /* successful looks that pay for a failed one */
#define MAX_POLL_CREDIT 64
#define MAX_SPIN_DISTANCE 1             /* completions */
#define MIN_SPIN_NS 50000   /* ns: about the cost of a wake-up; yields are short on an idle core */

void fanin_ring_doorbell(struct fanin_context *context)
{
    const struct fanin_doorbell *doorbell = (const void *)context->region;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&doorbell->device_sleeping, __ATOMIC_RELAXED))
        context->access->wake(context);
}

enum fanin_status fanin_post_owned(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe)
{
    struct fanin_ring *ring = send_ring(context, qp);
    struct fanin_wqe *entries;
    uint32_t producer;

    if (!ring)
        return fanin_complain("there is no queue pair %u", qp);
    entries = (void *)(ring + 1);
    if (fanin_device_lost(context))
        return FANIN_DEVICE_LOST;
    producer = ring->producer;
    if (producer - ring->consumer_seen >= FANIN_SQ_DEPTH && context->remote && fanin_remote_look(context, ring))
        return FANIN_DEVICE_LOST;
    if (producer - ring->consumer_seen >= FANIN_SQ_DEPTH)
        ring->consumer_seen = __atomic_load_n(&ring->consumer, __ATOMIC_ACQUIRE);
    if (producer - ring->consumer_seen >= FANIN_SQ_DEPTH)
        return FANIN_QUEUE_FULL;
    entries[producer % FANIN_SQ_DEPTH] = *wqe;
    __atomic_store_n(&ring->producer, producer + 1, __ATOMIC_RELEASE);
    if (context->remote)
        return fanin_remote_send(context, qp, &entries[producer % FANIN_SQ_DEPTH]);
    fanin_ring_doorbell(context);
    return FANIN_SUCCESS;
}

enum fanin_status fanin_post(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe)
{
    enum fanin_status status;

    pthread_mutex_lock(&context->ring_lock);
    status = fanin_post_owned(context, qp, wqe);
    pthread_mutex_unlock(&context->ring_lock);
    return status;
}

enum fanin_status fanin_post_next(struct fanin_context *context, uint32_t qp, struct fanin_cursor *cursor,
                                  const struct fanin_wqe *wqe)
{
    enum fanin_status status = fanin_post(context, qp, wqe);

    if (status != FANIN_SUCCESS)
        return status;
    cursor->mid = (wqe->mid + 1) & ((1u << FANIN_MID_BITS) - 1);
    cursor->position += wqe->segments;
    return status;
}

/* Why an empty completion ring stays empty, or FANIN_SUCCESS. */
static enum fanin_status ring_error(struct fanin_context *context, const struct fanin_ring *ring)
{
    if (__atomic_load_n(&ring->overrun, __ATOMIC_ACQUIRE))
        return FANIN_CQ_OVERRUN;
    return fanin_device_lost(context) ? FANIN_DEVICE_LOST : FANIN_SUCCESS;
}

enum fanin_status fanin_poll_owned(struct fanin_context *context, uint32_t cq, struct fanin_cqe *cqes,
                                   uint32_t capacity, uint32_t *count, uint32_t *seen)
{
    struct fanin_ring *ring = completion_ring(context, cq);
    const struct fanin_cqe *entries;
    uint32_t consumer, available, taken = 0;

    *count = 0;
    if (!ring)
        return fanin_complain("there is no completion queue %u", cq);
    if (context->remote)
        fanin_remote_take(context);
    entries = (const void *)(ring + 1);
    consumer = ring->consumer;
    available = __atomic_load_n(&ring->producer, __ATOMIC_ACQUIRE) - consumer;
    for (; taken < available && taken < capacity; taken++)
        cqes[taken] = entries[(consumer + taken) % FANIN_CQ_DEPTH];
    if (taken)
        __atomic_store_n(&ring->consumer, consumer + taken, __ATOMIC_RELEASE);
    if (context->remote)
        fanin_remote_consumed(context, cq, ring);
    *count = taken;
    *seen = consumer + taken;
    return available ? FANIN_SUCCESS : ring_error(context, ring);
}

enum fanin_status fanin_poll(struct fanin_context *context, uint32_t cq, struct fanin_cqe *cqes, uint32_t capacity,
                             uint32_t *count, uint32_t *seen)
{
    enum fanin_status status;

    pthread_mutex_lock(&context->ring_lock);
    status = fanin_poll_owned(context, cq, cqes, capacity, count, seen);
    pthread_mutex_unlock(&context->ring_lock);
    return status;
}

enum fanin_status fanin_stored(struct fanin_context *context, uint32_t cq, uint32_t *stored)
{
    const struct fanin_ring *ring = completion_ring(context, cq);

    if (!ring)
        return fanin_complain("there is no completion queue %u", cq);
    *stored = __atomic_load_n(&ring->producer, __ATOMIC_ACQUIRE);
    return FANIN_SUCCESS;
}

enum fanin_status fanin_taken(struct fanin_context *context, uint32_t cq, uint32_t *taken)
{
    const struct fanin_ring *ring = completion_ring(context, cq);

    if (!ring)
        return fanin_complain("there is no completion queue %u", cq);
    *taken = __atomic_load_n(&ring->consumer, __ATOMIC_ACQUIRE);
    return FANIN_SUCCESS;
}

static int is_at(uint32_t counter, uint32_t target)
{
    return (int32_t)(counter - target) >= 0;
}

static struct fanin_cqe *entry_at(struct fanin_ring *ring, uint32_t counter)
{
    return (struct fanin_cqe *)(ring + 1) + counter % FANIN_CQ_DEPTH;
}

/* Whether a completion wakes programs that asked for solicited ones only. */
static int is_solicited(const struct fanin_cqe *cqe)
{
    const struct fanin_wc *wc = fanin_wc_of(cqe);

    return !wc || wc->status != FANIN_WC_SUCCESS || !wc->unsolicited;
}

int fanin_is_solicited(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t *stored)
{
    struct fanin_ring *ring = completion_ring(context, cq);
    int found;

    if (!ring)
        return 1;
    pthread_mutex_lock(&context->ring_lock); /* so that no thread takes them meanwhile */
    *stored = __atomic_load_n(&ring->producer, __ATOMIC_ACQUIRE);
    found = ring->overrun || is_at(ring->consumer, seen + 1);
    while (!found && seen != *stored)
        found = is_solicited(entry_at(ring, seen++));
    pthread_mutex_unlock(&context->ring_lock);
    return found;
}

void fanin_discard_completions(struct fanin_context *context, uint32_t cq, uint32_t qpn)
{
    struct fanin_ring *ring = completion_ring(context, cq);
    uint32_t consumer, kept;

    if (!ring)
        return;
    pthread_mutex_lock(&context->ring_lock);
    consumer = ring->consumer;
    kept = __atomic_load_n(&ring->producer, __ATOMIC_ACQUIRE);
    for (uint32_t place = kept; place != consumer; place--) { /* the others move up in order */
        const struct fanin_cqe *entry = entry_at(ring, place - 1);
        const struct fanin_wc *wc = fanin_wc_of(entry);
        if ((!wc || wc->qpn != qpn) && --kept != place - 1)
            *entry_at(ring, kept) = *entry;
    }
    __atomic_store_n(&ring->consumer, kept, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&context->ring_lock);
}

const struct fanin_wc *fanin_wc_of(const struct fanin_cqe *cqe)
{
    return cqe->kind == FANIN_COMPLETION_ORDINARY ? (const void *)cqe : NULL;
}

static int has_reached(const struct fanin_ring *ring, uint32_t target)
{
    return is_at(__atomic_load_n(&ring->producer, __ATOMIC_ACQUIRE), target);
}

/* The same, after taking messages of a device over RDMA. */
static int has_come(struct fanin_context *context, const struct fanin_ring *ring, uint32_t target)
{
    if (context->remote)
        fanin_remote_take(context);
    return has_reached(ring, target);
}

/* Whether the completion comes soon enough to spin for it. */
static int is_near(const struct fanin_ring *ring, uint32_t target)
{
    return target - __atomic_load_n(&ring->producer, __ATOMIC_RELAXED) <= MAX_SPIN_DISTANCE;
}

/* Number of yields this time. */
static uint32_t take_budget(struct fanin_context *context)
{
    uint32_t budget = __atomic_load_n(&context->spin_budget, __ATOMIC_RELAXED);

    if (budget >= MIN_SPIN_BUDGET)
        return budget;
    return __atomic_add_fetch(&context->sleeps, 1, __ATOMIC_RELAXED) % RETRY_INTERVAL ? 0 : MAX_SPIN_BUDGET;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Poll for two microseconds without a yield, if that has mostly succeeded: a device with a core of its own answers so
 * fast. */
static int look(struct fanin_context *context, const struct fanin_ring *ring, uint32_t target)
{
    uint32_t credit = __atomic_load_n(&context->poll_credit, __ATOMIC_RELAXED);
    int found = 0;

    if (credit < POLL_MISS_COST && __atomic_add_fetch(&context->polls_skipped, 1, __ATOMIC_RELAXED) % RETRY_INTERVAL)
        return 0;
    for (uint64_t until = now_ns() + POLL_NS; !found && now_ns() < until;)
        for (uint32_t looks = 0; !found && looks < POLLS_PER_CLOCK; looks++) {
            pause_core();
            found = has_come(context, ring, target);
        }
    if (found)
        credit = credit < MAX_POLL_CREDIT ? credit + 1 : MAX_POLL_CREDIT;
    else
        credit = credit > POLL_MISS_COST ? credit - POLL_MISS_COST : 0;
    __atomic_store_n(&context->poll_credit, found && credit < POLL_MISS_COST ? POLL_MISS_COST : credit,
                     __ATOMIC_RELAXED);
    return found;
}

/* Yield for a while. The budget shrinks while that fails, and grows when it succeeds. Record 0012 (docs/decisions) says
 * for how long. */
static int spin(struct fanin_context *context, const struct fanin_ring *ring, uint32_t target)
{
    uint32_t budget;
    uint64_t until;
    int found = 0;

    if (look(context, ring, target))
        return 1;
    budget = take_budget(context);
    if (budget == 0)
        return 0;
    until = now_ns() + MIN_SPIN_NS;
    for (uint32_t yields = 0; !found && (yields < budget || now_ns() < until); yields++) {
        sched_yield();
        found = has_come(context, ring, target);
    }
    budget = !found ? budget / 2 : budget < MAX_SPIN_BUDGET / 2 ? budget * 2 : MAX_SPIN_BUDGET;
    __atomic_store_n(&context->spin_budget, budget, __ATOMIC_RELAXED);
    return found;
}

/* Set `wake_at` to the nearest target of all sleepers; one that has been reached is stale. */
static void request_wake_up(struct fanin_ring *ring, uint32_t target)
{
    uint32_t other = __atomic_load_n(&ring->wake_at, __ATOMIC_RELAXED);

    while ((has_reached(ring, other) || !is_at(target, other)) &&
           !__atomic_compare_exchange_n(&ring->wake_at, &other, target, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

/* `waiting` counts the sleepers; the device wakes all of them. */
static void sleep_on(struct fanin_ring *ring, uint32_t target, uint64_t wait_ms)
{
    struct timespec limit = {.tv_sec = (time_t)(wait_ms / 1000), .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    uint32_t producer;

    request_wake_up(ring, target);
    __atomic_fetch_add(&ring->waiting, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    producer = __atomic_load_n(&ring->producer, __ATOMIC_ACQUIRE);
    if (!is_at(producer, target))
        syscall(SYS_futex, &ring->producer, FUTEX_WAIT, producer, &limit, NULL, 0);
    __atomic_fetch_sub(&ring->waiting, 1, __ATOMIC_SEQ_CST);
}

enum fanin_status fanin_wait_cq(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t timeout_ms)
{
    return fanin_await_completion(context, cq, seen + 1, timeout_ms);
}

enum fanin_status fanin_sleep_cq(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t longest_ms)
{
    struct fanin_ring *ring = completion_ring(context, cq);
    enum fanin_status status;

    if (!ring)
        return FANIN_INVALID_REQUEST;
    if (has_reached(ring, seen + 1))
        return FANIN_SUCCESS;
    if (__atomic_load_n(&context->first_woken_ms, __ATOMIC_RELAXED) && longest_ms > FANIN_SLICE_MS)
        longest_ms = FANIN_SLICE_MS; /* the device may stand still */
    sleep_on(ring, seen + 1, longest_ms);
    if (has_reached(ring, seen + 1))
        return FANIN_SUCCESS;
    status = ring_error(context, ring);
    return status == FANIN_SUCCESS ? FANIN_PENDING : status;
}

void fanin_wake_cq(struct fanin_context *context, uint32_t cq)
{
    struct fanin_ring *ring = completion_ring(context, cq);

    if (ring)
        syscall(SYS_futex, &ring->producer, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

enum fanin_status fanin_await_completion(struct fanin_context *context, uint32_t cq, uint32_t target,
                                         uint32_t timeout_ms)
{
    struct fanin_ring *ring = completion_ring(context, cq);
    enum fanin_status status;
    uint64_t deadline, now;

    if (!ring)
        return FANIN_INVALID_REQUEST;
    if (has_reached(ring, target) || (timeout_ms && is_near(ring, target) && spin(context, ring, target)))
        return FANIN_SUCCESS;
    deadline = fanin_now_ms() + timeout_ms;
    do {
        now = fanin_now_ms();
        uint64_t left = deadline > now ? deadline - now : 0;
        if (left)
            sleep_on(ring, target, left < FANIN_SLICE_MS ? left : FANIN_SLICE_MS);
        if (has_reached(ring, target))
            return FANIN_SUCCESS;
        status = ring_error(context, ring);
    } while (status == FANIN_SUCCESS && now < deadline);
    return status == FANIN_SUCCESS ? FANIN_PENDING : status;
}
