/* A job that goes on without some of its ranks. Arguments: what these do, and which they are.
 *
 * "die": they end without a word; the others notice, and shrink. "elsewhere": the same, but they notice in another job
 * of the same ranks. "late": they end when the others have begun to shrink. "miss": nobody is lost, but they call fanin_shrink when the others have gone on. Prints a line of
 * what each rank got. Dead ranks do not keep the others for the whole time-out: else the exit code is 3.
 */
#define _DEFAULT_SOURCE
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000, SHRINK_MS = 20000, SHORT_MS = 1500, SOON_S = 2, LATE_S = 8 };

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
    return fanin_leave(left, TIMEOUT_MS) != FANIN_SUCCESS;
}

int main(int count, char **arguments)
{
    uint64_t start;
    enum fanin_status status;
    int is_other, misses, is_late;
    int32_t sum;

    if (count < 2 || fanin_job_of_environment(&job, &rank) || fanin_open(NULL, &device) ||
        fanin_join(device, &job, rank, TIMEOUT_MS, &communicator) || sum_of(communicator, &sum))
        return 1;
    is_other = is_among(count, arguments);
    misses = !strcmp(arguments[1], "miss");
    is_late = !strcmp(arguments[1], "late");
    busy = communicator;
    if (!strcmp(arguments[1], "elsewhere") && fanin_dup(communicator, 0, TIMEOUT_MS, &busy))
        return 1;
    if (is_other && is_late)
        sleep(SOON_S);
    if (is_other && !misses)
        _exit(0);
    if (is_other)
        sleep(LATE_S);
    while (!misses && !is_late && (status = sum_of(busy, &sum)) == FANIN_SUCCESS)
        continue;
    if (!misses && !is_late && status != FANIN_PEER_LOST)
        return 2;
    start = fanin_now_ms();
    status = fanin_shrink(communicator, misses ? SHORT_MS : SHRINK_MS, &left);
    if (!misses && fanin_now_ms() - start >= SHRINK_MS)
        return 3;
    return report(status);
}
