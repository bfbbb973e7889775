/* Requests of ranks that want no result. Arguments: the scenario, and a folder in which ranks leave marks. Exits with 1
 * if a call fails that must work, or a result is wrong. */
#define _DEFAULT_SOURCE /* usleep */
#include <fanin/fanin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000, AHEAD = 100, STREAM = 1000, WORDS = 1024, FOUR_SEGMENTS = 4096, LONG_WORDS = 1 << 20,
       BLOCK_WORDS = 4096 };

static struct fanin_communicator *communicator;
static struct fanin_context *device;
static struct fanin_job job;
static uint32_t rank;
static const char *folder;
static int32_t data[LONG_WORDS], result[LONG_WORDS];

static void fail(const char *what)
{
    fprintf(stderr, "rank %u: %s\n", rank, what);
    exit(1);
}

static char *name_of_mark(uint32_t of)
{
    static char name[4096];

    snprintf(name, sizeof name, "%s/%u", folder, of);
    return name;
}

static void leave_mark(void)
{
    FILE *mark = fopen(name_of_mark(rank), "w");

    if (!mark || fclose(mark))
        fail("no mark");
}

static void await_mark(uint32_t of)
{
    while (access(name_of_mark(of), F_OK))
        usleep(1000);
}

static void fill(uint32_t words, int32_t value)
{
    for (uint32_t i = 0; i < words; i++)
        data[i] = value + (int32_t)i;
}

static enum fanin_status broadcast(uint32_t words)
{
    return fanin_broadcast(communicator, data, words * sizeof *data, 0);
}

/* Receive a message that the root finished long ago. */
static void take(uint32_t words, int32_t value)
{
    enum fanin_status status;

    memset(data, 0, words * sizeof *data);
    status = broadcast(words);
    if (status)
        fail(fanin_status_name(status));
    for (uint32_t i = 0; i < words; i++)
        if (data[i] != value + (int32_t)i)
            fail("the data are wrong");
}

/* All messages of the root, before any other rank calls. */
static void run_ahead(uint32_t words)
{
    for (int32_t i = 0; i < AHEAD; i++) {
        fill(words, i);
        if (broadcast(words))
            fail("a broadcast failed");
    }
    memset(data, 0xff, words * sizeof *data);
}

static void take_all(uint32_t words, uint32_t messages)
{
    for (uint32_t i = 0; i < messages; i++)
        take(words, (int32_t)i);
}

static void move_on(uint32_t words)
{
    if (rank) {
        await_mark(0);
        take_all(words, AHEAD);
        return;
    }
    run_ahead(words);
    if (fanin_flush(communicator, 0) != FANIN_PENDING)
        fail("nobody has taken part, and all is done");
    leave_mark();
    if (fanin_flush(communicator, TIMEOUT_MS))
        fail("not all have been served");
}

static void scenario_inline(void)
{
    move_on(2);
}

static void scenario_copied(void)
{
    move_on(WORDS);
}

/* Within one node a message is one segment, which arrives before a rank asks. */
static void scenario_longest(void)
{
    move_on(FOUR_SEGMENTS);
}

/* With a time limit a rank ignores arrivals, and gets the data in the usual way. */
static void scenario_lying(void)
{
    struct fanin_operation operation = {.collective = FANIN_BROADCAST, .source = rank ? NULL : data,
                                        .destination = rank ? data : NULL, .block = WORDS * sizeof *data,
                                        .timeout_ms = TIMEOUT_MS};
    struct fanin_request *request;

    if (rank == 0) {
        run_ahead(WORDS);
        leave_mark();
        return;
    }
    await_mark(0);
    for (int32_t i = 0; i < AHEAD; i++) {
        memset(data, 0, WORDS * sizeof *data);
        if (fanin_start(communicator, &operation, &request) || fanin_wait(request, TIMEOUT_MS))
            fail("a broadcast failed");
        fanin_free(request);
        for (int32_t word = 0; word < WORDS; word++)
            if (data[word] != i + word)
                fail("the data are wrong");
    }
}

/* Despite arrivals, a long message of short blocks in one part gets a bounce buffer. */
static void scenario_blocks(void)
{
    scenario_lying();
    fill(BLOCK_WORDS * job.ranks, 3);
    if (fanin_scatter(communicator, data, result, BLOCK_WORDS * sizeof *data, 0))
        fail("a scatter failed");
    for (uint32_t i = 0; i < BLOCK_WORDS; i++)
        if (result[i] != (int32_t)(3 + rank * BLOCK_WORDS + i))
            fail("the data are wrong");
}

/* More than may be under way, of all lengths. */
static void scenario_stream(void)
{
    for (uint32_t i = 0; i < STREAM; i++) {
        uint32_t words = i % 100 == 99 ? LONG_WORDS : 1 + i * 7 % FOUR_SEGMENTS;
        if (rank) {
            take(words, (int32_t)i);
            continue;
        }
        fill(words, (int32_t)i);
        if (broadcast(words))
            fail("a broadcast failed");
    }
}

/* The others bring their data to a sum before the root asks for it. */
static void scenario_reduce(void)
{
    const int32_t others = (int32_t)job.ranks - 1;

    for (uint32_t other = 1; other < job.ranks && rank == 0; other++)
        await_mark(other);
    for (int32_t i = 0; i < AHEAD; i++) {
        fill(WORDS, rank ? i : 0);
        if (fanin_reduce(communicator, data, result, WORDS, FANIN_DTYPE_I32, FANIN_OP_SUM, 0))
            fail("a reduce failed");
        for (int32_t word = 0; word < WORDS && rank == 0; word++)
            if (result[word] != others * (i + word) + word)
                fail("a sum is wrong");
    }
    if (rank)
        leave_mark();
}

/* Non-blocking requests end early, too, also after fanin_free. */
static void scenario_requests(void)
{
    struct fanin_operation operation = {.collective = FANIN_BROADCAST, .block = WORDS * sizeof *data, .source = data,
                                        .destination = data};
    struct fanin_request *request;

    for (int32_t i = 0; i < AHEAD && rank == 0; i++) {
        fill(WORDS, i);
        if (fanin_start(communicator, &operation, &request) || fanin_test(request) || fanin_wait(request, 0))
            fail("a broadcast has not ended");
        fanin_free(request);
    }
    if (rank == 0) {
        leave_mark();
        return;
    }
    await_mark(0);
    take_all(WORDS, AHEAD);
}

/* A persistent request ends only when all ranks have taken part. */
static void scenario_persistent(void)
{
    struct fanin_operation operation = {.collective = FANIN_BROADCAST, .block = WORDS * sizeof *data, .source = data,
                                        .destination = data};
    struct fanin_request *request;

    if (fanin_prepare(communicator, &operation, &request))
        fail("a request can not be made");
    for (int32_t i = 0; i < AHEAD; i++) {
        if (rank && i == 0)
            await_mark(0);
        fill(WORDS, rank ? 0 : i);
        if (fanin_restart(request))
            fail("a request can not be started");
        if (rank == 0 && i == 0) {
            if (fanin_test(request) != FANIN_PENDING)
                fail("it has ended before the others took part");
            leave_mark();
        }
        if (fanin_wait(request, TIMEOUT_MS))
            fail("a broadcast failed");
        for (int32_t word = 0; word < WORDS; word++)
            if (data[word] != i + word)
                fail("the data are wrong");
    }
    fanin_free(request);
}

/* With a time limit a rank waits for the others. */
static void scenario_limit(void)
{
    struct fanin_operation operation = {.collective = FANIN_BROADCAST, .block = 8, .source = data, .destination = data,
                                        .timeout_ms = 200};
    struct fanin_request *request;
    enum fanin_status status;

    if (rank)
        await_mark(0);
    status = fanin_call(communicator, &operation, TIMEOUT_MS, &request);
    printf("rank %u: %s\n", rank, fanin_status_name(status));
    if (request)
        fanin_free(request);
    if (!rank)
        leave_mark();
}

static void call(struct fanin_operation operation)
{
    if (fanin_call(communicator, &operation, TIMEOUT_MS, NULL))
        fail("a call failed");
}

/* The root sends before the others ask: a message of two parts, of which the second is short, and as long as another
 * rank's share of the first. */
static void scenario_parts(void)
{
    const uint64_t given[6] = {12, 12, 12, 12, 8, 12};
    const struct fanin_operation operation = {.collective = FANIN_SCATTERV, .block = given[rank], .sizes = given,
                                              .source = data, .destination = result};
    struct fanin_request *request;
    int32_t first = 0;

    if (rank)
        await_mark(0);
    for (uint32_t before = 0; before < rank; before++)
        first += (int32_t)(given[before] / sizeof *data);
    fill(WORDS, 1);
    memset(result, 0, sizeof *result * WORDS);
    if (fanin_start(communicator, &operation, &request))
        fail("a scatter can not be started");
    if (!rank) {
        usleep(100000);
        leave_mark();
    }
    if (fanin_wait(request, TIMEOUT_MS))
        fail("a scatter failed");
    fanin_free(request);
    for (uint32_t i = 0; i < given[rank] / sizeof *data; i++)
        if (result[i] != 1 + first + (int32_t)i)
            fail("the data are those of another rank");
}

/* A fence does not wait for unsignaled completions. */
static void scenario_fence(void)
{
    const struct fanin_operation sum = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I32,
                                        .flags = FANIN_FENCE, .block = 8, .source = data, .destination = result};
    const uint64_t share = sizeof data / job.ranks / 4096 * 4096;

    if (rank)
        await_mark(0);
    fill(2, 1);
    if (broadcast(2))
        fail("a broadcast failed");
    if (!rank) {
        usleep(100000);
        leave_mark();
    }
    call(sum);
    if (result[0] != (int32_t)job.ranks)
        fail("a sum is wrong");
    if (broadcast(2))
        fail("a broadcast failed");
    call((struct fanin_operation){.collective = FANIN_ALLGATHER, .flags = FANIN_FENCE | FANIN_ALL_BLOCK,
                                  .block = share, .source = data, .destination = result});
    if (result[share / sizeof *result * (job.ranks - 1)] != 1)
        fail("what was gathered is wrong");
}

/* With a time limit a rank takes no arrivals, while the 16-bit message numbers wrap around. */
static void scenario_counted(void)
{
    struct fanin_operation operation = {.collective = FANIN_BROADCAST, .block = 8, .source = data, .destination = data,
                                        .timeout_ms = TIMEOUT_MS};
    struct fanin_request *request;

    fill(2, 1);
    if (rank == 0 && broadcast(2))
        fail("a broadcast failed");
    if (rank == 0) {
        usleep(100000);
        leave_mark();
    } else {
        await_mark(0);
        if (fanin_start(communicator, &operation, &request) || fanin_wait(request, TIMEOUT_MS))
            fail("a broadcast failed");
        fanin_free(request);
    }
    for (uint32_t i = 1; i < 1u << FANIN_MID_BITS; i++)
        if (fanin_barrier(communicator))
            fail("a barrier failed");
    fill(2, 5);
    if (rank)
        take(2, 5);
    else if (broadcast(2))
        fail("a broadcast failed");
}

/* The root leaves, or closes its device, before the others begin. */
static void go_at_once(void)
{
    if (rank) {
        usleep(300000);
        take_all(WORDS, AHEAD);
        return;
    }
    run_ahead(WORDS);
}

static void scenario_leave(void)
{
    go_at_once();
    if (fanin_leave(communicator, TIMEOUT_MS))
        fail("the job can not be left");
    communicator = NULL;
}

static void scenario_close(void)
{
    go_at_once();
    fanin_close(device);
    device = NULL;
}

/* The root is killed; the others get the data or an error. */
static void scenario_killed(void)
{
    enum fanin_status status = FANIN_SUCCESS;
    int32_t got = 0;

    if (rank == 0) {
        run_ahead(WORDS);
        raise(SIGKILL);
    }
    for (; got < AHEAD && status == FANIN_SUCCESS; got += status == FANIN_SUCCESS) {
        status = broadcast(WORDS);
        if (status == FANIN_SUCCESS && data[WORDS - 1] != got + WORDS - 1)
            fail("the data are wrong");
    }
    printf("rank %u: %s\n", rank, fanin_status_name(status));
}

/* A result remains available after the program has left. */
static void scenario_left(void)
{
    struct fanin_operation operation = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I32,
                                        .block = WORDS * sizeof *data, .source = data, .destination = result};
    struct fanin_request *request;

    fill(WORDS, 1);
    if (fanin_start(communicator, &operation, &request))
        fail("an allreduce can not be started");
    leave_mark();
    for (uint32_t other = 0; other < job.ranks; other++)
        await_mark(other);
    sleep(1);
    fanin_leave(communicator, TIMEOUT_MS);
    communicator = NULL;
    if (fanin_test(request) || result[WORDS - 1] != (int32_t)job.ranks * WORDS)
        fail("the result is lost");
    fanin_free(request);
}

/* Rank 1 ends without leaving. The next call, or a flush, reports it. */
static void scenario_told(void)
{
    enum fanin_status status = FANIN_SUCCESS;

    if (rank == 1)
        _exit(0);
    for (int i = 0; i < STREAM && status == FANIN_SUCCESS; i++)
        status = broadcast(2);
    printf("rank %u: %s, flush %s\n", rank, fanin_status_name(status),
           fanin_status_name(fanin_flush(communicator, TIMEOUT_MS)));
}

/* A flush reports it to the root. A rank on its node has the data, and gets the error in its next call. */
static void scenario_flushed(void)
{
    enum fanin_status status;

    if (rank == 1)
        _exit(0);
    if (rank == 0 && broadcast(2))
        fail("a broadcast failed");
    status = rank ? broadcast(2) : fanin_flush(communicator, TIMEOUT_MS);
    if (rank && status == FANIN_SUCCESS)
        status = fanin_barrier(communicator);
    printf("rank %u: %s\n", rank, fanin_status_name(status));
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {{"inline", scenario_inline},   {"copied", scenario_copied},         {"longest", scenario_longest},
                 {"stream", scenario_stream},   {"reduce", scenario_reduce},         {"requests", scenario_requests},
                 {"limit", scenario_limit},     {"leave", scenario_leave},           {"close", scenario_close},
                 {"killed", scenario_killed},   {"told", scenario_told},             {"flushed", scenario_flushed},
                 {"left", scenario_left},       {"persistent", scenario_persistent}, {"counted", scenario_counted},
                 {"parts", scenario_parts},     {"fence", scenario_fence},           {"lying", scenario_lying},
                 {"blocks", scenario_blocks}};

int main(int count, char **arguments)
{
    alarm(60);
    if (count != 3 || fanin_job_of_environment(&job, &rank) || fanin_open(NULL, &device) ||
        fanin_join(device, &job, rank, TIMEOUT_MS, &communicator))
        return 1;
    folder = arguments[2];
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp(scenarios[i].name, arguments[1]))
            scenarios[i].run();
    if (communicator && device)
        fanin_leave(communicator, TIMEOUT_MS);
    if (device)
        fanin_close(device);
    return 0;
}
