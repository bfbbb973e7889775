/* `working_rank JOB RANK ADDRESS`: a rank that does checked allreduces. Prints "ready" after each, and the error that
 * ends it. */
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 20000, JOIN_MS = 100000, WORK_MS = 100000, LEAVE_MS = 10000 };

static int64_t data[COUNT], sums[COUNT];

static enum fanin_status work(struct fanin_communicator *communicator, int64_t ranks)
{
    uint64_t end = fanin_now_ms() + WORK_MS;
    enum fanin_status status = FANIN_SUCCESS;

    for (int64_t i = 0; i < COUNT; i++)
        data[i] = i;
    while (fanin_now_ms() < end) {
        status = fanin_allreduce(communicator, data, sums, COUNT, FANIN_DTYPE_I64, FANIN_OP_SUM);
        if (status != FANIN_SUCCESS)
            return status;
        for (int64_t i = 0; i < COUNT; i++)
            if (sums[i] != i * ranks) {
                printf("element %lld is wrong\n", (long long)i);
                exit(1);
            }
        puts("ready");
        fflush(stdout);
    }
    return status;
}

int main(int count, char **words)
{
    struct fanin_context *device = NULL;
    struct fanin_communicator *communicator;
    struct fanin_job job = {0};
    enum fanin_status status = count == 4 ? fanin_job_of_file(words[1], &job) : FANIN_INVALID_REQUEST;

    if (status == FANIN_SUCCESS)
        status = fanin_open(words[3], &device);
    if (status == FANIN_SUCCESS)
        status = fanin_join(device, &job, (uint32_t)atoi(words[2]), JOIN_MS, &communicator);
    if (status == FANIN_SUCCESS) {
        status = work(communicator, job.ranks);
        fanin_leave(communicator, LEAVE_MS);
    } else
        fprintf(stderr, "%s\n", fanin_complaint());
    if (device)
        fanin_close(device);
    free((void *)job.places);
    puts(fanin_status_name(status));
    return status != FANIN_SUCCESS;
}
