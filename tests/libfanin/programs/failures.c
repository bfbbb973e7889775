/* The errors of ranks when another one fails. Arguments: the scenario, an empty folder. Prints "rank R: STATUS" lines,
 * and exits with 1 if a call fails that must work. */
#define _DEFAULT_SOURCE /* usleep */
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000, COUNT = 3 };

static struct fanin_communicator *communicator;
static struct fanin_context *device;
static struct fanin_job job;
static uint32_t rank, ranks;
static int32_t data[COUNT] = {1, 2, 3}, result[COUNT];
static const char *folder;

/* Ranks synchronize by files. */
static void path_of(char *path, size_t size, uint32_t of)
{
    snprintf(path, size, "%s/%u", folder, of);
}

static void tell_the_others(void)
{
    char path[4096];
    FILE *file;

    path_of(path, sizeof path, rank);
    file = fopen(path, "w");
    if (!file || fclose(file))
        exit(1);
}

static void wait_until_told_by(uint32_t other)
{
    char path[4096];

    path_of(path, sizeof path, other);
    for (int waited_ms = 0; access(path, F_OK); waited_ms += 10) {
        if (waited_ms > TIMEOUT_MS)
            exit(1);
        usleep(10000);
    }
}

static struct fanin_operation allreduce(void)
{
    return (struct fanin_operation){.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I32,
                                    .block = sizeof data, .source = data, .destination = result};
}

static void report(enum fanin_status status, const struct fanin_request *request)
{
    uint32_t missing[64], count = 0;
    struct fanin_cqe cqe = {0};

    if (request) {
        fanin_failure(request, &cqe);
        count = fanin_missing_ranks(&job, rank, cqe.missing, cqe.missing_kind, missing);
    }
    printf("rank %u: %s missing", rank, fanin_status_name(status));
    for (uint32_t i = 0; i < count; i++)
        printf(" %u", missing[i]);
    printf("\n");
}

static void call(const struct fanin_operation *operation)
{
    struct fanin_request *request;
    enum fanin_status status = fanin_call(communicator, operation, TIMEOUT_MS, &request);

    report(status, request);
    if (request)
        fanin_free(request);
}

static int scenario_told(void)
{
    enum fanin_status status;

    if (rank == 1)
        _exit(0);
    status = fanin_allreduce(communicator, data, result, COUNT, FANIN_DTYPE_I32, FANIN_OP_SUM);
    printf("rank %u: %s: %s\n", rank, fanin_status_name(status), fanin_complaint());
    return 0;
}

/* Rank 1 ends without a word. */
static int scenario_killed(void)
{
    struct fanin_operation operation = allreduce();

    if (rank == 1)
        _exit(0);
    call(&operation);
    return 0;
}

/* Rank 1 brings nothing, unlike the others. It does not wait, and gets the error in its next call. */
static int scenario_nothing(void)
{
    uint64_t count = rank == 1 ? 0 : COUNT;
    enum fanin_status status = fanin_allreduce(communicator, data, result, count, FANIN_DTYPE_I32, FANIN_OP_SUM);

    if (rank == 1 && status == FANIN_SUCCESS)
        status = fanin_allreduce(communicator, data, result, COUNT, FANIN_DTYPE_I32, FANIN_OP_SUM);
    report(status, NULL);
    return 0;
}

/* Rank 1 is too late for the others' time limit. */
static int scenario_late(void)
{
    struct fanin_operation operation = allreduce();

    operation.timeout_ms = 1000;
    if (rank == 1) {
        wait_until_told_by(0);
        wait_until_told_by(2);
    }
    call(&operation);
    tell_the_others();
    return 0;
}

/* Rank 1 has another root. A root and ranks on its node do not wait: they get the error in the next call. */
static int scenario_mismatch(void)
{
    struct fanin_operation operation = allreduce();

    if (fanin_broadcast(communicator, data, sizeof data, rank == 1) && rank < 2)
        return 1;
    call(&operation);
    return 0;
}

/* Rank 1 leaves while the others wait. */
static int scenario_left(void)
{
    struct fanin_operation operation = allreduce();

    if (rank == 1)
        return fanin_leave(communicator, TIMEOUT_MS) != FANIN_SUCCESS;
    call(&operation);
    return 0;
}

/* Rank 0 leaves while its own call is under way. */
static int scenario_flushed(void)
{
    struct fanin_operation operation = allreduce();
    struct fanin_request *request;

    if (rank) {
        wait_until_told_by(0);
        return fanin_leave(communicator, TIMEOUT_MS) != FANIN_SUCCESS;
    }
    if (fanin_start(communicator, &operation, &request) || fanin_test(request) != FANIN_PENDING ||
        fanin_leave(communicator, TIMEOUT_MS))
        return 1;
    report(fanin_test(request), request);
    fanin_free(request);
    tell_the_others();
    return 0;
}

/* While rank 1 is late, the others query the progress. */
static int scenario_asked(void)
{
    struct fanin_operation operation = allreduce();
    struct fanin_request_progress progress;
    struct fanin_request *request;

    if (rank == 1) {
        wait_until_told_by(0);
        wait_until_told_by(2);
    }
    if (fanin_start(communicator, &operation, &request))
        return 1;
    if (rank != 1) {
        do { /* until the third rank has called */
            usleep(10000);
            if (fanin_query(request, &progress) || fanin_test(request) != FANIN_PENDING)
                return 1;
        } while (progress.missing != 1 << 1);
        printf("rank %u: %llu of %llu missing %llx\n", rank, (unsigned long long)progress.done,
               (unsigned long long)progress.segments, (unsigned long long)progress.missing);
        tell_the_others();
    }
    report(fanin_wait(request, TIMEOUT_MS), NULL);
    fanin_free(request);
    return 0;
}

/* The root expects wrong sizes. */
static int scenario_sizes(void)
{
    uint64_t sizes[64];
    int32_t all[64];
    struct fanin_operation operation = {.collective = FANIN_GATHERV, .flags = FANIN_EXCHANGE_SIZES, .block = 4,
                                        .source = data, .destination = all};

    for (uint32_t r = 0; r < ranks; r++)
        sizes[r] = r == 1 ? 8 : 4;
    if (rank == 0)
        operation.sizes = sizes;
    memset(all, 0x55, sizeof all);
    call(&operation);
    for (int i = 0; i < 64; i++)
        if (all[i] != 0x55555555)
            return 1;
    operation = allreduce();
    call(&operation);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} scenarios[] = {{"killed", scenario_killed},     {"told", scenario_told},   {"nothing", scenario_nothing},
                 {"late", scenario_late},         {"left", scenario_left},
                 {"mismatch", scenario_mismatch}, {"asked", scenario_asked}, {"sizes", scenario_sizes},
                 {"flushed", scenario_flushed}};

int main(int count, char **arguments)
{
    if (count < 3 || fanin_job_of_environment(&job, &rank) || fanin_open(NULL, &device) ||
        fanin_join(device, &job, rank, TIMEOUT_MS, &communicator))
        return 1;
    ranks = job.ranks;
    folder = arguments[2];
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp(scenarios[i].name, arguments[1]))
            return scenarios[i].run();
    return 1;
}
