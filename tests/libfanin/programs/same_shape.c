/* Calls of a few shapes in random order, blocking, started or refused, with changing memory: each must use its own
 * arguments, whatever call its request was before. Arguments: rounds, seed. */
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 60000, MAX_TEXT = 2048, PLACES = 3, SHAPES = 8, STARTED = 5 };

static struct fanin_communicator *communicator;
static uint32_t rank, ranks, state;
static int32_t in[PLACES][MAX_TEXT], out[PLACES][MAX_TEXT];

static void fail(const char *what, uint32_t round)
{
    fprintf(stderr, "rank %u, round %u: %s\n", rank, round, what);
    exit(1);
}

static uint32_t choose(uint32_t below)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static struct fanin_operation shape_of(uint32_t number)
{
    static const struct {
        uint32_t collective, op, dtype, root, words;
    } shapes[SHAPES] = {
        {FANIN_REDUCE, FANIN_OP_SUM, FANIN_DTYPE_I32, 0, 2},     {FANIN_REDUCE, FANIN_OP_SUM, FANIN_DTYPE_I32, 1, 2},
        {FANIN_REDUCE, FANIN_OP_MAX, FANIN_DTYPE_I32, 0, 2},     {FANIN_ALLREDUCE, FANIN_OP_SUM, FANIN_DTYPE_I32, 0, 2},
        {FANIN_BROADCAST, FANIN_OP_NONE, FANIN_DTYPE_I32, 0, 2},
        {FANIN_BROADCAST, FANIN_OP_NONE, FANIN_DTYPE_I32, 1, 2},
        {FANIN_BROADCAST, FANIN_OP_NONE, FANIN_DTYPE_I32, 0, MAX_TEXT},
        {FANIN_ALLREDUCE, FANIN_OP_SUM, FANIN_DTYPE_I32, 0, MAX_TEXT}};

    return (struct fanin_operation){.collective = shapes[number].collective, .root = shapes[number].root,
                                    .op = shapes[number].op, .dtype = shapes[number].dtype,
                                    .flags = FANIN_ALL_BLOCK, .block = shapes[number].words * sizeof(int32_t)};
}

static int32_t value_of(uint32_t round, uint32_t of, uint32_t word)
{
    return (int32_t)(round * 7 + of * 1000 + word);
}

/* A word of the result. */
static int32_t expected(const struct fanin_operation *operation, uint32_t round, uint32_t word)
{
    int32_t sum = 0;

    if (operation->collective == FANIN_BROADCAST)
        return value_of(round, operation->root, word);
    if (operation->op == FANIN_OP_MAX)
        return value_of(round, ranks - 1, word);
    for (uint32_t of = 0; of < ranks; of++)
        sum += value_of(round, of, word);
    return sum;
}

static void play(uint32_t round)
{
    struct fanin_operation operation = shape_of(choose(SHAPES));
    uint32_t place = choose(PLACES), words = (uint32_t)(operation.block / sizeof(int32_t));
    int gets = operation.collective == FANIN_ALLREDUCE || rank == operation.root;
    struct fanin_request *request = NULL;
    int32_t *result = out[place];

    for (uint32_t word = 0; word < words; word++)
        in[place][word] = value_of(round, rank, word);
    memset(result, 0xff, operation.block);
    operation.source = in[place];
    operation.destination = result;
    if (operation.collective == FANIN_BROADCAST)
        gets = rank != operation.root;
    if (choose(STARTED) == 0) {
        struct fanin_operation wrong = operation;
        wrong.root = ranks;
        wrong.collective = FANIN_REDUCE;
        if (fanin_call(communicator, &wrong, 0, NULL) != FANIN_INVALID_REQUEST)
            fail("a root that there is not was taken", round);
    }
    if (choose(STARTED) == 0) {
        if (fanin_start(communicator, &operation, &request) || fanin_wait(request, TIMEOUT_MS))
            fail("a started call failed", round);
        fanin_free(request);
    } else if (fanin_call(communicator, &operation, 0, NULL)) {
        fail("a call failed", round);
    }
    for (uint32_t word = 0; word < words && gets; word++)
        if (result[word] != expected(&operation, round, word))
            fail("the result is wrong", round);
}

int main(int count, char **arguments)
{
    struct fanin_context *device;
    struct fanin_job job;

    if (count != 3 || fanin_job_of_environment(&job, &rank) || fanin_open(NULL, &device) ||
        fanin_join(device, &job, rank, TIMEOUT_MS, &communicator))
        return 2;
    ranks = job.ranks;
    state = (uint32_t)atoi(arguments[2]);
    for (uint32_t round = 0; round < (uint32_t)atoi(arguments[1]); round++)
        play(round);
    fanin_leave(communicator, TIMEOUT_MS);
    fanin_close(device);
    free((void *)job.places);
    return 0;
}
