/* Collectives that go on while the program computes: non-blocking, persistent, and with blocks of different sizes.
 * Every rank checks its results.
 *
 *     cc requests.c -o requests $(pkg-config --cflags --libs fanin)
 *     fanin run -n 4 -- ./requests
 */
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, STEPS = 5, TIMEOUT_MS = 60000, SLICE_MS = 1000 };

static void check(enum fanin_status status, const char *what)
{
    if (status == FANIN_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: ", what, fanin_status_name(status));
    if (status == FANIN_INVALID_REQUEST) /* what was wrong */
        fprintf(stderr, "%s\n", fanin_complaint());
    else if (*fanin_complaint()) /* who failed, or why */
        fprintf(stderr, "%s. %s\n", fanin_complaint(), fanin_status_remedy(status));
    else
        fprintf(stderr, "%s %s\n", fanin_status_meaning(status), fanin_status_remedy(status));
    exit(1);
}

/* A program may do anything else between two slices. */
static void wait_for(struct fanin_request *request)
{
    enum fanin_status status;

    while ((status = fanin_wait(request, SLICE_MS)) == FANIN_PENDING)
        ;
    check(status, "waiting");
}

int main(void)
{
    struct fanin_communicator *communicator;
    struct fanin_request *request;
    struct fanin_context *device;
    struct fanin_job job;
    uint32_t rank;

    check(fanin_job_of_environment(&job, &rank), "reading the job");
    check(fanin_open(NULL, &device), "opening the device");
    check(fanin_join(device, &job, rank, TIMEOUT_MS, &communicator), "joining");
    uint32_t size = fanin_size(communicator);

    /* Non-blocking: the largest of each element. */
    double values[COUNT], largest[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = i + rank;
    struct fanin_operation maximum = {
        .collective = FANIN_ALLREDUCE, .op = FANIN_OP_MAX, .dtype = FANIN_DTYPE_F64,
        .block = sizeof values, .source = values, .destination = largest};
    check(fanin_start(communicator, &maximum, &request), "starting");
    /* ... compute something else here ... */
    wait_for(request);
    fanin_free(request);
    check(largest[7] == 7 + size - 1 ? FANIN_SUCCESS : FANIN_OP_MISMATCH, "the maximum");

    /* Persistent: prepared once, started in every step with the current contents of the memory. */
    int32_t counter = 0, total = 0;
    struct fanin_operation sum = {
        .collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I32,
        .block = sizeof counter, .source = &counter, .destination = &total};
    check(fanin_prepare(communicator, &sum, &request), "preparing");
    for (int step = 1; step <= STEPS; step++) {
        counter = step;
        check(fanin_restart(request), "starting again");
        wait_for(request);
        check(total == step * (int32_t)size ? FANIN_SUCCESS : FANIN_OP_MISMATCH, "the sum of a step");
    }
    fanin_free(request);

    /* Blocks of different sizes: rank r brings r + 1 numbers, as only it knows. */
    int64_t mine[64];
    for (uint32_t i = 0; i <= rank; i++)
        mine[i] = rank;
    struct fanin_operation gather = {
        .collective = FANIN_ALLGATHERV, .flags = FANIN_EXCHANGE_SIZES,
        .block = (rank + 1) * sizeof *mine, .source = mine, .destination = NULL};
    check(fanin_start(communicator, &gather, &request), "starting");
    wait_for(request);
    const uint64_t *sizes; /* of the blocks; NULL: all are equal */
    uint64_t length;
    void *memory;
    fanin_result(request, &memory, &length, &sizes);
    const int64_t *all = memory;
    check(length == size * (size + 1) / 2 * sizeof *all && all[length / sizeof *all - 1] == size - 1
              ? FANIN_SUCCESS : FANIN_OP_MISMATCH, "the blocks of all");
    printf("rank %u of %u: the last block has %llu bytes\n", rank, size,
           (unsigned long long)(sizes ? sizes[size - 1] : length));
    fanin_free(request);

    check(fanin_leave(communicator, TIMEOUT_MS), "leaving");
    fanin_close(device);
    free((void *)job.places);
    return 0;
}
