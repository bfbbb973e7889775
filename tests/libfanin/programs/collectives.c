/* Every collective of the C interface, in every form and over every kind of memory, with checks of the results.
 *
 * Arguments: rounds, seed, and optionally the address of the device, perhaps over RDMA: memory behind a fence is then
 * registered. The job comes from the environment. Ranks draw the same calls from the seed, and each its own memory.
 * Prints the number of calls, or the error, and exits with 1. */
#include <fanin/fanin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 64, TIMEOUT_MS = 60000 };

static uint32_t rank, ranks;
static struct fanin_context *device;
static struct fanin_communicator *communicator;
static const char *doing = "";
static const char *address; /* NULL: from the environment */

static void fail(const char *what)
{
    fprintf(stderr, "rank %u: %s: %s\n", rank, doing, what);
    exit(1);
}

static void expect(enum fanin_status status, enum fanin_status wanted)
{
    if (status != wanted)
        fail(fanin_status_name(status));
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

/* Element `i` of rank `r`'s data. */
static int64_t element(uint32_t r, uint64_t i, uint64_t salt)
{
    return (int64_t)((r + 1) * 1000003ull + i * 7919 + salt);
}

struct memory {
    int64_t *items;
    void *base;
    uint64_t length;
    uint32_t lkey;
    int registered;
};

enum { REGISTERED = 0 }; /* a kind of memory */

static struct memory new_memory(uint64_t count, uint64_t kind)
{
    struct memory memory = {.length = count * 8 + 64, .registered = kind % 3 == REGISTERED};

    if (memory.registered) {
        expect(fanin_allocate(device, memory.length, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &memory.base,
                              &memory.lkey), FANIN_SUCCESS);
    } else {
        memory.base = malloc(memory.length);
    }
    memory.items = (int64_t *)((char *)memory.base + (kind % 3 == 2 ? 8 : 0));
    return memory;
}

static void free_memory(struct memory *memory)
{
    if (memory->registered) {
        expect(fanin_deregister(device, memory->lkey), FANIN_SUCCESS);
        fanin_unmap(memory->base, memory->length);
    } else {
        free(memory->base);
    }
}

static const struct {
    const char *name;
    int root, divided_source, divided_destination; /* a block of `source` (destination) for each rank */
} rows[] = {
    [FANIN_ALLREDUCE] = {"allreduce", 0, 0, 0},      [FANIN_REDUCE] = {"reduce", 1, 0, 0},
    [FANIN_REDUCE_SCATTER] = {"reduce_scatter", 0, 1, 0}, [FANIN_BROADCAST] = {"broadcast", 1, 0, 0},
    [FANIN_ALLGATHER] = {"allgather", 0, 0, 1},      [FANIN_GATHER] = {"gather", 1, 0, 1},
    [FANIN_SCATTER] = {"scatter", 1, 1, 0},          [FANIN_BARRIER] = {"barrier", 0, 0, 0},
    [FANIN_ALLGATHERV] = {"allgatherv", 0, 0, 1},    [FANIN_GATHERV] = {"gatherv", 1, 0, 1},
    [FANIN_SCATTERV] = {"scatterv", 1, 1, 0},
};

static int64_t sum(uint64_t i, uint64_t salt)
{
    int64_t total = 0;

    for (uint32_t r = 0; r < ranks; r++)
        total += element(r, i, salt);
    return total;
}

/* One call, its data and its check. `counts`: elements of each rank's block; of one block, counts[0]. */
struct call {
    struct fanin_operation operation;
    uint64_t counts[MAX_RANKS], sizes[MAX_RANKS], offsets[MAX_RANKS], whole, salt;
    struct memory source, destination;
    int64_t *result;
};

static int is_vector(const struct call *call)
{
    return call->operation.collective >= FANIN_ALLGATHERV;
}

static uint64_t source_count(const struct call *call)
{
    return rows[call->operation.collective].divided_source ? call->whole : call->counts[rank];
}

static uint64_t destination_count(const struct call *call)
{
    return rows[call->operation.collective].divided_destination ? call->whole : call->counts[rank];
}

static void fill(struct call *call)
{
    for (uint64_t i = 0; i < source_count(call); i++)
        call->source.items[i] = element(rank, i, call->salt);
}

static void check(const struct call *call, const int64_t *result)
{
    uint32_t collective = call->operation.collective, root = call->operation.root;
    int mine = rank == root;

    if ((collective == FANIN_REDUCE || collective == FANIN_GATHER || collective == FANIN_GATHERV) && !mine)
        return;
    if (collective == FANIN_BROADCAST && mine)
        return;
    if (collective == FANIN_ALLGATHER || collective == FANIN_GATHER || collective == FANIN_ALLGATHERV ||
        collective == FANIN_GATHERV) {
        for (uint32_t r = 0; r < ranks; r++)
            for (uint64_t i = 0; i < call->counts[r]; i++)
                if (result[call->offsets[r] + i] != element(r, i, call->salt))
                    fail("wrong result");
        return;
    }
    for (uint64_t i = 0; i < call->counts[rank]; i++) {
        int64_t wanted = 0;
        if (collective == FANIN_ALLREDUCE || collective == FANIN_REDUCE)
            wanted = sum(i, call->salt);
        if (collective == FANIN_REDUCE_SCATTER)
            wanted = sum(call->offsets[rank] + i, call->salt);
        if (collective == FANIN_BROADCAST)
            wanted = element(root, i, call->salt);
        if (collective == FANIN_SCATTER || collective == FANIN_SCATTERV)
            wanted = element(root, call->offsets[rank] + i, call->salt);
        if (collective != FANIN_BARRIER && result[i] != wanted)
            fail("wrong result");
    }
}

static uint64_t draw_count(uint64_t *seed)
{
    static const uint64_t counts[] = {0, 1, 2, 3, 511, 512, 513, 4096, 5000, 65536, 65537, 131072, 300001};

    return counts[draw(seed) % (sizeof counts / sizeof *counts)];
}

static uint64_t draw_kind(const struct fanin_operation *operation, uint64_t *own_seed)
{
    uint64_t kind = draw(own_seed);

    return operation->flags & FANIN_FENCE && address ? REGISTERED : kind;
}

static void draw_call(struct call *call, uint64_t *seed, uint64_t *own_seed)
{
    uint64_t count = draw_count(seed), uneven;
    struct fanin_operation *operation = &call->operation;

    memset(call, 0, sizeof *call);
    operation->collective = (uint32_t)(draw(seed) % 11);
    operation->root = (uint32_t)draw(seed) % ranks;
    if (!rows[operation->collective].root)
        operation->root = 0;
    operation->op = FANIN_OP_SUM;
    operation->dtype = FANIN_DTYPE_I64;
    call->salt = draw(seed);
    uneven = draw(seed) % 2 && (is_vector(call) || operation->collective == FANIN_REDUCE_SCATTER);
    if (uneven || is_vector(call))
        count %= 70000;
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t other = draw_count(seed) % 5000;
        call->counts[r] = uneven ? other : count;
        call->sizes[r] = call->counts[r] * 8;
        call->offsets[r] = call->whole;
        call->whole += call->counts[r];
    }
    operation->block = call->sizes[rank];
    if (uneven)
        operation->sizes = call->sizes;
    if (is_vector(call) && draw(seed) % 2) {
        operation->flags |= FANIN_EXCHANGE_SIZES;
        if (operation->collective != FANIN_SCATTERV || rank != operation->root)
            operation->sizes = NULL;
        else {
            operation->sizes = call->sizes;
            operation->block = 0; /* ignored */
        }
    }
    if (draw(seed) % 4 == 0)
        operation->flags |= FANIN_FENCE;
    call->source = new_memory(source_count(call), draw_kind(operation, own_seed));
    fill(call);
    operation->source = call->source.items;
    /* In place, if both sides have the same blocks. */
    if (draw(own_seed) % 3 == 0 && operation->collective <= FANIN_REDUCE) {
        call->result = call->source.items;
    } else {
        call->destination = new_memory(destination_count(call), draw_kind(operation, own_seed));
        call->result = call->destination.items;
    }
    operation->destination = call->result;
    if (operation->flags & FANIN_EXCHANGE_SIZES && draw(own_seed) % 2)
        operation->destination = NULL;
    if (operation->collective == FANIN_BROADCAST) {
        operation->source = operation->destination = rank == operation->root ? call->source.items : call->result;
    }
    doing = rows[operation->collective].name;
}

static void end_call(struct call *call)
{
    free_memory(&call->source);
    if (call->destination.base)
        free_memory(&call->destination);
}

static void finish(struct call *call, struct fanin_request *request)
{
    enum fanin_status status;
    const uint64_t *sizes;
    uint64_t length;
    void *address;

    while ((status = fanin_wait(request, 1000)) == FANIN_PENDING)
        ;
    expect(status, FANIN_SUCCESS);
    fanin_result(request, &address, &length, &sizes);
    check(call, call->operation.destination ? call->result : address);
    fanin_free(request);
}

static void one_blocking(uint64_t *seed, uint64_t *own_seed)
{
    struct fanin_request *request = NULL;
    struct call call;

    draw_call(&call, seed, own_seed);
    if (draw(seed) % 2)
        call.operation.flags |= FANIN_ALL_BLOCK;
    if (!call.operation.destination && call.operation.flags & FANIN_EXCHANGE_SIZES)
        call.operation.destination = call.result;
    expect(fanin_call(communicator, &call.operation, TIMEOUT_MS, &request), FANIN_SUCCESS);
    check(&call, call.result);
    end_call(&call);
}

static void several_at_once(uint64_t *seed, uint64_t *own_seed)
{
    enum { MOST = 6 };
    struct fanin_request *requests[MOST];
    struct call calls[MOST];
    uint64_t count = 1 + draw(seed) % MOST;

    for (uint64_t i = 0; i < count; i++) {
        draw_call(&calls[i], seed, own_seed);
        expect(fanin_start(communicator, &calls[i].operation, &requests[i]), FANIN_SUCCESS);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t last = draw(own_seed) % 2 ? i : count - 1 - i;
        (void)last;
        doing = rows[calls[i].operation.collective].name;
        finish(&calls[i], requests[i]);
        end_call(&calls[i]);
    }
}

static void one_persistent(uint64_t *seed, uint64_t *own_seed)
{
    struct fanin_request *request;
    enum fanin_status status;
    struct call call;

    do
        draw_call(&call, seed, own_seed);
    while (call.operation.flags & FANIN_EXCHANGE_SIZES ? (end_call(&call), 1) : 0);
    expect(fanin_prepare(communicator, &call.operation, &request), FANIN_SUCCESS);
    for (int time = 0; time < 4; time++) {
        call.salt += 17;
        fill(&call);
        expect(fanin_restart(request), FANIN_SUCCESS);
        while ((status = fanin_wait(request, 1000)) == FANIN_PENDING)
            ;
        expect(status, FANIN_SUCCESS);
        check(&call, call.result);
    }
    fanin_free(request);
    end_call(&call);
}

/* A blocking call behind a fence brings earlier results: its long message is cut, and its parts are copied. */
static void one_fenced(void)
{
    enum { COUNT = 1 << 20, LAST = 1 << 17 }; /* elements: of a sum, and of its end, which is gathered */
    struct memory data = new_memory(COUNT, REGISTERED), all = new_memory((uint64_t)LAST * ranks, REGISTERED);
    struct fanin_operation reduce = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I64,
                                     .block = COUNT * 8, .source = data.items, .destination = data.items};
    struct fanin_operation gather = {.collective = FANIN_ALLGATHER, .flags = FANIN_FENCE | FANIN_ALL_BLOCK,
                                     .block = LAST * 8, .source = data.items + COUNT - LAST, .destination = all.items};
    struct fanin_request *request, *failed;

    doing = "fence";
    for (uint64_t i = 0; i < COUNT; i++)
        data.items[i] = element(rank, i, 0);
    expect(fanin_start(communicator, &reduce, &request), FANIN_SUCCESS);
    expect(fanin_call(communicator, &gather, TIMEOUT_MS, &failed), FANIN_SUCCESS);
    for (uint64_t i = 0; i < (uint64_t)LAST * ranks; i++)
        if (all.items[i] != sum(COUNT - LAST + i % LAST, 0))
            fail("data from before the fence");
    fanin_free(request);
    free_memory(&data);
    free_memory(&all);
}

/* A half of the ranks, in reverse order, and all of them once more. */
static void groups(void)
{
    struct fanin_communicator *half, *all;
    int64_t mine = rank, total = 0;

    doing = "split";
    expect(fanin_split(communicator, rank % 2, -(int64_t)rank, TIMEOUT_MS, &half), FANIN_SUCCESS);
    expect(fanin_allreduce(half, &mine, &total, 1, FANIN_DTYPE_I64, FANIN_OP_SUM), FANIN_SUCCESS);
    for (uint32_t r = rank % 2; r < ranks; r += 2)
        total -= r;
    if (total || fanin_size(half) != (ranks + 1 - rank % 2) / 2)
        fail("wrong group");
    doing = "dup";
    expect(fanin_dup(communicator, 0, TIMEOUT_MS, &all), FANIN_SUCCESS);
    expect(fanin_barrier(all), FANIN_SUCCESS);
    expect(fanin_leave(half, TIMEOUT_MS), FANIN_SUCCESS);
    expect(fanin_leave(all, TIMEOUT_MS), FANIN_SUCCESS);
}

static void complained(const char *word)
{
    if (!strstr(fanin_complaint(), word))
        fail(fanin_complaint());
}

/* The complaint is that of the last call, also if the device refuses it. */
static void refused_memory(void)
{
    void *memory;
    uint32_t lkey;

    expect(fanin_allocate(device, 0, FANIN_ACCESS_READ, &memory, &lkey), FANIN_INVALID_REQUEST);
    complained("0 bytes");
    expect(fanin_allocate(device, 4096, 99, &memory, &lkey), FANIN_INVALID_REQUEST);
    complained("access");
    expect(fanin_deregister(device, 12345), FANIN_INVALID_REQUEST);
    complained("lkey");
}

static void refused(const struct fanin_operation *operation, const char *word)
{
    struct fanin_request *request;

    expect(fanin_start(communicator, operation, &request), FANIN_INVALID_REQUEST);
    complained(word);
}

static void errors(void)
{
    int64_t data[16] = {0};
    struct fanin_operation operation = {.collective = FANIN_ALLREDUCE, .op = FANIN_OP_BAND, .dtype = FANIN_DTYPE_F32,
                                        .block = 8};
    struct fanin_request *request;

    doing = "errors";
    expect(fanin_start(communicator, &operation, &request), FANIN_NOT_SUPPORTED);
    operation.op = FANIN_OP_SUM;
    expect(fanin_start(communicator, &operation, &request), FANIN_INVALID_REQUEST); /* no source */
    operation.collective = 99;
    expect(fanin_start(communicator, &operation, &request), FANIN_INVALID_REQUEST);
    operation = (struct fanin_operation){.collective = FANIN_BROADCAST, .root = ranks};
    refused(&operation, "root");
    operation = (struct fanin_operation){.collective = FANIN_BARRIER, .flags = 1u << 20};
    refused(&operation, "unknown bits");
    operation = (struct fanin_operation){.collective = FANIN_BARRIER, .reserved = 5};
    refused(&operation, "reserved");
    operation = (struct fanin_operation){.collective = FANIN_ALLREDUCE, .op = FANIN_OP_SUM, .dtype = FANIN_DTYPE_I64,
                                         .block = 80, .source = data, .destination = data + 1};
    refused(&operation, "overlap");
    operation.block = 12;
    refused(&operation, "multiple of the element size 8");
    operation = (struct fanin_operation){.collective = FANIN_ALLGATHER, .flags = FANIN_EXCHANGE_SIZES};
    refused(&operation, "v-forms");
    operation = (struct fanin_operation){.collective = FANIN_BROADCAST, .block = UINT64_MAX, .source = data,
                                         .destination = data};
    refused(&operation, "more than 2^63 - 1 bytes");
    expect(fanin_allreduce(communicator, data, data, (1ull << 61) + 1, FANIN_DTYPE_I64, FANIN_OP_SUM),
           FANIN_INVALID_REQUEST);
    if (fanin_lkey_of(device, data, UINT64_MAX) != FANIN_LKEY_PROCESS)
        fail("a key of all memory");
    refused_memory();
    fanin_free(NULL);
    fanin_close(NULL);
    if (strcmp(fanin_status_name(FANIN_PEER_LOST), "PEER_LOST") || strcmp(fanin_status_name(999), "UNKNOWN"))
        fail("wrong name");
}

int main(int count, char **arguments)
{
    uint64_t rounds = count > 1 ? strtoull(arguments[1], NULL, 10) : 100;
    uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 10) : 1, own_seed;
    struct fanin_job job;

    address = count > 3 ? arguments[3] : NULL;
    expect(fanin_job_of_environment(&job, &rank), FANIN_SUCCESS);
    ranks = job.ranks;
    doing = "join";
    expect(fanin_open(address, &device), FANIN_SUCCESS);
    expect(fanin_join(device, &job, rank, TIMEOUT_MS, &communicator), FANIN_SUCCESS);
    own_seed = seed * 31 + rank;
    errors();
    groups();
    one_fenced();
    for (uint64_t round = 0; round < rounds; round++) {
        switch (draw(&seed) % 3) {
        case 0:
            one_blocking(&seed, &own_seed);
            break;
        case 1:
            several_at_once(&seed, &own_seed);
            break;
        default:
            one_persistent(&seed, &own_seed);
        }
    }
    doing = "leave";
    expect(fanin_leave(communicator, TIMEOUT_MS), FANIN_SUCCESS);
    fanin_close(device);
    free((void *)job.places);
    printf("rank %u: %llu rounds\n", rank, (unsigned long long)rounds);
    return 0;
}
