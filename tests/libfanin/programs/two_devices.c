/* A host with two NICs: one memory is registered with both, and a communicator on each reduces it in place.
 *
 * Arguments: the sockets of two devices, and a job id; the next one is used as well. */
#define _DEFAULT_SOURCE /* close */
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 100000, TIMEOUT_MS = 60000, NICS = 2 };

static void check(enum fanin_status status, const char *what)
{
    if (status == FANIN_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, fanin_status_name(status));
    exit(1);
}

int main(int count, char **arguments)
{
    struct fanin_communicator *communicators[NICS];
    struct fanin_context *devices[NICS];
    uint32_t keys[NICS];
    uint64_t length = COUNT * sizeof(int32_t);
    void *memory;
    int memfd;

    if (count != 4)
        return 1;
    for (int nic = 0; nic < NICS; nic++) {
        check(fanin_open(arguments[1 + nic], &devices[nic]), "open");
        struct fanin_place place = {.address = fanin_limits(devices[nic])->address};
        struct fanin_job job = {.jid = (uint32_t)(strtoul(arguments[3], NULL, 10) + (unsigned long)nic), .key = 7,
                                .route = FANIN_ROUTE_AUTO, .ranks = 1, .places = &place};
        check(fanin_join(devices[nic], &job, 0, TIMEOUT_MS, &communicators[nic]), "join");
    }
    check(fanin_allocate_shared(devices[0], length, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &memory, &keys[0], &memfd),
          "allocate");
    check(fanin_register(devices[1], memfd, 0, memory, length, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &keys[1]),
          "register");
    close(memfd);

    int32_t *values = memory;
    for (int i = 0; i < COUNT; i++)
        values[i] = i;
    for (int nic = 0; nic < NICS; nic++) {
        if (fanin_lkey_of(devices[nic], memory, length) != keys[nic])
            check(FANIN_LOCAL_PROTECTION_ERROR, "the key of the memory");
        check(fanin_allreduce(communicators[nic], values, values, COUNT, FANIN_DTYPE_I32, FANIN_OP_SUM), "allreduce");
    }
    for (int i = 0; i < COUNT; i++)
        if (values[i] != i)
            check(FANIN_OP_MISMATCH, "the result");

    for (int nic = 0; nic < NICS; nic++) {
        check(fanin_deregister(devices[nic], keys[nic]), "deregister");
        if (fanin_lkey_of(devices[nic], memory, length) != FANIN_LKEY_PROCESS)
            check(FANIN_LOCAL_PROTECTION_ERROR, "the key of memory that is not registered");
        check(fanin_leave(communicators[nic], TIMEOUT_MS), "leave");
        fanin_close(devices[nic]);
    }
    fanin_unmap(memory, length);
    puts("right");
    return 0;
}
