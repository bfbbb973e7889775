/* All communicators of this process. A wait for one advances the others, since another rank may need what they have not
 * posted before it can take part. */
#include "communicator/communicator.h"
#include <stdlib.h>
#include <unistd.h>

static struct fanin_communicator *communicators;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fanin_register_communicator(struct fanin_communicator *communicator)
{
    pthread_mutex_lock(&lock);
    communicator->next = communicators;
    communicators = communicator;
    pthread_mutex_unlock(&lock);
}

static void unregister(struct fanin_communicator *communicator)
{
    struct fanin_communicator **link = &communicators;

    pthread_mutex_lock(&lock);
    while (*link && *link != communicator)
        link = &(*link)->next;
    if (*link)
        *link = communicator->next;
    pthread_mutex_unlock(&lock);
}

void fanin_hold(struct fanin_communicator *communicator)
{
    __atomic_add_fetch(&communicator->references, 1, __ATOMIC_RELAXED);
}

void fanin_release(struct fanin_communicator *communicator)
{
    if (__atomic_sub_fetch(&communicator->references, 1, __ATOMIC_ACQ_REL))
        return;
    unregister(communicator);
    pthread_mutex_destroy(&communicator->stream.lock);
    free((void *)communicator->job.places);
    while (communicator->unused) {
        struct fanin_request *request = communicator->unused;
        communicator->unused = request->next;
        free(request);
    }
    free(communicator);
}

void fanin_forget_communicators(const struct fanin_context *context, int inherited)
{
    static pid_t owner; /* of the lock: in a forked child a thread that no longer exists may hold it */
    struct fanin_request *unwanted = NULL; /* detached requests */

    if (inherited && owner != getpid())
        lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    owner = inherited ? getpid() : owner;
    pthread_mutex_lock(&lock);
    for (struct fanin_communicator *one = communicators; one; one = one->next) {
        if (one->stream.context != context)
            continue;
        if (inherited)
            pthread_mutex_init(&one->stream.lock, NULL);
        for (struct fanin_request *request = one->stream.first, *next; request; request = next) {
            next = request->next;
            if (request->detached) {
                request->next = unwanted;
                unwanted = request;
            }
        }
        one->stream.context = NULL;
        one->stream.first = one->stream.last = one->stream.posting = NULL;
        one->stream.locally_complete = 0;
        __atomic_store_n(&one->stream.stopped, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    while (unwanted) { /* outside the lock: the last one frees its communicator */
        struct fanin_request *request = unwanted;
        unwanted = request->next;
        fanin_request_destroy(request);
        request->stream->free_request(request);
    }
}

void fanin_progress(void)
{
    pthread_mutex_lock(&lock);
    for (struct fanin_communicator *one = communicators; one; one = one->next)
        if (one->stream.context)
            fanin_stream_advance(&one->stream);
    pthread_mutex_unlock(&lock);
}

struct fanin_communicator *fanin_hold_idle(const struct fanin_context *context)
{
    struct fanin_communicator *one;

    pthread_mutex_lock(&lock);
    for (one = communicators; one; one = one->next)
        if (one->stream.context == context && has_joined(one) && !stream_has_ended(&one->stream) &&
            !stream_is_stopped(&one->stream) && fanin_stream_is_drained(&one->stream))
            break;
    if (one)
        fanin_hold(one);
    pthread_mutex_unlock(&lock);
    return one;
}

int fanin_is_flushed(const struct fanin_context *context)
{
    int flushed = 1;

    pthread_mutex_lock(&lock);
    for (struct fanin_communicator *one = communicators; one && flushed; one = one->next)
        flushed = one->stream.context != context || fanin_stream_flush(&one->stream) != FANIN_PENDING;
    pthread_mutex_unlock(&lock);
    return flushed;
}

int fanin_others_have_backlog(struct fanin_communicator *communicator)
{
    int wait = 0;

    pthread_mutex_lock(&lock);
    for (struct fanin_communicator *one = communicators; one && !wait; one = one->next)
        wait = one != communicator && one->stream.context && fanin_stream_has_backlog(&one->stream);
    pthread_mutex_unlock(&lock);
    return wait;
}
