/* An eventfd counts the events, and a list holds them. A reader decrements the count, then takes from the list; if the
 * event was forgotten in between, it reads again. A queue is read either by `our_take_event` or by
 * `our_take_ready_event`. */
#include "events.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

int our_open_events(struct our_events *events)
{
    *events = (struct our_events){.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)};
    if (events->fd < 0)
        return 0;
    events->end = &events->first;
    pthread_mutex_init(&events->lock, NULL);
    return 1;
}

void our_close_events(struct our_events *events)
{
    close(events->fd);
    pthread_mutex_destroy(&events->lock);
}

static void append(struct our_events *events, struct our_event *event)
{
    event->next = NULL;
    *events->end = event;
    events->end = &event->next;
}

/* `place` points to the event. */
static void unlink_at(struct our_events *events, struct our_event **place)
{
    struct our_event *event = *place;

    *place = event->next;
    if (events->end == &event->next)
        events->end = place;
}

void our_put_event(struct our_events *events, struct our_event *event)
{
    uint64_t one = 1;

    pthread_mutex_lock(&events->lock);
    if (event->pending++ == 0)
        append(events, event);
    while (write(events->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_mutex_unlock(&events->lock);
}

/* With the lock held. An event that is pending several times moves to the end. */
static struct our_event *take_first(struct our_events *events)
{
    struct our_event *event = events->first;

    if (event) {
        unlink_at(events, &events->first);
        event->taken++;
        if (--event->pending)
            append(events, event);
    }
    return event;
}

/* Under the lock, since `our_forget_event` sets the flag for a moment. */
int our_is_nonblocking(struct our_events *events)
{
    int flags;

    pthread_mutex_lock(&events->lock);
    flags = fcntl(events->fd, F_GETFL);
    pthread_mutex_unlock(&events->lock);
    return flags < 0 || flags & O_NONBLOCK;
}

struct our_event *our_take_event(struct our_events *events)
{
    struct our_event *event = NULL;
    uint64_t one;

    while (!event) {
        if (read(events->fd, &one, sizeof one) >= 0) {
            pthread_mutex_lock(&events->lock);
            event = take_first(events);
            pthread_mutex_unlock(&events->lock);
        } else if (errno != EAGAIN)
            return NULL;
        else if (our_is_nonblocking(events)) {
            errno = EAGAIN;
            return NULL;
        }
    }
    return event;
}

/* All readers hold the lock, so the read after the poll does not wait. */
struct our_event *our_take_ready_event(struct our_events *events)
{
    struct pollfd ready = {.fd = events->fd, .events = POLLIN};
    struct our_event *event = NULL;
    uint64_t one;

    pthread_mutex_lock(&events->lock);
    if (poll(&ready, 1, 0) > 0 && read(events->fd, &one, sizeof one) >= 0)
        event = take_first(events);
    pthread_mutex_unlock(&events->lock);
    return event;
}

/* Take `count` from the descriptor, unless readers have done so, without waiting. */
static void discount(const struct our_events *events, uint32_t count)
{
    int flags = fcntl(events->fd, F_GETFL);
    uint64_t one;

    fcntl(events->fd, F_SETFL, flags | O_NONBLOCK);
    while (count && read(events->fd, &one, sizeof one) >= 0)
        count--;
    fcntl(events->fd, F_SETFL, flags);
}

uint32_t our_forget_event(struct our_events *events, struct our_event *event)
{
    uint32_t taken;

    pthread_mutex_lock(&events->lock);
    for (struct our_event **place = &events->first; *place; place = &(*place)->next)
        if (*place == event) {
            unlink_at(events, place);
            break;
        }
    discount(events, event->pending);
    event->pending = 0;
    taken = event->taken;
    pthread_mutex_unlock(&events->lock);
    return taken;
}
