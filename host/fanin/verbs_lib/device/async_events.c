/* Asynchronous events. The device sends none: the library notices them in calls of the program, in threads that wait
 * for completions, and here. */
#include "abi/next.h"
#include "device/device.h"
#include <errno.h>
#include <poll.h>

enum { POLL_MS = 50 }; /* between checks whether the device is lost */

void our_report(struct ibv_context *context, struct our_async_event *event, int type, void *element)
{
    if (__atomic_exchange_n(&event->is_told, 1, __ATOMIC_ACQ_REL))
        return;
    event->type = type;
    event->element = element;
    our_put_event(&our_context(context)->events, &event->event);
}

void our_report_loss(struct ibv_context *context)
{
    our_report(context, &our_context(context)->lost, IBV_EVENT_DEVICE_FATAL, NULL);
}

int our_outcome(struct ibv_context *context, enum fanin_status status)
{
    if (status == FANIN_DEVICE_LOST)
        our_report_loss(context);
    return our_errno(status);
}

/* Several threads may wait, for one event and for a lost device. NULL with errno: a signal came, or the descriptor is
 * non-blocking. */
static struct our_async_event *await_event(struct ibv_context *context)
{
    struct our_events *events = &our_context(context)->events;
    struct pollfd ready = {.fd = events->fd, .events = POLLIN};
    struct our_event *event;

    for (;;) {
        if (fanin_device_is_lost(our_fanin(context)))
            our_report_loss(context);
        event = our_take_ready_event(events);
        if (event)
            return (struct our_async_event *)event;
        if (our_is_nonblocking(events)) {
            errno = EAGAIN;
            return NULL;
        }
        if (poll(&ready, 1, POLL_MS) < 0)
            return NULL;
    }
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct our_async_event *taken;

    if (!our_context_is(context))
        return NEXT(ibv_get_async_event, "IBVERBS_1.1")(context, event);
    if (our_is_inherited(context))
        return our_minus_one(EIO);
    taken = await_event(context);
    if (!taken)
        return -1;
    *event = (struct ibv_async_event){.element = taken->element, .event_type = taken->type};
    return 0;
}

/* The destruction of an object waits until all its taken events are acknowledged. */
static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *acknowledged)
{
    pthread_mutex_lock(mutex);
    ++*acknowledged;
    pthread_cond_signal(cond);
    pthread_mutex_unlock(mutex);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element;
    struct ibv_qp *qp = event->element;
    int is_of_queue_pair = event->event_type == IBV_EVENT_QP_FATAL || event->event_type == IBV_EVENT_COMM_EST;
    __typeof__(&ibv_ack_async_event) next = FIND_NEXT(ibv_ack_async_event, "IBVERBS_1.1");

    if (event->event_type == IBV_EVENT_CQ_ERR && our_context_is(cq->context))
        acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
    else if (is_of_queue_pair && our_context_is(qp->context))
        acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
    else if (next)
        next(event);
}
