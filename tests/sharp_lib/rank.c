/* One rank that calls libsharp_coll as UCC's TL/SHARP does: rank RANK SIZE FOLDER PROGRAM. Prints "ok" in the end, or
 * errors on standard error, with exit status 1. UCC_TL_SHARP_DEVICES chooses NICs, as with UCC. */
#include "out_of_band.h"
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CHECK(condition) ((condition) ? (void)0 : fail_check(#condition, __LINE__))
#define COUNT_OF(table) ((int)(sizeof(table) / sizeof *(table)))

static int own_rank;
static int is_without_memory; /* calloc fails, by which libsharp_coll allocates groups */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they have their own calloc */
void *__libc_calloc(size_t count, size_t size);

void *calloc(size_t count, size_t size)
{
    return is_without_memory ? NULL : __libc_calloc(count, size);
}
#endif

static void fail_check(const char *condition, int line)
{
    fprintf(stderr, "rank %d: line %d: not so: %s\n", own_rank, line, condition);
    exit(1);
}

/* ---- Elements of each type, from small numbers that all types can hold ---- */

static const struct {
    enum sharp_datatype type;
    const char *name;
    size_t bytes;
    int is_float;
} TYPES[] = {
    {SHARP_DTYPE_INT8, "i8", 1, 0}, {SHARP_DTYPE_UINT8, "u8", 1, 0}, {SHARP_DTYPE_SHORT, "i16", 2, 0},
    {SHARP_DTYPE_UNSIGNED_SHORT, "u16", 2, 0}, {SHARP_DTYPE_INT, "i32", 4, 0}, {SHARP_DTYPE_UNSIGNED, "u32", 4, 0},
    {SHARP_DTYPE_LONG, "i64", 8, 0}, {SHARP_DTYPE_UNSIGNED_LONG, "u64", 8, 0}, {SHARP_DTYPE_FLOAT_SHORT, "f16", 2, 1},
    {SHARP_DTYPE_BFLOAT16, "bf16", 2, 1}, {SHARP_DTYPE_FLOAT, "f32", 4, 1}, {SHARP_DTYPE_DOUBLE, "f64", 8, 1},
};

static uint16_t half_of(unsigned value)
{
    unsigned exponent = 0;

    while (value >> (exponent + 1))
        exponent++;
    return value ? (uint16_t)(((exponent + 15) << 10) | ((value << (10 - exponent)) & 0x3ff)) : 0;
}

static void store(void *data, size_t i, int type, unsigned value)
{
    float single = (float)value;
    double precise = value;
    uint32_t bits;
    uint16_t half;
    uint64_t integer = value; /* little-endian: its first bytes are the shorter types' */
    void *at = (char *)data + i * TYPES[type].bytes;

    memcpy(&bits, &single, sizeof bits);
    half = TYPES[type].type == SHARP_DTYPE_BFLOAT16 ? (uint16_t)(bits >> 16) : half_of(value);
    if (!TYPES[type].is_float)
        memcpy(at, &integer, TYPES[type].bytes);
    else if (TYPES[type].bytes == 2)
        memcpy(at, &half, sizeof half);
    else if (TYPES[type].bytes == 4)
        memcpy(at, &single, sizeof single);
    else
        memcpy(at, &precise, sizeof precise);
}

static const struct {
    enum sharp_reduce_op op;
    int is_for_floats;
} OPS[] = {
    {SHARP_OP_SUM, 1}, {SHARP_OP_MIN, 1}, {SHARP_OP_MAX, 1}, {SHARP_OP_LAND, 0}, {SHARP_OP_LOR, 0},
    {SHARP_OP_LXOR, 0}, {SHARP_OP_BAND, 0}, {SHARP_OP_BOR, 0}, {SHARP_OP_BXOR, 0},
};

static unsigned combine(enum sharp_reduce_op op, unsigned a, unsigned b)
{
    switch (op) {
    case SHARP_OP_SUM: return a + b;
    case SHARP_OP_MIN: return a < b ? a : b;
    case SHARP_OP_MAX: return a > b ? a : b;
    case SHARP_OP_LAND: return a && b;
    case SHARP_OP_LOR: return a || b;
    case SHARP_OP_LXOR: return !a != !b;
    case SHARP_OP_BAND: return a & b;
    case SHARP_OP_BOR: return a | b;
    default: return a ^ b;
    }
}

/* A rank's data. */
static unsigned brought(int rank, size_t i)
{
    return (unsigned)((i * 7 + (size_t)rank * 3) % 6);
}

static unsigned reduced(enum sharp_reduce_op op, int size, size_t i)
{
    unsigned value = brought(0, i);

    for (int rank = 1; rank < size; rank++)
        value = combine(op, value, brought(rank, i));
    return value;
}

static void *filled(int rank, size_t count, int type)
{
    void *data = calloc(count + 1, TYPES[type].bytes);

    for (size_t i = 0; i < count; i++)
        store(data, i, type, brought(rank, i));
    return data;
}

/* Check `count` elements of the result, from element `first` on. */
static void check_reduced(const void *data, enum sharp_reduce_op op, int type, int size, size_t first, size_t count)
{
    char expected[8];

    for (size_t i = 0; i < count; i++) {
        store(expected, 0, type, reduced(op, size, first + i));
        if (memcmp((const char *)data + i * TYPES[type].bytes, expected, TYPES[type].bytes)) {
            fprintf(stderr, "rank %d: op %d of %s: element %zu is wrong\n", own_rank, op, TYPES[type].name, first + i);
            exit(1);
        }
    }
}

/* ---- Calls, in the way of TL/SHARP ---- */

static struct sharp_coll_context *context;

struct group {
    struct out_of_band ranks;
    struct sharp_coll_comm *comm;
};

static int open_context(struct out_of_band *world)
{
    struct sharp_coll_init_spec spec = {.job_id = 7, .world_rank = world->rank, .world_size = world->size};

    spec.world_local_rank = world->rank;
    spec.config = sharp_coll_default_config;
    spec.config.user_progress_num_polls = 9999;
    if (getenv("UCC_TL_SHARP_DEVICES"))
        spec.config.ib_dev_list = getenv("UCC_TL_SHARP_DEVICES");
    spec.oob_colls.barrier = barrier;
    spec.oob_colls.bcast = bcast;
    spec.oob_colls.gather = gather;
    spec.oob_ctx = world;
    return sharp_coll_init(&spec, &context);
}

static int try_to_form_group(struct group *group, const struct out_of_band *world, int size)
{
    struct sharp_coll_comm_init_spec spec = {.rank = world->rank, .size = size};

    group->ranks = *world;
    group->ranks.size = size;
    spec.oob_ctx = &group->ranks;
    return sharp_coll_comm_init(context, &spec, &group->comm);
}

static void form_group(struct group *group, const struct out_of_band *world, int size)
{
    CHECK(try_to_form_group(group, world, size) == SHARP_COLL_SUCCESS);
}

static struct sharp_coll_data_desc memory(void *data, size_t bytes)
{
    struct sharp_coll_data_desc found = {.type = SHARP_DATA_BUFFER, .mem_type = SHARP_MEM_TYPE_HOST};

    found.buffer.ptr = data;
    found.buffer.length = bytes;
    CHECK(sharp_coll_reg_mr(context, data, bytes, &found.buffer.mem_handle) == SHARP_COLL_SUCCESS);
    CHECK(found.buffer.mem_handle);
    CHECK(sharp_coll_dereg_mr(context, found.buffer.mem_handle) == SHARP_COLL_SUCCESS);
    return found;
}

static void finish(void *request)
{
    while (!sharp_coll_req_test(request)) {
        sharp_coll_progress(context);
        sched_yield(); /* four ranks and their devices may have two cores */
    }
    sharp_coll_req_free(request);
}

static int begin_allreduce(struct group *group, void *source, void *result, size_t count, int type,
                           enum sharp_reduce_op op, void **request)
{
    size_t bytes = count * TYPES[type].bytes;
    struct sharp_coll_reduce_spec spec = {.sbuf_desc = memory(source, bytes), .rbuf_desc = memory(result, bytes),
                                          .dtype = TYPES[type].type, .op = op, .length = count};

    return sharp_coll_do_allreduce_nb(group->comm, &spec, request);
}

static void allreduce(struct group *group, size_t count, int type, enum sharp_reduce_op op, int in_place)
{
    void *source = filled(own_rank, count, type), *result = in_place ? source : filled(own_rank, count, type), *request;

    CHECK(begin_allreduce(group, source, result, count, type, op, &request) == SHARP_COLL_SUCCESS);
    finish(request);
    check_reduced(result, op, type, group->ranks.size, 0, count);
    free(source);
    if (!in_place)
        free(result);
}

static void reduce_scatter(struct group *group, size_t block, int type, enum sharp_reduce_op op)
{
    size_t all = block * (size_t)group->ranks.size;
    void *source = filled(own_rank, all, type), *result = calloc(block + 1, TYPES[type].bytes), *request;
    struct sharp_coll_reduce_spec spec = {.sbuf_desc = memory(source, all * TYPES[type].bytes),
                                          .rbuf_desc = memory(result, block * TYPES[type].bytes),
                                          .dtype = TYPES[type].type, .op = op, .length = block};

    CHECK(sharp_coll_do_reduce_scatter_nb(group->comm, &spec, &request) == SHARP_COLL_SUCCESS);
    finish(request);
    check_reduced(result, op, type, group->ranks.size, block * (size_t)own_rank, block);
    free(source);
    free(result);
}

/* UCC gives as the source's length that of the whole, times the number of ranks. */
static void reduce_scatter_in_place(struct group *group, size_t count, int type)
{
    size_t ranks = (size_t)group->ranks.size, own = (size_t)own_rank, even = count / ranks, longer = count % ranks;
    size_t first = own * even + (own < longer ? own : longer);
    void *data = filled(own_rank, count, type), *request;
    struct sharp_coll_reduce_spec spec = {.sbuf_desc = memory(data, count * TYPES[type].bytes * ranks),
                                          .rbuf_desc = memory(data, count * TYPES[type].bytes),
                                          .dtype = TYPES[type].type, .op = SHARP_OP_SUM, .length = count};

    CHECK(sharp_coll_do_reduce_scatter_nb(group->comm, &spec, &request) == SHARP_COLL_SUCCESS);
    finish(request);
    check_reduced((char *)data + first * TYPES[type].bytes, SHARP_OP_SUM, type, group->ranks.size, first,
                  even + (own < longer));
    free(data);
}

static void broadcast(struct group *group, size_t bytes, int root)
{
    enum { BYTES = 1 };
    void *data = filled(own_rank, bytes, BYTES), *expected = filled(root, bytes, BYTES), *request;
    struct sharp_coll_bcast_spec spec = {.buf_desc = memory(data, bytes), .size = bytes, .root = root};

    CHECK(sharp_coll_do_bcast_nb(group->comm, &spec, &request) == SHARP_COLL_SUCCESS);
    finish(request);
    CHECK(!memcmp(data, expected, bytes));
    free(data);
    free(expected);
}

static void allgather(struct group *group, size_t block, int in_place)
{
    enum { BYTES = 1 };
    size_t all = block * (size_t)group->ranks.size;
    char *result = calloc(all + 1, 1), *own = result + block * (size_t)own_rank;
    char *source = filled(own_rank, block, BYTES);
    struct sharp_coll_gather_spec spec = {.rbuf_desc = memory(result, all), .dtype = SHARP_DTYPE_INT8};
    void *request;

    memcpy(own, source, in_place ? block : 0);
    spec.sbuf_desc = memory(in_place ? own : source, block);
    CHECK(sharp_coll_do_allgather_nb(group->comm, &spec, &request) == SHARP_COLL_SUCCESS);
    finish(request);
    for (int rank = 0; rank < group->ranks.size; rank++) {
        void *expected = filled(rank, block, BYTES);

        CHECK(!memcmp(result + block * (size_t)rank, expected, block));
        free(expected);
    }
    free(result);
    free(source);
}

static void synchronize(struct group *group)
{
    void *request;

    CHECK(sharp_coll_do_barrier_nb(group->comm, &request) == SHARP_COLL_SUCCESS);
    finish(request);
}

/* ---- Programs ---- */

static const size_t COUNTS[] = {0, 1, 5, 1000, 70001};

static void several_under_way(struct group *group)
{
    enum { DEPTH = 8, COUNT = 3000, I32 = 4 };
    void *data[DEPTH], *requests[DEPTH];

    for (int i = 0; i < DEPTH; i++) {
        data[i] = filled(own_rank, COUNT, I32);
        CHECK(!begin_allreduce(group, data[i], data[i], COUNT, I32, SHARP_OP_SUM, &requests[i]));
    }
    for (int i = DEPTH; i-- > 0; free(data[i])) {
        finish(requests[i]);
        check_reduced(data[i], SHARP_OP_SUM, I32, group->ranks.size, 0, COUNT);
    }
}

/* All operations of the caps. */
static void reductions(struct group *group)
{
    struct sharp_coll_caps caps;

    CHECK(sharp_coll_caps_query(context, &caps) == SHARP_COLL_SUCCESS);
    CHECK(caps.support_mask.feature_mask & SHARP_FEATURE_SAT);
    for (int type = 0; type < COUNT_OF(TYPES); type++) {
        CHECK(caps.support_mask.dtypes >> TYPES[type].type & 1);
        for (int op = 0; op < COUNT_OF(OPS); op++) {
            if (TYPES[type].is_float && !OPS[op].is_for_floats)
                continue;
            allreduce(group, 1000, type, OPS[op].op, op % 2);
            reduce_scatter(group, 333, type, OPS[op].op);
        }
    }
}

static void lengths(struct group *group)
{
    enum { F32 = 10 };

    for (int i = 0; i < COUNT_OF(COUNTS); i++) {
        allreduce(group, COUNTS[i], F32, SHARP_OP_MAX, 0);
        reduce_scatter(group, COUNTS[i], F32, SHARP_OP_SUM);
        reduce_scatter_in_place(group, COUNTS[i], F32);
        allgather(group, COUNTS[i], i % 2);
        for (int root = 0; root < group->ranks.size; root++)
            broadcast(group, COUNTS[i], root);
        synchronize(group);
    }
}

/* Each is reported on standard error. */
static void refusals(struct group *group)
{
    enum { F32 = 10, I32 = 4 };
    int data[64] = {0}, room = (int)sizeof data;
    struct sharp_coll_gather_spec gathered = {.sbuf_desc = memory(data, 8), .rbuf_desc = memory(data, 9)};
    struct sharp_coll_bcast_spec sent = {.buf_desc = memory(data, (size_t)room), .size = (size_t)room, .root = 99};
    struct sharp_coll_reduce_spec spec = {.sbuf_desc = memory(data, 8), .rbuf_desc = memory(data, 8), .length = 2};
    struct sharp_coll_reduce_spec long_one = {.sbuf_desc = memory(data, 8), .rbuf_desc = memory(data, 8)};
    struct sharp_coll_reduce_spec nowhere = {.sbuf_desc = memory(NULL, 8), .rbuf_desc = memory(data, 8), .length = 2};
    void *request = NULL;

    CHECK(begin_allreduce(group, data, data, 1, F32, SHARP_OP_BAND, &request) == SHARP_COLL_ENOT_SUPP);
    CHECK(begin_allreduce(group, data, data, 1, I32, SHARP_OP_MAXLOC, &request) == SHARP_COLL_ENOT_SUPP);
    CHECK(begin_allreduce(group, data, data + 1, 8, I32, SHARP_OP_SUM, &request) == SHARP_COLL_EINVAL);
    CHECK(sharp_coll_do_allgather_nb(group->comm, &gathered, &request) == SHARP_COLL_EINVAL);
    long_one.dtype = nowhere.dtype = SHARP_DTYPE_INT;
    long_one.op = nowhere.op = SHARP_OP_SUM;
    long_one.length = SIZE_MAX / 4 + 2; /* 4 bytes, by an unchecked multiplication */
    CHECK(sharp_coll_do_allreduce_nb(group->comm, &long_one, &request) == SHARP_COLL_EINVAL);
    CHECK(sharp_coll_do_reduce_scatter_nb(group->comm, &long_one, &request) == SHARP_COLL_EINVAL);
    CHECK(sharp_coll_do_allreduce_nb(group->comm, &nowhere, &request) == SHARP_COLL_EINVAL);
    CHECK(sharp_coll_do_reduce_scatter_nb(group->comm, &nowhere, &request) == SHARP_COLL_EINVAL);
    CHECK(sharp_coll_do_bcast_nb(group->comm, &sent, &request) == SHARP_COLL_EINVAL);
    sent.buf_desc.mem_type = SHARP_MEM_TYPE_CUDA;
    CHECK(sharp_coll_do_bcast_nb(group->comm, &sent, &request) == SHARP_COLL_ENOT_SUPP);
    spec.dtype = (enum sharp_datatype)0xffff;
    spec.op = SHARP_OP_SUM;
    CHECK(sharp_coll_do_allreduce_nb(group->comm, &spec, &request) == SHARP_COLL_ENOT_SUPP);
    spec.dtype = SHARP_DTYPE_INT;
    spec.offset = 1;
    CHECK(sharp_coll_do_reduce_scatter_nb(group->comm, &spec, &request) == SHARP_COLL_ENOT_SUPP);
    CHECK(!request);
    for (int code = 1; code > -8; code--)
        CHECK(*sharp_coll_strerror(code));
    synchronize(group); /* the group still works */
}

/* A child of rank 0 inherits all, and cleans up at its end; rank 0 goes on. */
static void forked(struct group *group)
{
    enum { I32 = 4, COUNT = 1000 };
    int data[COUNT] = {0}, status = 0;
    void *request, *next;
    pid_t child = own_rank ? -1 : 0;

    if (own_rank == 0) {
        CHECK(!begin_allreduce(group, data, data, COUNT, I32, SHARP_OP_SUM, &request));
        child = fork();
        CHECK(child >= 0);
    }
    if (child == 0) {
        CHECK(sharp_coll_do_barrier_nb(group->comm, &next) == SHARP_COLL_EINVAL);
        sharp_coll_progress(context);
        CHECK(!sharp_coll_req_test(request));
        sharp_coll_req_free(request);
        CHECK(sharp_coll_comm_destroy(group->comm) == SHARP_COLL_SUCCESS);
        CHECK(sharp_coll_finalize(context) == SHARP_COLL_SUCCESS);
        _exit(0);
    }
    if (own_rank == 0)
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    else
        CHECK(!begin_allreduce(group, data, data, COUNT, I32, SHARP_OP_SUM, &request));
    finish(request);
    synchronize(group);
}

/* Groups of fewer ranks beside that of all; their collectives alternate. */
static void collectives(struct group *all)
{
    struct group pair;

    reductions(all);
    lengths(all);
    several_under_way(all);
    if (own_rank < 2) {
        form_group(&pair, &all->ranks, 2);
        lengths(&pair);
    }
    synchronize(all);
    if (own_rank < 2)
        CHECK(sharp_coll_comm_destroy(pair.comm) == SHARP_COLL_SUCCESS);
}

static long most_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* To notice one leaked request in a hundred collectives. */
static long allocated_bytes(void)
{
    struct mallinfo2 found = mallinfo2();

    return (long)(found.uordblks + found.hblkhd);
}

/* Reads a number of collectives; every hundredth is in a group of its own. */
static void many(struct group *all)
{
    enum { I32 = 4 };
    long allocated = 0, most = 0;
    int count;

    CHECK(scanf("%d", &count) == 1);
    for (int i = 0; i < count; i++) {
        allreduce(all, 4000, I32, SHARP_OP_SUM, i % 2);
        if (i % 100 == 0) {
            struct group again;

            form_group(&again, &all->ranks, all->ranks.size);
            allreduce(&again, 10, I32, SHARP_OP_SUM, 0);
            CHECK(sharp_coll_comm_destroy(again.comm) == SHARP_COLL_SUCCESS);
        }
        if (i == count / 2) {
            allocated = allocated_bytes();
            most = most_kib();
        }
    }
    CHECK(allocated_bytes() - allocated < 1024);
    CHECK(most_kib() - most < 4096);
}

static int line_waits(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&input, 1, 0) > 0;
}

/* Rank 2 does not take part in the last allreduce. A line of input says that the others know of the failure. */
static void last(struct group *all)
{
    enum { I32 = 4 };
    int data[64] = {0};
    void *request, *next;

    synchronize(all);
    if (own_rank != 2)
        CHECK(!begin_allreduce(all, data, data, COUNT_OF(data), I32, SHARP_OP_SUM, &request));
    puts("ready");
    fflush(stdout);
    if (own_rank == 2) {
        CHECK(getchar() == EOF);
        return;
    }
    while (!line_waits()) /* the process ends here, unless FANIN_SHARP_FAILURE=wait */
        CHECK(!sharp_coll_req_test(request));
    CHECK(!sharp_coll_req_test(request));
    sharp_coll_req_free(request);
    CHECK(sharp_coll_do_barrier_nb(all->comm, &next) == SHARP_COLL_ERROR);
}

/* After the device of a rank has died, no rank gets another group, and none waits. */
static void regroup(struct group *all)
{
    struct group again;

    last(all);
    CHECK(try_to_form_group(&again, &all->ranks, all->ranks.size) == SHARP_COLL_ERROR);
}

/* If one rank has no memory for a group, no rank gets it, and none waits. */
static void without_memory(struct group *all)
{
    for (int rank = 0; rank < 2; rank++) {
        struct group again;

        is_without_memory = own_rank == rank;
        CHECK(try_to_form_group(&again, &all->ranks, all->ranks.size) == SHARP_COLL_ENO_RESOURCE);
        is_without_memory = 0;
        form_group(&again, &all->ranks, all->ranks.size);
        allreduce(&again, 10, 4, SHARP_OP_SUM, 0);
        CHECK(sharp_coll_comm_destroy(again.comm) == SHARP_COLL_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct group *all);
    } PROGRAMS[] = {{"collectives", collectives}, {"refusals", refusals}, {"forked", forked},
                    {"many", many}, {"last", last}, {"regroup", regroup}, {"without_memory", without_memory}};
    struct out_of_band world = {.rank = argc > 4 ? atoi(argv[1]) : 0, .size = argc > 4 ? atoi(argv[2]) : 0};
    struct group all;

    if (argc != 5 || world.size < 1 || world.size > MAX_RANKS)
        return (fprintf(stderr, "usage: rank RANK SIZE FOLDER PROGRAM\n"), 2);
    own_rank = world.rank;
    connect_ranks(&world, argv[3]);
    if (!strcmp(argv[4], "refused")) { /* on all ranks, since one has no device */
        CHECK(open_context(&world) == SHARP_COLL_SUCCESS);
        CHECK(try_to_form_group(&all, &world, world.size) == SHARP_COLL_ENO_RESOURCE);
        CHECK(sharp_coll_finalize(context) == SHARP_COLL_SUCCESS);
        return puts("ok") < 0;
    }
    CHECK(open_context(&world) == SHARP_COLL_SUCCESS);
    form_group(&all, &world, world.size);
    for (int i = 0; i < COUNT_OF(PROGRAMS); i++)
        if (!strcmp(argv[4], PROGRAMS[i].name))
            PROGRAMS[i].run(&all);
    CHECK(sharp_coll_comm_destroy(all.comm) == SHARP_COLL_SUCCESS || !strcmp(argv[4], "regroup"));
    CHECK(sharp_coll_finalize(context) == SHARP_COLL_SUCCESS);
    return puts("ok") < 0;
}
