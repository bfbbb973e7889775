/* A failed operation is started again on the same communicator. Argument: how often. The last rank brings unmapped
 * memory, which fails the operation on every rank, then its data. Prints "rank R: N rounds"; exits with 1 on an
 * error. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, setenv */
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TIMEOUT_MS = 60000, COUNT = 1 << 16, BYTES = COUNT * 4, MAX_MAPPED = 64 << 20 };

static struct fanin_communicator *communicator;
static struct fanin_job job;
static uint32_t rank;
static int32_t *data, *result;

static void expect(enum fanin_status status, enum fanin_status expected, const char *what)
{
    if (status == expected)
        return;
    fprintf(stderr, "rank %u: %s: %s, not %s\n", rank, what, fanin_status_name(status), fanin_status_name(expected));
    exit(1);
}

static void check_result(const char *what)
{
    int32_t sum = (int32_t)(job.ranks * (job.ranks + 1) / 2);

    for (int i = 0; i < COUNT; i++)
        if (result[i] != sum) {
            fprintf(stderr, "rank %u: %s: element %d is %d\n", rank, what, i, result[i]);
            exit(1);
        }
    memset(result, 0, BYTES);
}

/* For the last rank: unmap the memory of the data, or map it. */
static void map_data(int mapped)
{
    if (rank + 1 < job.ranks)
        return;
    if (munmap(data, BYTES) ||
        (mapped && mmap(data, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != data))
        exit(1);
    for (int i = 0; mapped && i < COUNT; i++)
        data[i] = (int32_t)rank + 1;
}

static enum fanin_status reduce(enum fanin_dtype dtype, enum fanin_op op)
{
    return fanin_allreduce(communicator, data, result, COUNT, dtype, op);
}

static enum fanin_status start_and_wait(const struct fanin_operation *operation)
{
    struct fanin_request *request;
    enum fanin_status status = fanin_start(communicator, operation, &request);

    if (status != FANIN_SUCCESS)
        return status;
    status = fanin_wait(request, TIMEOUT_MS);
    fanin_free(request);
    return status;
}

static enum fanin_status restart_and_wait(struct fanin_request *request)
{
    enum fanin_status status = fanin_restart(request);

    return status == FANIN_SUCCESS ? fanin_wait(request, TIMEOUT_MS) : status;
}

/* Bytes of registered memory: a failed request must not keep any. */
static unsigned long mapped(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long begin, end, bytes = 0;
    char line[512];

    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:fanin-memory") && sscanf(line, "%lx-%lx", &begin, &end) == 2)
            bytes += end - begin;
    if (maps)
        fclose(maps);
    return bytes;
}

int main(int count, char **arguments)
{
    struct fanin_operation operation = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I32,
                                        .block = BYTES};
    struct fanin_context *device;
    struct fanin_request *persistent;
    int rounds;

    if (count < 2 || fanin_job_of_environment(&job, &rank))
        return 1;
    if (rank + 1 == job.ranks)
        setenv("FANIN_STAGING", "0", 1); /* the device reads its memory, not the library */
    if (fanin_open(NULL, &device) || fanin_join(device, &job, rank, TIMEOUT_MS, &communicator))
        return 1;
    data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    result = calloc(COUNT, 4);
    if (data == MAP_FAILED || !result)
        return 1;
    for (int i = 0; i < COUNT; i++)
        data[i] = (int32_t)rank + 1;
    operation.source = data;
    operation.destination = result;
    expect(fanin_prepare(communicator, &operation, &persistent), FANIN_SUCCESS, "prepare");

    rounds = atoi(arguments[1]);
    for (int round = 0; round < rounds; round++) {
        expect(reduce(FANIN_DTYPE_F32, FANIN_OP_BAND), FANIN_NOT_SUPPORTED, "an operation without a meaning");
        map_data(0);
        expect(reduce(FANIN_DTYPE_I32, FANIN_OP_SUM), FANIN_LOCAL_PROTECTION_ERROR, "a call without memory");
        expect(start_and_wait(&operation), FANIN_LOCAL_PROTECTION_ERROR, "a start without memory");
        expect(restart_and_wait(persistent), FANIN_LOCAL_PROTECTION_ERROR, "a restart without memory");
        map_data(1);
        expect(reduce(FANIN_DTYPE_I32, FANIN_OP_SUM), FANIN_SUCCESS, "the call again");
        check_result("the call again");
        expect(start_and_wait(&operation), FANIN_SUCCESS, "the start again");
        check_result("the start again");
        expect(restart_and_wait(persistent), FANIN_SUCCESS, "the restart again");
        check_result("the restart again");
    }
    if (mapped() > MAX_MAPPED) {
        fprintf(stderr, "rank %u: %lu bytes of registered memory\n", rank, mapped());
        return 1;
    }
    fanin_free(persistent);
    expect(fanin_leave(communicator, TIMEOUT_MS), FANIN_SUCCESS, "leave");
    fanin_close(device);
    munmap(data, BYTES);
    free(result);
    printf("rank %u: %d rounds\n", rank, rounds);
    return 0;
}
