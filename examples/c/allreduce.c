/* The sum over all ranks, in C, without Python and without MPI.
 *
 *     cc allreduce.c -o allreduce $(pkg-config --cflags --libs fanin)
 *     fanin run -n 4 -- ./allreduce
 */
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, TIMEOUT_MS = 60000 };

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

int main(void)
{
    struct fanin_communicator *communicator;
    struct fanin_context *device;
    struct fanin_job job;
    uint32_t rank, lkey;
    void *memory;

    check(fanin_job_of_environment(&job, &rank), "reading the job");
    check(fanin_open(NULL, &device), "opening the device");
    check(fanin_join(device, &job, rank, TIMEOUT_MS, &communicator), "joining");

    /* The device accesses registered memory without a copy; other memory works, too. */
    check(fanin_allocate(device, COUNT * sizeof(float), FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &memory, &lkey),
          "registering memory");
    float *values = memory;
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)rank;

    check(fanin_allreduce(communicator, values, values, COUNT, FANIN_DTYPE_F32, FANIN_OP_SUM), "allreduce");
    printf("rank %u of %u: the sum of the ranks is %g\n", fanin_rank(communicator), fanin_size(communicator), values[0]);

    check(fanin_leave(communicator, TIMEOUT_MS), "leaving");
    fanin_close(device);
    free((void *)job.places);
    return 0;
}
