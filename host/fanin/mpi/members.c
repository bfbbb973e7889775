/* The members of this process: their queues, and how they leave. */
#define _GNU_SOURCE
#include "members.h"
#include "device.h"
#include "world.h"
#include <stdlib.h>
#include <time.h>

#define LEAVE_MS 10000 /* that a device may take to confirm */

static struct member *members; /* that have not been left */
static struct member *leaving;
static uint32_t queues;        /* in use */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t fanin_queues_in_use(void)
{
    return __atomic_load_n(&queues, __ATOMIC_RELAXED);
}

static enum fanin_status make_queues(struct member *member)
{
    uint32_t cq, qp;
    enum fanin_status status = fanin_create_cq(fanin_device.context, &cq);

    if (status != FANIN_SUCCESS)
        return status;
    status = fanin_create_qp(fanin_device.context, cq, &qp);
    if (status != FANIN_SUCCESS) {
        fanin_destroy_cq(fanin_device.context, cq);
        return status;
    }
    member->stream.cq = cq;
    member->stream.qp = qp;
    __atomic_add_fetch(&queues, 1, __ATOMIC_RELAXED);
    return FANIN_SUCCESS;
}

void fanin_destroy_queues(struct member *member)
{
    if (!member->abandoned)
        fanin_destroy_qp(fanin_device.context, member->stream.qp);
    fanin_destroy_cq(fanin_device.context, member->stream.cq);
    __atomic_sub_fetch(&queues, 1, __ATOMIC_RELAXED);
}

enum fanin_status fanin_find_queues(struct member *member)
{
    enum fanin_status status = make_queues(member);

    if (status == FANIN_NO_RESOURCES) { /* those of jobs that were left may come free */
        fanin_finish_leaving(LEAVE_MS);
        status = make_queues(member);
    }
    return status;
}

void fanin_enter_member(struct member *member)
{
    fanin_hold_member(member);
    pthread_mutex_lock(&lock);
    member->next = members;
    members = member;
    pthread_mutex_unlock(&lock);
}

void fanin_hold_member(struct member *member)
{
    __atomic_add_fetch(&member->references, 1, __ATOMIC_RELAXED);
}

void fanin_release_member(struct member *member)
{
    if (__atomic_sub_fetch(&member->references, 1, __ATOMIC_ACQ_REL))
        return;
    pthread_mutex_destroy(&member->stream.lock);
    free(member);
}

static void unlink_member(struct member **list, const struct member *member)
{
    while (*list && *list != member)
        list = &(*list)->next;
    if (*list)
        *list = member->next;
}

static int is_drained(struct member *member)
{
    int drained;

    fanin_stream_advance(&member->stream);
    pthread_mutex_lock(&member->stream.lock);
    drained = !member->stream.first;
    pthread_mutex_unlock(&member->stream.lock);
    return drained;
}

/* Wait until nothing is under way, and let all else go on meanwhile. Returns whether it is so. */
static int drain(struct member *member, uint32_t timeout_ms)
{
    static const struct timespec slice = {.tv_nsec = 1000000};

    for (uint32_t waited = 0; !is_drained(member); waited++) {
        if (waited >= timeout_ms)
            return 0;
        nanosleep(&slice, NULL);
        fanin_let_mpi_progress();
        fanin_advance_all();
    }
    return 1;
}

/* Returns whether the device has been told. */
static int begin_leaving(struct member *member)
{
    return member->leave || fanin_leave(fanin_device.context, member->stream.qp, &member->leave) == FANIN_SUCCESS;
}

static void end_member(struct member *member)
{
    if (member->leave)
        fanin_forget(member->leave);
    fanin_destroy_queues(member);
    fanin_release_member(member);
}

/* Whether a member that is left can end: the device has confirmed it, or `timeout_ms` are over. Never while something is
 * under way in it: the device writes to memory of the program, and a rank waits for that. */
static int can_end(struct member *member, uint32_t timeout_ms)
{
    struct fanin_join_reply reply;
    int confirmed;

    if (!drain(member, timeout_ms))
        return 0;
    if (member->abandoned)
        return 1;
    confirmed = begin_leaving(member) && fanin_await(member->leave, &reply, timeout_ms) != FANIN_PENDING;
    return confirmed || timeout_ms;
}

/* The members that have been left come off the list one by one. */
static void reap(uint32_t timeout_ms)
{
    struct member *left, *kept = NULL;

    pthread_mutex_lock(&lock);
    left = leaving;
    leaving = NULL;
    pthread_mutex_unlock(&lock);
    while (left) {
        struct member *member = left;
        left = member->next;
        if (can_end(member, timeout_ms)) {
            end_member(member);
            continue;
        }
        member->next = kept;
        kept = member;
    }
    pthread_mutex_lock(&lock);
    while (kept) {
        struct member *member = kept;
        kept = member->next;
        member->next = leaving;
        leaving = member;
    }
    pthread_mutex_unlock(&lock);
}

/* Does not wait: others may leave much later. What the device has confirmed meanwhile is given back. */
void fanin_leave_job(struct member *member)
{
    pthread_mutex_lock(&lock);
    unlink_member(&members, member);
    member->next = leaving;
    leaving = member;
    pthread_mutex_unlock(&lock);
    reap(0);
}

void fanin_leave_all(void)
{
    while (members)
        fanin_leave_job(members);
}

void fanin_finish_leaving(unsigned timeout_ms)
{
    reap(timeout_ms);
}

void fanin_abandon_job(struct member *member)
{
    if (__atomic_exchange_n(&member->abandoned, 1, __ATOMIC_ACQ_REL))
        return;
    fanin_destroy_qp(fanin_device.context, member->stream.qp);
    fanin_stream_end(&member->stream, FANIN_NO_RESOURCES);
}

void fanin_advance_all(void)
{
    pthread_mutex_lock(&lock);
    for (struct member *member = members; member; member = member->next)
        fanin_stream_advance(&member->stream);
    pthread_mutex_unlock(&lock);
}

int fanin_others_wait(const struct stream *stream)
{
    int wait = 0;

    pthread_mutex_lock(&lock);
    for (struct member *member = members; member && !wait; member = member->next)
        wait = &member->stream != stream && fanin_stream_has_backlog(&member->stream);
    pthread_mutex_unlock(&lock);
    return wait;
}
