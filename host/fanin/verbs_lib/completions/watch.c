/* A thread for each completion queue with a channel: when the program has asked for an event, it waits for a completion
 * that the program has neither polled nor been told of. That completion may have come before: UCX polls, asks for an
 * event, and waits. As mlx5 it tells of all that is not polled, but once only: perftest asks for the next event before
 * it polls, and counts events as completions. */
#define _GNU_SOURCE /* pthread_timedjoin_np */
#include "completions/completions.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum {
    SLEEP_MS = 500,           /* between checks whether the device is lost */
    JOIN_NS = 1000000         /* between wake-ups of a thread that must end */
};

struct our_watch {
    struct ibv_cq *cq;
    pthread_t thread;
    pthread_mutex_t lock;     /* of what follows */
    pthread_cond_t changed;
    int is_asked, is_ending;
    int is_picky;             /* an event only for solicited completions and errors */
    uint32_t seen;            /* completions before the one to tell of */
    uint32_t told;            /* completions at the last event */
};

static int is_behind(uint32_t counter, uint32_t other)
{
    return (int32_t)(counter - other) < 0;
}

/* Wait until the program asks for an event; 0: the queue ends. */
static int await_request(struct our_watch *watch, uint32_t *seen)
{
    int asked;

    pthread_mutex_lock(&watch->lock);
    while (!watch->is_asked && !watch->is_ending)
        pthread_cond_wait(&watch->changed, &watch->lock);
    asked = !watch->is_ending;
    *seen = watch->seen;
    pthread_mutex_unlock(&watch->lock);
    return asked;
}

/* Whether a completion after `seen` is one that the program has asked for; if not, moves `seen` on. */
static int is_wanted(struct our_watch *watch, uint32_t seen)
{
    uint32_t stored;

    if (!watch->is_picky || fanin_is_solicited(our_fanin(watch->cq->context), our_cq(watch->cq)->number, seen, &stored))
        return 1;
    watch->seen = stored;
    return 0;
}

/* With the lock held. */
static void tell(struct our_watch *watch)
{
    fanin_stored(our_fanin(watch->cq->context), our_cq(watch->cq)->number, &watch->told);
    watch->is_asked = 0;
    our_tell(watch->cq);
}

/* Tell of a completion after `seen`, unless the program was told and has asked again. `is_trouble`: none will come. */
static void answer(struct our_watch *watch, uint32_t seen, int is_trouble)
{
    pthread_mutex_lock(&watch->lock);
    if (watch->is_asked && watch->seen == seen && (is_trouble || is_wanted(watch, seen)))
        tell(watch);
    pthread_mutex_unlock(&watch->lock);
}

/* A lost device or an overrun is an event, too, which the poll then reports. */
static void *wait_for_completions(void *argument)
{
    struct our_watch *watch = argument;
    enum fanin_status status;
    uint32_t seen;

    while (await_request(watch, &seen)) {
        status = fanin_sleep_cq(our_fanin(watch->cq->context), our_cq(watch->cq)->number, seen, SLEEP_MS);
        if (status == FANIN_PENDING)
            continue;
        our_outcome_of(watch->cq, status);
        answer(watch, seen, status != FANIN_SUCCESS);
    }
    return NULL;
}

static int start_thread(struct our_watch *watch)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
    error = pthread_create(&watch->thread, NULL, wait_for_completions, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

struct our_watch *our_start_watch(struct ibv_cq *cq)
{
    struct our_watch *watch = calloc(1, sizeof *watch);

    if (!watch)
        return NULL;
    watch->cq = cq;
    fanin_taken(our_fanin(cq->context), our_cq(cq)->number, &watch->told);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, NULL);
    if (start_thread(watch))
        return watch;
    free(watch);
    return NULL;
}

/* Repeats the wake-up, which a thread that is about to sleep misses. */
static void end_thread(struct our_watch *watch)
{
    struct timespec until;

    do {
        fanin_wake_cq(our_fanin(watch->cq->context), our_cq(watch->cq)->number);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += JOIN_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
    } while (pthread_timedjoin_np(watch->thread, NULL, &until));
}

void our_end_watch(struct our_watch *watch)
{
    if (our_is_inherited(watch->cq->context)) { /* the thread is the parent's */
        free(watch);
        return;
    }
    pthread_mutex_lock(&watch->lock);
    watch->is_ending = 1;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    end_thread(watch);
    pthread_mutex_destroy(&watch->lock);
    pthread_cond_destroy(&watch->changed);
    free(watch);
}

int our_request_event(struct ibv_cq *cq, int solicited_only)
{
    struct our_watch *watch = our_cq(cq)->watch;
    uint32_t seen;
    int error, is_due;

    if (!watch)
        return EINVAL;
    if (our_is_inherited(cq->context))
        return EIO;
    error = our_errno(fanin_taken(our_fanin(cq->context), our_cq(cq)->number, &seen));
    if (error)
        return error;
    pthread_mutex_lock(&watch->lock);
    if (watch->is_asked && is_behind(watch->seen, seen) && is_wanted(watch, watch->seen))
        tell(watch); /* the thread has not told yet */
    if (is_behind(watch->told, seen))
        watch->told = seen;
    is_due = watch->is_asked && !solicited_only && is_behind(watch->told, watch->seen); /* skipped as unsolicited */
    watch->is_picky = solicited_only && (!watch->is_asked || watch->is_picky); /* a request for all events takes
                                                                                * precedence */
    watch->seen = watch->told;
    watch->is_asked = 1;
    if (is_due)
        tell(watch); /* the thread sleeps until the next one */
    else
        pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    return 0;
}
