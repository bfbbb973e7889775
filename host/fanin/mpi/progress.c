/* One thread, begun when it is first needed. It sleeps for good while nothing waits, and for a millisecond at a time while
 * something does. It calls nothing of the MPI, which may allow that to one thread only.
 */
#define _GNU_SOURCE
#include "progress.h"
#include <signal.h>

#define SLICE_NS 1000000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static struct member *watched;
static pthread_t thread;
static int begun, ending;

/* Returns whether something still waits. */
static int go_on(struct member *member)
{
    fanin_stream_advance(&member->stream);
    if (fanin_stream_has_backlog(&member->stream))
        return 1;
    if (has_ended(&member->stream)) /* nobody shall wait for what this rank could not make */
        fanin_abandon_job(member);
    return 0;
}

static void let_go(struct member **link)
{
    struct member *member = *link;

    *link = member->watched_next;
    member->watched = 0;
    fanin_release_member(member);
}

static void go_on_with_all(void)
{
    struct member **link = &watched;

    while (*link)
        if (go_on(*link))
            link = &(*link)->watched_next;
        else
            let_go(link);
}

static void *work(void *unused)
{
    static const struct timespec slice = {.tv_nsec = SLICE_NS};

    pthread_mutex_lock(&lock);
    while (!ending) {
        if (!watched) {
            pthread_cond_wait(&wanted, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        nanosleep(&slice, NULL); /* the rank itself is mostly sooner */
        pthread_mutex_lock(&lock);
        go_on_with_all();
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Signals of the program are for its own threads. */
static int begin(void)
{
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

void fanin_watch(struct member *member)
{
    if (!fanin_stream_has_backlog(&member->stream))
        return;
    pthread_mutex_lock(&lock);
    begun = begun || begin(); /* without a thread it goes on in calls of this rank only */
    if (begun && !member->watched) {
        fanin_hold_member(member);
        member->watched = 1;
        member->watched_next = watched;
        watched = member;
        pthread_cond_signal(&wanted);
    }
    pthread_mutex_unlock(&lock);
}

void fanin_end_watching(void)
{
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
    if (begun)
        pthread_join(thread, NULL);
    while (watched)
        let_go(&watched);
}
