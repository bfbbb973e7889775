#include "comm/jobs.h"
#include "abi/mpi_progress.h"
#include "report.h"
#include <pthread.h>
#include <stdlib.h>

#define SLICE_MS 1 /* of a wait, between calls for the MPI's progress */

struct job {
    struct job *next;
    struct fanin_communicator *communicator;
};

static struct job *joined, *leaving;
static uint32_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t shim_jobs_in_use(void)
{
    return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

void shim_enter_job(struct fanin_communicator *communicator)
{
    struct job *job = malloc(sizeof *job);

    if (!job)
        abort(); /* the other ranks would go on */
    job->communicator = communicator;
    pthread_mutex_lock(&lock);
    job->next = joined;
    joined = job;
    pthread_mutex_unlock(&lock);
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
}

/* Wait at most `timeout_ms`; whether other ranks still need this one's data. */
static int is_needed(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    enum fanin_status status = fanin_flush(communicator, timeout_ms);

    if (status != FANIN_PENDING && status != FANIN_SUCCESS)
        shim_say("%s: this rank's data of a collective that has returned did not reach all ranks",
                 fanin_status_name(status));
    return status == FANIN_PENDING;
}

static enum fanin_status go_on(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    return is_needed(communicator, timeout_ms) ? FANIN_PENDING : fanin_finish_leave(communicator, timeout_ms);
}

static enum fanin_status finish_leave(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    uint64_t end = fanin_now_ms() + timeout_ms;
    enum fanin_status status = go_on(communicator, 0);

    while (status == FANIN_PENDING && fanin_now_ms() < end) {
        shim_let_mpi_progress();
        fanin_progress();
        status = go_on(communicator, SLICE_MS);
    }
    return status;
}

void shim_finish_leaving(uint32_t timeout_ms)
{
    struct job *rest, *job;

    pthread_mutex_lock(&lock);
    rest = leaving;
    leaving = NULL;
    pthread_mutex_unlock(&lock);
    while ((job = rest)) {
        rest = job->next;
        if (finish_leave(job->communicator, timeout_ms) != FANIN_PENDING) {
            __atomic_sub_fetch(&count, 1, __ATOMIC_RELAXED);
            free(job);
            continue;
        }
        pthread_mutex_lock(&lock);
        job->next = leaving;
        leaving = job;
        pthread_mutex_unlock(&lock);
    }
}

int shim_is_leaving(void)
{
    int found;

    pthread_mutex_lock(&lock);
    found = leaving != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Begin to leave a job; NULL: any. Returns 0 if none is left. */
static int begin_leave(const struct fanin_communicator *communicator)
{
    struct job **link = &joined, *job;

    pthread_mutex_lock(&lock);
    while (*link && communicator && (*link)->communicator != communicator)
        link = &(*link)->next;
    job = *link;
    if (job) {
        fanin_begin_leave(job->communicator);
        *link = job->next;
        job->next = leaving;
        leaving = job;
    }
    pthread_mutex_unlock(&lock);
    return job != NULL;
}

void shim_leave_job(struct fanin_communicator *communicator)
{
    begin_leave(communicator);
    shim_finish_leaving(0); /* those left before, too */
}

/* Wait without limit until the other ranks have this one's data. A lost rank ends the wait. */
static void serve_others(void)
{
    for (struct job *job = leaving; job; job = job->next)
        while (is_needed(job->communicator, SLICE_MS)) {
            shim_let_mpi_progress();
            fanin_progress();
        }
}

void shim_leave_all_jobs(void)
{
    while (begin_leave(NULL))
        continue;
    serve_others();
    shim_finish_leaving(SHIM_LEAVE_MS);
    for (; leaving; leaving = leaving->next) /* the process ends: no memory is freed */
        fanin_abandon(leaving->communicator);
}
