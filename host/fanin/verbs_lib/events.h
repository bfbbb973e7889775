/* Queues of events, with a descriptor to wait for. An event is a member of its object, so it needs no memory. */
#ifndef FANIN_VERBS_EVENTS_H
#define FANIN_VERBS_EVENTS_H
#include <pthread.h>
#include <stdint.h>

struct our_event {            /* under the lock of its queue */
    struct our_event *next;
    uint32_t pending;         /* how often it happened and was not taken */
    uint32_t taken;           /* how often the program took it, and must acknowledge it */
};

struct our_events {
    int fd;                   /* eventfd */
    pthread_mutex_t lock;
    struct our_event *first, **end; /* pending ones */
};

/* 0, with errno: no descriptor. */
int our_open_events(struct our_events *events);
void our_close_events(struct our_events *events);

void our_put_event(struct our_events *events, struct our_event *event);
/* Take the first; waits unless the descriptor is non-blocking. NULL with errno: none, or a signal came. */
struct our_event *our_take_event(struct our_events *events);
/* Take the first, without waiting; NULL: none. */
struct our_event *our_take_ready_event(struct our_events *events);
/* Forget a pending event. Returns how often the program has taken it. */
uint32_t our_forget_event(struct our_events *events, struct our_event *event);
int our_is_nonblocking(struct our_events *events);

#endif
