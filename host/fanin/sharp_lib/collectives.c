/* Requests: each collective is one operation of libfanin. */
#include "comm.h"
#include "log.h"
#include "names.h"
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct sharp_coll_comm *comm;
    struct fanin_request *posted; /* NULL: failed, and never done */
    const char *what;
};

#define ENTRY(table, number) ((size_t)(number) < sizeof(table) / sizeof *(table) ? (table)[number] : 0)

int sharp_coll_caps_query(struct sharp_coll_context *context, struct sharp_coll_caps *caps)
{
    (void)context;
    memset(caps, 0, sizeof *caps);
    caps->support_mask.feature_mask = SHARP_FEATURE_SAT;
    for (uint32_t number = 0; number < sizeof DTYPES / sizeof *DTYPES; number++)
        if (DTYPES[number])
            caps->support_mask.dtypes |= UINT64_C(1) << number;
    return SHARP_COLL_SUCCESS;
}

static int refuse(const char *what, const char *why)
{
    sharp_say("%s: NOT_SUPPORTED: %s: take sharp out for it (UCC_TL_SHARP_TUNE=COLLECTIVE:0), so that UCC goes another "
              "way", what, why);
    return SHARP_COLL_ENOT_SUPP;
}

static int check_memory(const char *what, const struct sharp_coll_data_desc *memory, uint64_t count, uint32_t bytes)
{
    if (memory->type != SHARP_DATA_BUFFER || memory->mem_type != SHARP_MEM_TYPE_HOST)
        return refuse(what, "devices read and write the host's memory only, without gaps");
    if (count <= memory->buffer.length / bytes && (memory->buffer.ptr || !count))
        return SHARP_COLL_SUCCESS;
    sharp_say("%s: INVALID_REQUEST: %" PRIu64 " times %" PRIu32 " bytes in memory of %zu at %p: give memory for all of "
              "them", what, count, bytes, memory->buffer.length, memory->buffer.ptr);
    return SHARP_COLL_EINVAL;
}

/* Returns the element size; 0: devices do not compute this, which is reported. */
static uint32_t decode_reduction(const char *what, const struct sharp_coll_reduce_spec *spec,
                                 struct fanin_operation *operation)
{
    char why[MAX_WORDS];

    operation->dtype = ENTRY(DTYPES, spec->dtype);
    operation->op = ENTRY(OPS, spec->op);
    if (operation->dtype && operation->op && fanin_is_supported(operation->op, operation->dtype))
        return fanin_dtype_bytes(operation->dtype);
    snprintf(why, sizeof why, "devices do not compute %s of %s",
             operation->op ? fanin_op_name(operation->op) : "this op",
             operation->dtype ? fanin_dtype_name(operation->dtype) : "this type");
    refuse(what, why);
    return 0;
}

static int begin(struct sharp_coll_comm *comm, const char *what, const struct fanin_operation *operation, void **made)
{
    struct fanin_communicator_state state;
    struct request *request;
    enum fanin_status status;

    if (sharp_is_inherited(comm->context)) {
        sharp_say("%s: INVALID_REQUEST: a parent process has opened the device: let each process initialize UCC itself",
                  what);
        return SHARP_COLL_EINVAL;
    }
    fanin_communicator_state(comm->communicator, &state);
    if (state.ended.status != FANIN_SUCCESS) { /* UCC accepts an error here, but not at the end of a request */
        sharp_failed((enum fanin_status)state.ended.status, what, "the job of this group has ended");
        return SHARP_COLL_ERROR;
    }
    request = malloc(sizeof *request);
    if (!request)
        return SHARP_COLL_ENOMEM;
    *request = (struct request){.comm = comm, .what = what};
    status = fanin_start(comm->communicator, operation, &request->posted);
    if (status != FANIN_SUCCESS) {
        free(request);
        return sharp_failed(status, what, "");
    }
    __atomic_add_fetch(&comm->begun[operation->collective], 1, __ATOMIC_RELAXED);
    *made = request;
    return SHARP_COLL_SUCCESS;
}

int sharp_coll_do_barrier_nb(struct sharp_coll_comm *comm, void **request)
{
    struct fanin_operation operation = {.collective = FANIN_BARRIER};

    return begin(comm, "barrier", &operation, request);
}

int sharp_coll_do_allreduce_nb(struct sharp_coll_comm *comm, struct sharp_coll_reduce_spec *spec, void **request)
{
    struct fanin_operation operation = {.collective = FANIN_ALLREDUCE, .source = spec->sbuf_desc.buffer.ptr,
                                        .destination = spec->rbuf_desc.buffer.ptr};
    const char *what = "allreduce";
    uint32_t element = decode_reduction(what, spec, &operation);
    int refused = element ? SHARP_COLL_SUCCESS : SHARP_COLL_ENOT_SUPP;

    if (!refused)
        refused = check_memory(what, &spec->sbuf_desc, spec->length, element);
    if (!refused)
        refused = check_memory(what, &spec->rbuf_desc, spec->length, element);
    if (refused)
        return refused;
    operation.block = spec->length * element;
    return begin(comm, what, &operation, request);
}

int sharp_coll_do_bcast_nb(struct sharp_coll_comm *comm, struct sharp_coll_bcast_spec *spec, void **request)
{
    struct fanin_operation operation = {.collective = FANIN_BROADCAST, .root = (uint32_t)spec->root,
                                        .block = spec->size, .source = spec->buf_desc.buffer.ptr,
                                        .destination = spec->buf_desc.buffer.ptr};
    int refused = check_memory("broadcast", &spec->buf_desc, spec->size, 1);

    return refused ? refused : begin(comm, "broadcast", &operation, request);
}

/* In place, UCC gives the elements of all blocks instead of one; they need not be divisible. */
static int reduce_scatter_in_place(struct sharp_coll_comm *comm, struct fanin_operation *operation, uint64_t count,
                                   uint32_t element, void **request)
{
    uint32_t ranks = fanin_size(comm->communicator), own = fanin_rank(comm->communicator);
    uint64_t *sizes = malloc(ranks * sizeof *sizes), before = 0;
    int result;

    if (!sizes)
        return SHARP_COLL_ENOMEM;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        sizes[rank] = (count / ranks + (rank < count % ranks)) * element;
        before += rank < own ? sizes[rank] : 0;
    }
    operation->sizes = sizes;
    operation->destination = (char *)operation->destination + before;
    result = begin(comm, "reduce-scatter", operation, request);
    free(sizes);
    return result;
}

int sharp_coll_do_reduce_scatter_nb(struct sharp_coll_comm *comm, struct sharp_coll_reduce_spec *spec, void **request)
{
    struct fanin_operation operation = {.collective = FANIN_REDUCE_SCATTER, .source = spec->sbuf_desc.buffer.ptr,
                                        .destination = spec->rbuf_desc.buffer.ptr};
    const char *what = "reduce-scatter";
    uint32_t element = decode_reduction(what, spec, &operation);
    int refused = element ? SHARP_COLL_SUCCESS : SHARP_COLL_ENOT_SUPP;
    int is_in_place = operation.source == operation.destination;

    if (!refused && spec->offset)
        refused = refuse(what, "an offset into the result is not known here");
    if (!refused)
        refused = check_memory(what, &spec->rbuf_desc, spec->length, element);
    if (!refused && !is_in_place)
        refused = check_memory(what, &spec->sbuf_desc, spec->length, element * fanin_size(comm->communicator));
    if (refused)
        return refused;
    if (is_in_place)
        return reduce_scatter_in_place(comm, &operation, spec->length, element, request);
    operation.block = spec->length * element;
    return begin(comm, what, &operation, request);
}

int sharp_coll_do_allgather_nb(struct sharp_coll_comm *comm, struct sharp_coll_gather_spec *spec, void **request)
{
    struct fanin_operation operation = {.collective = FANIN_ALLGATHER, .block = spec->sbuf_desc.buffer.length,
                                        .source = spec->sbuf_desc.buffer.ptr,
                                        .destination = spec->rbuf_desc.buffer.ptr};
    const char *what = "allgather";
    int refused = spec->offset ? refuse(what, "an offset into the result is not known here") : SHARP_COLL_SUCCESS;

    if (!refused)
        refused = check_memory(what, &spec->sbuf_desc, operation.block, 1);
    if (!refused)
        refused = check_memory(what, &spec->rbuf_desc, operation.block, fanin_size(comm->communicator));
    return refused ? refused : begin(comm, what, &operation, request);
}

/* The caller would take a wrong result for a right one, so this rank ends, or waits for the caller's time-out. */
static void fail(struct request *request, enum fanin_status status)
{
    struct fanin_communicator *communicator = request->comm->communicator;
    char words[MAX_WORDS] = "";
    struct fanin_cqe failure;

    fanin_failure(request->posted, &failure);
    sharp_name_members(communicator, &failure, words);
    sharp_failed(status, request->what, words);
    fanin_free(request->posted);
    request->posted = NULL;
    if (request->comm->context->waits_after_failure)
        return;
    sharp_say("rank %u ends, since UCC takes any end of a collective for success; FANIN_SHARP_FAILURE=wait leaves the "
              "collective without an end, for programs that give theirs a time-out", fanin_rank(communicator));
    abort();
}

int sharp_coll_req_test(void *tested)
{
    struct request *request = tested;
    enum fanin_status status = FANIN_PENDING;

    if (request->posted && !sharp_is_inherited(request->comm->context))
        status = fanin_test(request->posted);
    if (status == FANIN_PENDING)
        sched_yield(); /* UCC polls, and a device of this host may need the core */
    if (status != FANIN_SUCCESS && status != FANIN_PENDING)
        fail(request, status);
    return status == FANIN_SUCCESS;
}

int sharp_coll_req_free(void *freed)
{
    struct request *request = freed;

    fanin_free(request->posted);
    free(request);
    return SHARP_COLL_SUCCESS;
}
