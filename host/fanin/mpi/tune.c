/* Measures each collective and size by MPI and devices in turn: in a stream, with one barrier at the end, and in step,
 * with a barrier after each call. A size pays if the devices are faster in both. Measures pairs of ranks, for which an
 * MPI is much faster, then all ranks together. */
#define _GNU_SOURCE
#include "tune.h"
#include "abi/pmpi.h"
#include "calls/offload.h"
#include "settings.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURNS 5
#define TURN_NS 8000000.0  /* of one side */
#define MAX_CALLS 2000
#define MIN_CALLS 2
#define SLOW_NS 100e6      /* a slower call, on crowded cores, is measured once */
#define ELEMENT sizeof(uint64_t)

static const uint64_t sizes[] = {8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20};
#define SIZES (int)(sizeof sizes / sizeof sizes[0])
#define MAX_BYTES (16 << 20)
#define NEVER_NS 1e18
#define SAID 250 /* characters of groups in a line */

enum side { BY_MPI, BY_DEVICES, SIDES };
enum mode { IN_STREAM, IN_STEP, MODES };

/* A communicator to measure, and the memory for its calls. */
struct bench {
    struct communicator *communicator;
    int is_reporting;          /* rank 0 of the world */
    uint8_t *source, *result;
    int *counts, *offsets;     /* of blocks */
    char groups[2048];         /* of thresholds found */
};

struct cell {
    double ns[MODES][SIDES];
};

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void call_mpi(struct call call)
{
    switch (call.function) {
#define X(name, lower, TABLE, collective) case TABLE: pmpi.name(TABLE##_PARAMETERS(INT_FIELD)); break;
        COLLECTIVES(X)
#undef X
    default:
        break;
    }
}

/* Returns 0 if the devices can not do this call. */
static int call_side(struct call call, enum side side)
{
    int code;

    if (side == BY_DEVICES)
        return shim_blocking(&call, &code);
    call_mpi(call);
    return 1;
}

/* The largest of all ranks' positive numbers. */
static double largest(double value)
{
    uint64_t bits, most;
    double all;

    memcpy(&bits, &value, sizeof bits); /* their bits have the same order */
    pmpi.Allreduce(&bits, &most, 1, shim_handle(TYPE_UINT64), shim_handle(OP_MAX), shim_handle(COMM_WORLD));
    memcpy(&all, &most, sizeof all);
    return all;
}

/* Nanoseconds of one of `calls` calls on the slowest rank. */
static double time_calls(const struct bench *bench, const struct call *call, enum side side, enum mode mode, int calls)
{
    handle comm = bench->communicator->handle;
    int done = 1;
    double start;

    pmpi.Barrier(shim_handle(COMM_WORLD));
    start = now_ns();
    for (int i = 0; i < calls && done; i++) {
        done = call_side(*call, side);
        if (mode == IN_STEP)
            pmpi.Barrier(comm);
    }
    pmpi.Barrier(comm);
    return largest(done ? (now_ns() - start) / calls : NEVER_NS);
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;

    return (difference > 0) - (difference < 0);
}

/* Nanoseconds of a call by each side: medians over turns. */
static void measure_mode(const struct bench *bench, const struct call *call, enum mode mode, double *medians)
{
    double times[SIDES][TURNS];
    int calls[SIDES], turns = TURNS;

    for (enum side side = BY_MPI; side < SIDES; side++) {
        double about = time_calls(bench, call, side, mode, 1), fit;
        if (about < SLOW_NS)
            about = time_calls(bench, call, side, mode, MIN_CALLS); /* the first call was the warm-up */
        else
            turns = 1;
        fit = TURN_NS / about;
        calls[side] = fit > MAX_CALLS ? MAX_CALLS : fit < MIN_CALLS ? MIN_CALLS : (int)fit;
    }
    for (int turn = 0; turn < turns; turn++)
        for (enum side side = BY_MPI; side < SIDES; side++)
            times[side][turn] = time_calls(bench, call, side, mode, calls[side]);
    for (enum side side = BY_MPI; side < SIDES; side++) {
        qsort(times[side], (size_t)turns, sizeof times[side][0], compare);
        medians[side] = times[side][turns / 2];
    }
}

/* Make a call with a message of about `size` bytes. Returns its exact size. */
static uint64_t prepare(const struct bench *bench, enum function function, uint64_t size, struct call *call)
{
    const struct communicator *communicator = bench->communicator;
    int has_one_block = function == ALLREDUCE || function == REDUCE || function == BCAST;
    uint64_t blocks = has_one_block ? 1 : (uint64_t)communicator->ranks;
    uint64_t count = size / blocks < ELEMENT ? 1 : size / blocks / ELEMENT;
    struct buffer send = {.address = bench->source, .count = (int64_t)count, .type = shim_handle(TYPE_UINT64)};
    struct buffer receive = send;

    for (int rank = 0; rank < communicator->ranks; rank++) {
        bench->counts[rank] = (int)count;
        bench->offsets[rank] = rank * (int)count;
    }
    receive.address = bench->result;
    if (function == REDUCE_SCATTER || function == ALLGATHERV || function == GATHERV)
        receive.counts = bench->counts, receive.offsets = function == REDUCE_SCATTER ? NULL : bench->offsets;
    if (function == SCATTERV)
        send.counts = bench->counts, send.offsets = bench->offsets;
    *call = (struct call){.function = function, .send = send, .receive = receive, .op = shim_handle(OP_SUM),
                          .comm = communicator->handle};
    return function == BARRIER ? 0 : count * ELEMENT * blocks;
}

static int pays(const struct cell *cell)
{
    for (enum mode mode = IN_STREAM; mode < MODES; mode++)
        if (cell->ns[mode][BY_DEVICES] > cell->ns[mode][BY_MPI])
            return 0;
    return 1;
}

static void report(const struct bench *bench, enum function function, uint64_t bytes, const struct cell *cell)
{
    if (bench->is_reporting)
        shim_say("%-20s %9llu B, %d ranks: in a stream %9.2f us, on devices %9.2f; in step %9.2f us, on devices %9.2f",
                 shim_function_names[function], (unsigned long long)bytes, bench->communicator->ranks,
                 cell->ns[IN_STREAM][BY_MPI] / 1e3, cell->ns[IN_STREAM][BY_DEVICES] / 1e3,
                 cell->ns[IN_STEP][BY_MPI] / 1e3, cell->ns[IN_STEP][BY_DEVICES] / 1e3);
}

/* The longest run of sizes that pay. If only the root knows the counts: all sizes, or none. */
static struct range range_of(enum function function, const uint64_t *bytes, const int *paying, int count)
{
    int best = 0, best_length = 0, length = 0;

    for (int i = 0; i < count; i++) {
        length = paying[i] ? length + 1 : 0;
        if (length > best_length)
            best_length = length, best = i - length + 1;
    }
    if (!best_length || ((function == GATHERV || function == SCATTERV) && best_length < count))
        return (struct range){1, 0};
    return (struct range){best ? bytes[best] : 0,
                          best + best_length == count ? UINT64_MAX : bytes[best + best_length - 1]};
}

static struct range measure_function(const struct bench *bench, enum function function)
{
    int count = function == BARRIER ? 1 : SIZES, paying[SIZES];
    uint64_t bytes[SIZES];

    for (int i = 0; i < count; i++) {
        struct call call;
        struct cell cell;
        bytes[i] = prepare(bench, function, sizes[i], &call);
        if (i && bytes[i] == bytes[i - 1]) { /* less than one element for each rank */
            paying[i] = paying[i - 1];
            continue;
        }
        for (enum mode mode = IN_STREAM; mode < MODES; mode++)
            measure_mode(bench, &call, mode, cell.ns[mode]);
        paying[i] = pays(&cell);
        report(bench, function, bytes[i], &cell);
    }
    return range_of(function, bytes, paying, count);
}

static int is_equal_everywhere(uint64_t number)
{
    uint64_t both[2] = {number, ~number}, most[2];

    pmpi.Allreduce(both, most, 2, shim_handle(TYPE_UINT64), shim_handle(OP_MAX), shim_handle(COMM_WORLD));
    return most[0] == ~most[1];
}

/* Measure a communicator, and append its group of thresholds. */
static void measure_communicator(struct bench *bench, struct communicator *communicator)
{
    struct range everything = {0, UINT64_MAX}, found[FUNCTION_COUNT];
    struct setting setting = communicator->setting;
    int is_loopback = setting.on_one_host && setting.route != FANIN_ROUTE_LOCAL;
    size_t length = strlen(bench->groups), room = sizeof bench->groups;
    char text[64];

    bench->communicator = communicator;
    for (int function = 0; function < FUNCTION_COUNT; function++)
        communicator->ranges[function] = everything;
    for (int function = 0; function < FUNCTION_COUNT; function++)
        found[function] = measure_function(bench, (enum function)function);
    memcpy(communicator->ranges, found, sizeof found);
    length += (size_t)snprintf(bench->groups + length, room - length, "%s %s%s %d: all=off", shim_abi->name,
                               is_loopback ? "one-host " : "", shim_route_name(setting.route), communicator->ranks);
    for (int function = 0; function < FUNCTION_COUNT; function++) {
        if (found[function].least > found[function].most)
            continue;
        shim_write_range(&found[function], text, sizeof text);
        length += (size_t)snprintf(bench->groups + length, room - length, ", %s=%s", shim_function_names[function],
                                   text);
    }
    snprintf(bench->groups + length, room - length, "\n");
}

/* Measure all pairs of ranks at the same time, if all can join and have the same route. */
static void measure_pairs(struct bench *bench, int rank)
{
    struct communicator *communicator;
    uint64_t kind = 0;
    handle pair = 0;

    if (pmpi.Comm_split(shim_handle(COMM_WORLD), rank / 2, rank, &pair))
        return;
    pair = load_handle(&pair);
    communicator = shim_communicator(pair);
    shim_join_communicator(communicator, 0);
    if (communicator->reason == NO_REASON)
        kind = 1 + communicator->setting.route;
    if (is_equal_everywhere(kind) && kind)
        measure_communicator(bench, communicator);
    pmpi.Comm_free(&pair);
}

static void write_groups(const char *path, const char *groups)
{
    FILE *file = fopen(path, "we");
    int written = file && fputs(groups, file) >= 0;

    if (file && fclose(file))
        written = 0;
    if (!written)
        shim_say("BAD_SETTING: FANIN_MPI_TUNE: %.200s can not be written: %s; name another file. Its text:\n%.*s",
                 path, strerror(errno), SAID, groups);
}

static void measure_all(struct bench *bench, struct communicator *world)
{
    size_t ranks = (size_t)world->ranks, bytes = MAX_BYTES + ELEMENT * ranks;

    bench->source = malloc(bytes);
    bench->result = malloc(bytes);
    bench->counts = calloc(ranks, sizeof *bench->counts);
    bench->offsets = calloc(ranks, sizeof *bench->offsets);
    if (!bench->source || !bench->result || !bench->counts || !bench->offsets)
        abort(); /* the other ranks would wait */
    memset(bench->source, 1, bytes); /* so that it has pages of its own */
    memset(bench->result, 1, bytes);
    if (world->ranks > 2 && world->ranks % 2 == 0)
        measure_pairs(bench, world->rank);
    measure_communicator(bench, world);
    free(bench->source);
    free(bench->result);
    free(bench->counts);
    free(bench->offsets);
}

void shim_tune(void)
{
    struct communicator *world;
    struct bench bench = {0};

    if (!shim_settings.tune)
        return;
    world = shim_communicator(shim_handle(COMM_WORLD));
    bench.is_reporting = !world->rank;
    if (world->reason == REASON_NOT_JOINED)
        shim_join_communicator(world, 0);
    if (world->reason == NO_REASON)
        measure_all(&bench, world);
    if (!bench.is_reporting)
        return;
    if (world->reason == NO_REASON)
        write_groups(getenv("FANIN_MPI_TUNE"), bench.groups);
    else
        shim_say("NOT_SUPPORTED: FANIN_MPI_TUNE measures nothing: %s", shim_reason_texts[world->reason]);
}
