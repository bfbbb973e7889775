/* Completion channels: an eventfd that counts the events, and a list that says whose they are. A reader takes one from
 * the count, then one from the list. If the events of a queue that ends are forgotten between the two, the reader finds
 * none, and reads again. */
#include "abi/next.h"
#include "completions/completions.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct event {
    struct event *next;
    struct ibv_cq *cq;
};

struct our_channel {
    struct ibv_comp_channel base;
    pthread_mutex_t lock;     /* of the list, of what is added to the count, and of `events_read` of its queues */
    struct event *first, **end;
};

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct our_channel *channel;

    if (!our_context_is(context))
        return NEXT(ibv_create_comp_channel, "IBVERBS_1.0")(context);
    channel = calloc(1, sizeof *channel);
    if (!channel)
        return our_null(ENOMEM);
    channel->base = (struct ibv_comp_channel){.context = context, .fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)};
    if (channel->base.fd < 0) {
        free(channel);
        return NULL;
    }
    channel->end = &channel->first;
    pthread_mutex_init(&channel->lock, NULL);
    return &channel->base;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    if (!our_context_is(channel->context))
        return NEXT(ibv_destroy_comp_channel, "IBVERBS_1.0")(channel);
    if (__atomic_load_n(&channel->refcnt, __ATOMIC_RELAXED))
        return EBUSY;
    close(channel->fd);
    pthread_mutex_destroy(&((struct our_channel *)channel)->lock);
    free(channel);
    return 0;
}

void our_tell(struct ibv_cq *cq)
{
    struct our_channel *channel = (struct our_channel *)cq->channel;
    struct event *event = malloc(sizeof *event);
    uint64_t one = 1;

    if (!event)
        return;
    *event = (struct event){.cq = cq};
    pthread_mutex_lock(&channel->lock);
    *channel->end = event;
    channel->end = &event->next;
    while (write(channel->base.fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_mutex_unlock(&channel->lock);
}

/* Take the first event, of `cq` unless that is NULL, out of the list; NULL: there is none. */
static struct event *take(struct our_channel *channel, const struct ibv_cq *cq)
{
    struct event *found;

    for (struct event **place = &channel->first; (found = *place); place = &found->next)
        if (!cq || found->cq == cq) {
            *place = found->next;
            if (channel->end == &found->next)
                channel->end = place;
            break;
        }
    return found;
}

/* Take the first event for the program, whose queue then waits for an acknowledgement before it ends. */
static struct event *take_for_program(struct our_channel *channel)
{
    struct event *found;

    pthread_mutex_lock(&channel->lock);
    found = take(channel, NULL);
    if (found)
        our_cq(found->cq)->events_read++;
    pthread_mutex_unlock(&channel->lock);
    return found;
}

/* Whether the program wants no waiting. `our_forget_events` does not, either, while it holds the lock. */
static int is_nonblocking(struct our_channel *channel)
{
    int flags;

    pthread_mutex_lock(&channel->lock);
    flags = fcntl(channel->base.fd, F_GETFL);
    pthread_mutex_unlock(&channel->lock);
    return flags < 0 || flags & O_NONBLOCK;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct event *event = NULL;
    uint64_t one;

    if (!our_context_is(channel->context))
        return NEXT(ibv_get_cq_event, "IBVERBS_1.1")(channel, cq, cq_context);
    while (!event) {
        if (read(channel->fd, &one, sizeof one) >= 0)
            event = take_for_program((struct our_channel *)channel);
        else if (errno != EAGAIN)
            return -1;
        else if (is_nonblocking((struct our_channel *)channel))
            return our_minus_one(EAGAIN);
    }
    *cq = event->cq;
    *cq_context = event->cq->cq_context;
    free(event);
    return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    if (!our_context_is(cq->context)) {
        NEXT(ibv_ack_cq_events, "IBVERBS_1.1")(cq, count);
        return;
    }
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += count;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

void our_forget_events(struct ibv_cq *cq)
{
    struct our_channel *channel = (struct our_channel *)cq->channel;
    struct event *event;
    uint64_t one;
    int flags;

    pthread_mutex_lock(&channel->lock);
    flags = fcntl(channel->base.fd, F_GETFL);
    fcntl(channel->base.fd, F_SETFL, flags | O_NONBLOCK); /* a reader may have taken it from the count already */
    while ((event = take(channel, cq))) {
        if (read(channel->base.fd, &one, sizeof one) < 0)
            one = 0;
        free(event);
    }
    fcntl(channel->base.fd, F_SETFL, flags);
    pthread_mutex_unlock(&channel->lock);
    pthread_mutex_lock(&cq->mutex);
    while (cq->comp_events_completed != our_cq(cq)->events_read)
        pthread_cond_wait(&cq->cond, &cq->mutex);
    pthread_mutex_unlock(&cq->mutex);
}
