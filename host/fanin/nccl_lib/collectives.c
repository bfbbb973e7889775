/* A group of ranks is a job. The handles that NCCL exchanges describe it: each has the place of its rank, and that of
 * rank 0 the job's id and key. All ranks post the collectives of a group in the same order. Devices can not access
 * NCCL's memory, which belongs to the GPU's driver, so each request copies its data through registered memory. */
#define _GNU_SOURCE
#include "collectives.h"
#include "fanin.h"
#include "log.h"
#include "names.h"
#include "nics.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define JOIN_MS 60000
#define LEAVE_MS 10000
#define MAX_PIECES 8
#define MAX_WORDS 512
static const char MAGIC[8] = "fanin-1";

struct handle {
    char magic[8];
    uint32_t jid, key;        /* those of rank 0 are used */
    struct fanin_place place;
};
_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "a handle is too long");

struct listener {
    int nic;
};

struct request {
    struct group *group;
    struct fanin_request *posted; /* NULL: unused */
    struct nccl_staging staging;
    struct nccl_piece pieces[MAX_PIECES]; /* of the result */
    int piece_count;
    void *result;             /* within the staging */
    int bytes;
};

struct group {
    struct fanin_context *context;
    struct fanin_communicator *communicator;
    int nic;
    uint32_t rank, ranks;
    uint64_t *sizes;
    struct request requests[NCCL_MAX_REQUESTS];
};

#define COUNT_OF(table) (sizeof(table) / sizeof *(table))

static int can_compute(int datatype, int op)
{
    return datatype >= 0 && (size_t)datatype < COUNT_OF(DTYPES) && op >= 0 && (size_t)op < COUNT_OF(OPS) &&
           fanin_is_supported(OPS[op], DTYPES[datatype]);
}

int collective_is_supported(int datatype, int op, int *supported)
{
    *supported = can_compute(datatype, op);
    return NCCL_SUCCESS;
}

static enum fanin_status place_of(int nic, struct fanin_place *place)
{
    struct fanin_context *context;
    enum fanin_status status = nccl_hold_nic(nic, &context);

    if (status != FANIN_SUCCESS)
        return status;
    *place = nccl_nic(nic)->place;
    place->address = fanin_limits(context)->address;
    return FANIN_SUCCESS;
}

int collective_listen(int nic, void *handle, void **listener)
{
    struct handle own = {.jid = 0};
    enum fanin_status status = place_of(nic, &own.place);
    struct listener *made;
    uint32_t random[2];

    if (status != FANIN_SUCCESS)
        return nccl_failed(status, "the device of a collective group", "");
    memcpy(own.magic, MAGIC, sizeof MAGIC);
    made = malloc(sizeof *made);
    if (!made || getrandom(random, sizeof random, 0) != sizeof random) {
        free(made);
        nccl_release_nic(nic);
        return NCCL_SYSTEM_ERROR;
    }
    own.jid = random[0] | 1;  /* not 0 */
    own.key = random[1];
    made->nic = nic;
    memset(handle, 0, NCCL_HANDLE_BYTES);
    memcpy(handle, &own, sizeof own);
    *listener = made;
    return NCCL_SUCCESS;
}

int collective_close_listener(void *listener)
{
    struct listener *closed = listener;

    nccl_release_nic(closed->nic);
    free(closed);
    return NCCL_SUCCESS;
}

static int read_places(void *handles[], int ranks, struct fanin_place *places)
{
    for (int rank = 0; rank < ranks; rank++) {
        struct handle handle;

        memcpy(&handle, handles[rank], sizeof handle);
        if (memcmp(handle.magic, MAGIC, sizeof MAGIC)) {
            nccl_say(NCCL_LOG_WARN, "Fanin: rank %d of the collective group has another plugin, or another version of "
                     "this one: give all ranks the same NCCL_NET_PLUGIN", rank);
            return NCCL_INVALID_USAGE;
        }
        places[rank] = handle.place;
    }
    return NCCL_SUCCESS;
}

static enum fanin_status join(struct group *group, void *handles[], struct fanin_place *places)
{
    struct handle first;
    struct fanin_job job = {.route = FANIN_ROUTE_AUTO, .ranks = group->ranks, .places = places};

    memcpy(&first, handles[0], sizeof first);
    job.jid = first.jid;
    job.key = first.key;
    if (fanin_order_of_environment(&job.flags))
        return FANIN_INVALID_REQUEST;
    return fanin_join(group->context, &job, group->rank, JOIN_MS, &group->communicator);
}

static void forget(struct group *group)
{
    for (int i = 0; i < NCCL_MAX_REQUESTS; i++)
        nccl_unstage(group->context, &group->requests[i].staging);
    nccl_release_nic(group->nic);
    free(group->sizes);
    free(group);
}

int collective_connect(void *handles[], int ranks, int rank, void *listener, void **made)
{
    struct fanin_place *places = calloc((size_t)ranks, sizeof *places);
    struct group *group = calloc(1, sizeof *group);
    enum fanin_status status = FANIN_NO_RESOURCES;
    int result = places && group ? read_places(handles, ranks, places) : NCCL_SYSTEM_ERROR;
    char path[MAX_WORDS];

    if (result == NCCL_SUCCESS) {
        group->nic = ((struct listener *)listener)->nic;
        group->rank = (uint32_t)rank;
        group->ranks = (uint32_t)ranks;
        group->sizes = calloc((size_t)ranks, sizeof *group->sizes);
        status = group->sizes ? nccl_hold_nic(group->nic, &group->context) : FANIN_NO_RESOURCES;
        if (status == FANIN_SUCCESS && (status = join(group, handles, places)) != FANIN_SUCCESS)
            nccl_release_nic(group->nic);
        if (status != FANIN_SUCCESS)
            result = nccl_failed(status, "forming a collective group", "");
    }
    free(places);
    if (result != NCCL_SUCCESS) {
        if (group)
            free(group->sizes);
        free(group);
        return result;
    }
    fanin_name_path_of(group->communicator, path, sizeof path);
    nccl_say(NCCL_LOG_INFO, "Fanin: rank %d of %d of a collective group has joined job %u by %s: %s", rank, ranks,
             fanin_job_of(group->communicator)->jid, nccl_nic(group->nic)->socket, path);
    *made = group;
    return NCCL_SUCCESS;
}

int collective_close(void *closed)
{
    struct group *group = closed;
    enum fanin_status status = fanin_leave(group->communicator, LEAVE_MS);

    for (int i = 0; i < NCCL_MAX_REQUESTS; i++)
        if (group->requests[i].posted)
            fanin_free(group->requests[i].posted);
    forget(group);
    if (status == FANIN_SUCCESS || status == FANIN_PEER_LOST || status == FANIN_PATH_MTU || status == FANIN_ABORTED)
        return NCCL_SUCCESS;  /* requests have reported errors */
    return nccl_failed(status, "leaving a collective group", "");
}

int collective_register(void *group, void *memory, size_t bytes, int type, void **registration)
{
    (void)memory, (void)bytes;
    if (type != NCCL_PTR_HOST) {
        nccl_say(NCCL_LOG_WARN, "Fanin: memory of type %d can not be registered, only host memory", type);
        return NCCL_INVALID_USAGE;
    }
    *registration = group;    /* nothing to keep */
    return NCCL_SUCCESS;
}

int collective_deregister(void *group, void *registration)
{
    (void)group, (void)registration;
    return NCCL_SUCCESS;
}

/* An unused request with room for `bytes`; NULL with `result` NCCL_SUCCESS: none, try again. */
static struct request *begin(struct group *group, size_t bytes, int *result)
{
    *result = NCCL_SUCCESS;
    for (int i = 0; i < NCCL_MAX_REQUESTS; i++) {
        struct request *request = &group->requests[i];
        enum fanin_status status;

        if (request->posted)
            continue;
        status = nccl_stage(group->context, &request->staging, bytes);
        if (status != FANIN_SUCCESS) {
            *result = nccl_failed(status, "memory for a collective", "");
            return NULL;
        }
        request->group = group;
        return request;
    }
    return NULL;
}

static int post(struct request *request, const struct fanin_operation *operation, const char *what, void **posted)
{
    struct group *group = request->group;
    enum fanin_status status = fanin_start(group->communicator, operation, &request->posted);

    *posted = status == FANIN_SUCCESS ? request : NULL;
    if (status == FANIN_SUCCESS)
        return NCCL_SUCCESS;
    request->posted = NULL;
    return nccl_failed(status, what, "");
}

static int refuse(const char *what, int datatype, int op)
{
    nccl_say(NCCL_LOG_WARN, "Fanin: %s: devices do not compute op %d of datatype %d; reduceSupport says so", what, op,
             datatype);
    return NCCL_INVALID_USAGE;
}

int collective_allreduce(void *in, void *source, void *destination, size_t count, int datatype, int op,
                         void *source_registration, void *destination_registration, void **posted)
{
    struct fanin_operation operation = {.collective = FANIN_ALLREDUCE};
    struct request *request;
    size_t bytes;
    int result;

    (void)source_registration, (void)destination_registration;
    *posted = NULL;
    if (!can_compute(datatype, op))
        return refuse("allreduce", datatype, op);
    bytes = count * fanin_dtype_bytes(DTYPES[datatype]);
    request = begin(in, bytes, &result);
    if (!request)
        return result;
    memcpy(request->staging.address, source, bytes);
    request->result = request->staging.address;
    request->bytes = (int)bytes;
    request->pieces[0] = (struct nccl_piece){.address = destination, .bytes = bytes};
    request->piece_count = 1;
    operation.op = OPS[op];
    operation.dtype = DTYPES[datatype];
    operation.block = bytes;
    operation.source = operation.destination = request->staging.address;
    return post(request, &operation, "allreduce", posted);
}

/* Each rank's share of a window of the result; `own`: offset of this rank's in the window. */
static void cut(struct group *group, size_t block, size_t window, size_t bytes, size_t *own)
{
    size_t end = window + bytes;

    *own = 0;
    for (uint32_t rank = 0; rank < group->ranks; rank++) {
        size_t first = rank * block, last = first + block;

        first = first > window ? first : window;
        last = last < end ? last : end;
        group->sizes[rank] = last > first ? last - first : 0;
        if (rank < group->rank)
            *own += group->sizes[rank];
    }
}

static struct request *begin_window(struct group *group, size_t block, size_t window, size_t bytes, size_t *own,
                                    int *result)
{
    struct request *request = begin(group, bytes, result);

    if (request)
        cut(group, block, window, bytes, own);
    return request;
}

static int check_pieces(int count, const struct nccl_piece *pieces, size_t bytes)
{
    size_t sum = 0;

    for (int i = 0; i < count; i++)
        sum += pieces[i].bytes;
    if (count >= 0 && count <= MAX_PIECES && sum == bytes)
        return NCCL_SUCCESS;
    nccl_say(NCCL_LOG_WARN, "Fanin: %d pieces of %zu bytes for a window of %zu bytes; give at most %d, of that length",
             count, sum, bytes, MAX_PIECES);
    return NCCL_INVALID_ARGUMENT;
}

int collective_allgather(void *in, void *source, int piece_count, struct nccl_piece *pieces, size_t block,
                         size_t window, size_t bytes, void *registration, void **posted)
{
    struct fanin_operation operation = {.collective = FANIN_ALLGATHERV};
    struct group *group = in;
    size_t own;
    int result = check_pieces(piece_count, pieces, bytes);
    struct request *request = result == NCCL_SUCCESS ? begin_window(group, block, window, bytes, &own, &result) : NULL;
    char *staged;

    (void)registration;
    *posted = NULL;
    if (!request)
        return result;
    staged = request->staging.address;
    memcpy(staged + own, source, group->sizes[group->rank]);
    request->result = staged;
    request->bytes = (int)bytes;
    memcpy(request->pieces, pieces, (size_t)piece_count * sizeof *pieces);
    request->piece_count = piece_count;
    operation.sizes = group->sizes;
    operation.source = staged + own;
    operation.destination = staged;
    return post(request, &operation, "allgather", posted);
}

int collective_reduce_scatter(void *in, int piece_count, struct nccl_piece *pieces, void *destination, size_t block,
                              size_t window, size_t bytes, int datatype, int op, void *registration, void **posted)
{
    struct fanin_operation operation = {.collective = FANIN_REDUCE_SCATTER};
    struct group *group = in;
    struct request *request;
    char *staged;
    size_t own;
    int result;

    (void)registration;
    *posted = NULL;
    if (!can_compute(datatype, op))
        return refuse("reduce-scatter", datatype, op);
    result = check_pieces(piece_count, pieces, bytes);
    request = result == NCCL_SUCCESS ? begin_window(group, block, window, bytes, &own, &result) : NULL;
    if (!request)
        return result;
    staged = request->staging.address;
    for (int i = 0; i < piece_count; staged += pieces[i++].bytes)
        memcpy(staged, pieces[i].address, pieces[i].bytes);
    staged = request->staging.address;
    request->result = staged + own;
    request->bytes = (int)group->sizes[group->rank];
    request->pieces[0] = (struct nccl_piece){.address = destination, .bytes = group->sizes[group->rank]};
    request->piece_count = 1;
    operation.op = OPS[op];
    operation.dtype = DTYPES[datatype];
    operation.sizes = group->sizes;
    operation.source = staged;
    operation.destination = staged + own;
    return post(request, &operation, "reduce-scatter", posted);
}

/* Results are in host memory when their request is done. */
int collective_flush(void *group, void *memory, int bytes, void *registration, void **request)
{
    (void)group, (void)memory, (void)bytes, (void)registration;
    *request = NULL;
    return NCCL_SUCCESS;
}

static int fail(struct request *request, enum fanin_status status)
{
    char words[MAX_WORDS] = "";
    struct fanin_cqe failure;

    fanin_failure(request->posted, &failure);
    fanin_name_members(fanin_job_of(request->group->communicator), request->group->rank, &failure, words, sizeof words);
    return nccl_failed(status, "a collective", words);
}

int collective_test(void *tested, int *done, int *bytes)
{
    struct request *request = tested;
    enum fanin_status status = fanin_test(request->posted);
    int result = NCCL_SUCCESS;
    const char *from = request->result;

    *done = 0;
    if (status == FANIN_PENDING)
        return NCCL_SUCCESS;
    if (status == FANIN_SUCCESS) {
        for (int i = 0; i < request->piece_count; from += request->pieces[i++].bytes)
            memcpy(request->pieces[i].address, from, request->pieces[i].bytes);
        if (bytes)
            *bytes = request->bytes;
        *done = 1;
    } else {
        result = fail(request, status);
    }
    fanin_free(request->posted);
    request->posted = NULL;
    return result;
}
