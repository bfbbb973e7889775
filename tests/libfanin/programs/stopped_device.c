/* A rank whose device stands still. Arguments: the socket of the device, a job id, the number of ranks, all of this
 * device, and its rank. Prints "joined". For each line of standard input it does an allreduce, and prints the status,
 * whether the device stands still, and the milliseconds of the call. */
#define _DEFAULT_SOURCE /* alarm */
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 2, COUNT = 1000, TIMEOUT_MS = 60000, LIMIT_S = 30 };

int main(int count, char **arguments)
{
    static struct fanin_place places[MOST];
    static int32_t data[COUNT], result[COUNT];
    struct fanin_communicator *communicator;
    struct fanin_context *device;
    char line[16];

    alarm(LIMIT_S);
    if (count != 5 || fanin_open(arguments[1], &device))
        return 1;
    struct fanin_job job = {.jid = (uint32_t)strtoul(arguments[2], NULL, 10), .key = 7, .route = FANIN_ROUTE_AUTO,
                            .ranks = (uint32_t)atoi(arguments[3]), .places = places};
    if (job.ranks > MOST)
        return 1;
    for (uint32_t rank = 0; rank < job.ranks; rank++)
        places[rank].address = fanin_limits(device)->address;
    if (fanin_join(device, &job, (uint32_t)atoi(arguments[4]), TIMEOUT_MS, &communicator))
        return 1;
    puts("joined");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t start = fanin_now_ms();
        enum fanin_status status =
            fanin_allreduce(communicator, data, result, COUNT, FANIN_DTYPE_I32, FANIN_OP_SUM);

        printf("%s %d %llu\n", fanin_status_name(status), fanin_device_stands_still(device),
               (unsigned long long)(fanin_now_ms() - start));
        fflush(stdout);
    }
    fanin_close(device);
    return 0;
}
