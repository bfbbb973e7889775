/* The thread starts when it is first needed, and runs each millisecond while a request waits to be posted. It calls no
 * MPI function, since the MPI may allow one thread only. */
#define _GNU_SOURCE
#include "requests/progress.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

#define SLICE_NS 1000000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static int begun, backlog, ending;

static void *work(void *unused)
{
    static const struct timespec slice = {.tv_nsec = SLICE_NS};

    pthread_mutex_lock(&lock);
    while (!ending) {
        if (!backlog) {
            pthread_cond_wait(&wanted, &lock);
            continue;
        }
        backlog = 0; /* a later backlog sets it again */
        pthread_mutex_unlock(&lock);
        nanosleep(&slice, NULL); /* mostly the rank posts sooner */
        fanin_progress();
        int some = fanin_others_have_backlog(NULL);
        pthread_mutex_lock(&lock);
        backlog |= some;
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Blocks signals, which are for the program's threads. */
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

void shim_watch(struct fanin_communicator *job)
{
    if (!fanin_has_backlog(job))
        return;
    pthread_mutex_lock(&lock);
    begun = begun || begin(); /* without a thread, only this rank's calls make progress */
    backlog = 1;
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
}

void shim_end_watching(void)
{
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
    if (begun)
        pthread_join(thread, NULL);
}
