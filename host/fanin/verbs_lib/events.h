/* Queues of events, for which a program waits by a descriptor. An event is a member of the object that it is about, so
 * that to tell of it needs no memory. */
#ifndef FANIN_VERBS_EVENTS_H
#define FANIN_VERBS_EVENTS_H
#include <pthread.h>
#include <stdint.h>

struct our_event {            /* the lock of its queue guards all */
    struct our_event *next;
    uint32_t pending;         /* how often it has happened, and the program has not taken it */
    uint32_t taken;           /* how often the program has taken it, and is to acknowledge it */
};

struct our_events {
    int fd;                   /* counts them */
    pthread_mutex_t lock;
    struct our_event *first, **end; /* those that are pending */
};

/* 0: no descriptor, with errno. */
int our_open_events(struct our_events *events);
void our_close_events(struct our_events *events);

void our_put_event(struct our_events *events, struct our_event *event);
/* Take the first. Waits, unless the program has made the descriptor non-blocking. NULL with errno: there is none, or a
 * signal has come. */
struct our_event *our_take_event(struct our_events *events);
/* Take the first, and wait in no case: other threads may take it first. NULL: there is none. */
struct our_event *our_take_ready_event(struct our_events *events);
/* Forget an event that is pending, as often as it is; how often the program has taken it. */
uint32_t our_forget_event(struct our_events *events, struct our_event *event);
/* Whether the program wants no waiting. */
int our_is_nonblocking(struct our_events *events);

#endif
