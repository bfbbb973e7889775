#include "abi/next.h"
#include "completions/completions.h"
#include <errno.h>
#include <stdlib.h>

struct our_channel {
    struct ibv_comp_channel base;
    struct our_events events;
};

static struct our_events *events_of(struct ibv_comp_channel *channel)
{
    return &((struct our_channel *)channel)->events;
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct our_channel *channel;

    if (!our_context_is(context))
        return NEXT(ibv_create_comp_channel, "IBVERBS_1.0")(context);
    channel = calloc(1, sizeof *channel);
    if (!channel)
        return our_null(ENOMEM);
    if (!our_open_events(&channel->events)) {
        free(channel);
        return NULL;
    }
    channel->base = (struct ibv_comp_channel){.context = context, .fd = channel->events.fd};
    return &channel->base;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    if (!our_context_is(channel->context))
        return NEXT(ibv_destroy_comp_channel, "IBVERBS_1.0")(channel);
    if (__atomic_load_n(&channel->refcnt, __ATOMIC_ACQUIRE))
        return EBUSY;
    our_close_events(events_of(channel));
    free(channel);
    return 0;
}

void our_tell(struct ibv_cq *cq)
{
    our_put_event(events_of(cq->channel), &our_cq(cq)->completion);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct our_event *event;

    if (!our_context_is(channel->context))
        return NEXT(ibv_get_cq_event, "IBVERBS_1.1")(channel, cq, cq_context);
    if (our_is_inherited(channel->context))
        return our_minus_one(EIO);
    event = our_take_event(events_of(channel));
    if (!event)
        return -1;
    *cq = (struct ibv_cq *)((char *)event - offsetof(struct our_cq, completion));
    *cq_context = (*cq)->cq_context;
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
    uint32_t async = our_forget_event(&our_context(cq->context)->events, &our_cq(cq)->overrun.event), told = 0;

    if (cq->channel)
        told = our_forget_event(events_of(cq->channel), &our_cq(cq)->completion);
    pthread_mutex_lock(&cq->mutex);
    while (cq->comp_events_completed != told || cq->async_events_completed != async)
        pthread_cond_wait(&cq->cond, &cq->mutex);
    pthread_mutex_unlock(&cq->mutex);
}
