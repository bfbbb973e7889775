/* A thread for each completion queue with a channel: when the program has asked for an event, it waits for the next
 * completion. The device wakes it as it wakes any waiting program.
 *
 * Completions do not say that they are solicited. Who asks for those alone gets an event for every completion. */
#include "completions/completions.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum { LOOK_MS = 50 }; /* for the end of the queue */

struct our_watch {
    struct ibv_cq *cq;
    pthread_t thread;
    pthread_mutex_t lock;     /* of what follows */
    pthread_cond_t changed;
    int is_asked, is_ending;
    uint32_t stored;          /* completions that there were when the event was asked for */
};

/* Whether there is something to wait for; else the queue ends. */
static int await_request(struct our_watch *watch, uint32_t *stored)
{
    int asked;

    pthread_mutex_lock(&watch->lock);
    while (!watch->is_asked && !watch->is_ending)
        pthread_cond_wait(&watch->changed, &watch->lock);
    asked = !watch->is_ending;
    *stored = watch->stored;
    pthread_mutex_unlock(&watch->lock);
    return asked;
}

/* The completion after `stored` has come. The program may have asked again since: then it has been told. */
static void answer(struct our_watch *watch, uint32_t stored)
{
    int is_due;

    pthread_mutex_lock(&watch->lock);
    is_due = watch->is_asked && watch->stored == stored;
    if (is_due)
        watch->is_asked = 0;
    pthread_mutex_unlock(&watch->lock);
    if (is_due)
        our_tell(watch->cq);
}

/* Of a device that is lost, or of a queue that overran, the poll says so: that is an event as well. */
static void *wait_for_completions(void *argument)
{
    struct our_watch *watch = argument;
    enum fanin_status status;
    uint32_t stored;

    while (await_request(watch, &stored)) {
        status = fanin_wait_cq(our_fanin(watch->cq->context), our_cq(watch->cq)->number, stored, LOOK_MS);
        if (status == FANIN_PENDING)
            continue;
        our_outcome_of(watch->cq, status);
        answer(watch, stored);
    }
    return NULL;
}

static int start_thread(struct our_watch *watch)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the program */
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
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, NULL);
    if (start_thread(watch))
        return watch;
    free(watch);
    return NULL;
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
    pthread_join(watch->thread, NULL);
    pthread_mutex_destroy(&watch->lock);
    pthread_cond_destroy(&watch->changed);
    free(watch);
}

int our_request_event(struct ibv_cq *cq, int solicited_only)
{
    struct our_watch *watch = our_cq(cq)->watch;
    uint32_t stored;
    int error;

    (void)solicited_only;
    if (!watch)
        return EINVAL;
    if (our_is_inherited(cq->context))
        return EIO;
    error = our_errno(fanin_stored(our_fanin(cq->context), our_cq(cq)->number, &stored));
    if (error)
        return error;
    pthread_mutex_lock(&watch->lock);
    if (watch->is_asked && watch->stored != stored)
        our_tell(cq); /* the thread has not come to it yet */
    watch->stored = stored;
    watch->is_asked = 1;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    return 0;
}
