/* One rank whose threads leave jobs with unposted requests, while another thread posts for all jobs: no request may
 * enter the queue of the next job. Argument: rounds. Prints the number of failed or wrong calls; exits with 1 if there
 * are any. */
#include <fanin/fanin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, TIMEOUT_MS = 60000, REQUESTS = 600, BLOCK = 256 }; /* more than a send queue holds */

struct memory {
    int32_t one, total;
    char data[BLOCK], results[REQUESTS][BLOCK];
};

static struct fanin_communicator *parents[THREADS];
static int rounds, wrong, ending;

static void *make_progress(void *unused)
{
    while (!__atomic_load_n(&ending, __ATOMIC_RELAXED))
        fanin_progress();
    return unused;
}

static int is_wrong(struct fanin_communicator *job, struct memory *memory, int round)
{
    struct fanin_request *requests[REQUESTS];
    int started = 0;
    enum fanin_status status = fanin_allreduce(job, &memory->one, &memory->total, 1, FANIN_DTYPE_I32, FANIN_OP_SUM);

    for (; status == FANIN_SUCCESS && started < REQUESTS; started += status == FANIN_SUCCESS) {
        struct fanin_operation operation = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_U8,
                                            .block = BLOCK, .source = memory->data,
                                            .destination = memory->results[started]};
        status = fanin_start(job, &operation, &requests[started]);
    }
    if (round % 3 == 0)
        fanin_end_job(job, FANIN_ABORTED);
    if (round % 2 ? fanin_abandon(job) : fanin_leave(job, TIMEOUT_MS))
        status = FANIN_TIMEOUT;
    for (int i = 0; i < started; i++)
        fanin_free(requests[i]);
    return status != FANIN_SUCCESS || memory->total != 1;
}

static void *work(void *argument)
{
    struct fanin_communicator *parent = parents[(intptr_t)argument], *job;
    struct memory *memory = calloc(1, sizeof *memory);

    memory->one = 1;
    for (int round = 0; round < rounds; round++) {
        memory->total = 0;
        if (fanin_dup(parent, 16, TIMEOUT_MS, &job) || is_wrong(job, memory, round))
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    }
    free(memory);
    return NULL;
}

int main(int count, char **arguments)
{
    struct fanin_communicator *all;
    struct fanin_context *device;
    struct fanin_job job;
    pthread_t threads[THREADS], progress;
    uint32_t rank;

    rounds = count > 1 ? atoi(arguments[1]) : 200;
    if (fanin_job_of_environment(&job, &rank) || fanin_open(NULL, &device) ||
        fanin_join(device, &job, rank, TIMEOUT_MS, &all))
        return 1;
    for (int thread = 0; thread < THREADS; thread++)
        if (fanin_dup(all, 16, TIMEOUT_MS, &parents[thread]))
            return 1;
    pthread_create(&progress, NULL, make_progress, NULL);
    for (intptr_t thread = 0; thread < THREADS; thread++)
        pthread_create(&threads[thread], NULL, work, (void *)thread);
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
    pthread_join(progress, NULL);
    for (int thread = 0; thread < THREADS; thread++)
        if (fanin_leave(parents[thread], TIMEOUT_MS))
            return 1;
    if (fanin_leave(all, TIMEOUT_MS))
        return 1;
    fanin_close(device);
    free((void *)job.places);
    printf("rank %u: %d wrong\n", rank, wrong);
    return wrong != 0;
}
