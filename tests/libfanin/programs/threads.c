/* Threads of one process on several communicators, used in different orders by the ranks, and on one that they share.
 *
 * Argument: rounds. Prints the number of calls that were right; exits with 1 when one was not. */
#include <fanin/fanin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, TIMEOUT_MS = 60000, MOST = 40000 };

static struct fanin_communicator *own[THREADS], *shared;
static uint32_t rank, ranks;
static int rounds, wrong;

static int is_right(const int32_t *result, int count, int32_t each)
{
    for (int i = 0; i < count; i++)
        if (result[i] != each)
            return 0;
    return 1;
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    int32_t *data = malloc(MOST * sizeof *data), *result = malloc(MOST * sizeof *result);

    for (int round = 0; round < rounds; round++) {
        int count = round % 5 ? 1 + round : MOST;
        int32_t wanted = 0;
        for (uint32_t r = 0; r < ranks; r++)
            wanted += (int32_t)r + round;
        for (int i = 0; i < count; i++)
            data[i] = (int32_t)rank + round;
        if (fanin_allreduce(own[thread], data, result, (uint64_t)count, FANIN_DTYPE_I32, FANIN_OP_SUM) ||
            !is_right(result, count, wanted))
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    }
    free(data);
    free(result);
    return NULL;
}

/* All threads wait for one request. */
static void *wait_for(void *request)
{
    while (fanin_wait(request, 100) == FANIN_PENDING)
        ;
    return NULL;
}

static void share_a_request(void)
{
    int32_t one = 1, total = 0;
    struct fanin_operation operation = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I32,
                                        .block = sizeof one, .source = &one, .destination = &total};
    struct fanin_request *request;
    pthread_t threads[THREADS];

    for (int round = 0; round < rounds; round++) {
        if (fanin_start(shared, &operation, &request))
            exit(1);
        for (int thread = 0; thread < THREADS; thread++)
            pthread_create(&threads[thread], NULL, wait_for, request);
        for (int thread = 0; thread < THREADS; thread++)
            pthread_join(threads[thread], NULL);
        wrong += fanin_test(request) != FANIN_SUCCESS || total != (int32_t)ranks;
        fanin_free(request);
    }
}

/* Two communicators, started in opposite orders by even and odd ranks: each goes on while the other is waited for. */
static void cross(void)
{
    int32_t one = 1, totals[2] = {0};
    struct fanin_request *requests[2];

    for (int round = 0; round < rounds; round++) {
        for (int step = 0; step < 2; step++) {
            int which = (step + (int)rank) % 2;
            struct fanin_operation operation = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM,
                                                .dtype = FANIN_DTYPE_I32, .block = sizeof one, .source = &one,
                                                .destination = &totals[which]};
            if (fanin_start(own[which], &operation, &requests[which]))
                exit(1);
        }
        for (int which = 0; which < 2; which++) {
            wait_for(requests[which]);
            wrong += totals[which] != (int32_t)ranks;
            fanin_free(requests[which]);
        }
    }
}

int main(int count, char **arguments)
{
    struct fanin_context *device;
    struct fanin_job job;
    pthread_t threads[THREADS];

    rounds = count > 1 ? atoi(arguments[1]) : 20;
    if (fanin_job_of_environment(&job, &rank) || fanin_open(NULL, &device) ||
        fanin_join(device, &job, rank, TIMEOUT_MS, &shared))
        return 1;
    ranks = job.ranks;
    for (int thread = 0; thread < THREADS; thread++)
        if (fanin_dup(shared, 32, TIMEOUT_MS, &own[thread]))
            return 1;
    for (intptr_t thread = 0; thread < THREADS; thread++)
        pthread_create(&threads[thread], NULL, work, (void *)thread);
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    share_a_request();
    cross();
    for (int thread = 0; thread < THREADS; thread++)
        if (fanin_leave(own[thread], TIMEOUT_MS))
            return 1;
    if (fanin_leave(shared, TIMEOUT_MS))
        return 1;
    fanin_close(device);
    free((void *)job.places);
    printf("rank %u: %d wrong\n", rank, wrong);
    return wrong != 0;
}
