/* A job goes on without some of its ranks. Arguments: what these do, and their numbers.
 *
 * "die": they end without leaving. "elsewhere": the same, but the others notice in another job of the same ranks.
 * "miss": they live, but call fanin_shrink when the others have gone on. "left": they live; all leave the old job while
 * they agree, and its queues are reused. Prints a line of the result of each rank. Exit code 3: dead ranks delayed the
 * others for the whole time-out. */
#define _DEFAULT_SOURCE
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000, SHRINK_MS = 20000, SHORT_MS = 1500, LATE_S = 8, SOON_US = 100000, ALONE_JID = 99 };

static struct fanin_communicator *communicator, *busy, *left;
static struct fanin_context *device;
static struct fanin_job job;
static uint32_t rank;

static int is_among(int count, char **arguments)
{
    for (int i = 2; i < count; i++)
        if ((uint32_t)atoi(arguments[i]) == rank)
            return 1;
    return 0;
}

static enum fanin_status sum_of(struct fanin_communicator *group, int32_t *sum)
{
    int32_t own = (int32_t)rank;

    return fanin_allreduce(group, &own, sum, 1, FANIN_DTYPE_I32, FANIN_OP_SUM);
}

static int report(enum fanin_status status)
{
    int32_t sum = -1;

    if (status == FANIN_SUCCESS)
        status = sum_of(left, &sum);
    if (status != FANIN_SUCCESS) {
        printf("rank %u: %s: %s\n", rank, fanin_status_name(status), fanin_complaint());
        return 0;
    }
    printf("rank %u: %u of %u, sum %d\n", rank, fanin_rank(left), fanin_size(left), sum);
    fanin_leave(communicator, TIMEOUT_MS);
    return fanin_leave(left, TIMEOUT_MS) != FANIN_SUCCESS;
}

/* A job of this rank alone computes beside an agreement. */
static int compute_beside_agreement(void)
{
    struct fanin_place place = {.address = job.places[rank].address};
    struct fanin_job alone = {.jid = ALONE_JID + rank, .key = 1, .ranks = 1, .places = &place,
                              .route = FANIN_ROUTE_LOCAL};
    struct fanin_communicator *other;
    struct fanin_join_reply reply;
    struct fanin_request *request;
    enum fanin_status status;
    int32_t own = (int32_t)rank, sum = -1;
    struct fanin_operation operation = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I32,
                                        .block = sizeof own, .source = &own, .destination = &sum};

    if (fanin_begin_shrink(communicator, SHRINK_MS, &left) || fanin_finish_join(left, &reply, 0) != FANIN_PENDING)
        return 4;
    fanin_abandon(communicator);
    if (fanin_join(device, &alone, 0, TIMEOUT_MS, &other) || fanin_start(other, &operation, &request))
        return 5;
    usleep(SOON_US);
    fanin_finish_join(left, &reply, 0);
    status = fanin_wait(request, SHRINK_MS);
    printf("rank %u: %s, sum %d\n", rank, fanin_status_name(status), sum);
    fanin_free(request);
    fanin_abandon(left);
    return fanin_leave(other, TIMEOUT_MS) != FANIN_SUCCESS;
}

int main(int count, char **arguments)
{
    uint64_t start;
    enum fanin_status status;
    int is_other, misses;
    int32_t sum;

    if (count < 2 || fanin_job_of_environment(&job, &rank) || fanin_open(NULL, &device) ||
        fanin_join(device, &job, rank, TIMEOUT_MS, &communicator) || sum_of(communicator, &sum))
        return 1;
    is_other = is_among(count, arguments);
    misses = !strcmp(arguments[1], "miss");
    if (!strcmp(arguments[1], "left"))
        return compute_beside_agreement();
    busy = communicator;
    if (!strcmp(arguments[1], "elsewhere") && fanin_dup(communicator, 0, TIMEOUT_MS, &busy))
        return 1;
    if (is_other && !misses)
        _exit(0);
    if (is_other)
        sleep(LATE_S);
    while (!misses && (status = sum_of(busy, &sum)) == FANIN_SUCCESS)
        continue;
    if (!misses && status != FANIN_PEER_LOST)
        return 2;
    start = fanin_now_ms();
    status = fanin_shrink(communicator, misses ? SHORT_MS : SHRINK_MS, &left);
    if (!misses && fanin_now_ms() - start >= SHRINK_MS)
        return 3;
    return report(status);
}
