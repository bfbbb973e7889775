#define _GNU_SOURCE
#include "requests/requests.h"
#include "abi/pmpi.h"
#include "calls/failure.h"
#include "comm/jobs.h"
#include "requests/progress.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define BUCKETS 256

static struct request *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned live; /* requests in the table; if 0, a look-up takes no lock */

static struct request **bucket_of(handle request)
{
    return &buckets[(request * 0x9e3779b97f4a7c15ull) >> 56];
}

static void enter(struct request *request)
{
    pthread_mutex_lock(&lock);
    request->next = *bucket_of(request->handle);
    *bucket_of(request->handle) = request;
    __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

static void erase(struct request *request)
{
    struct request **link = bucket_of(request->handle);

    pthread_mutex_lock(&lock);
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

struct request *shim_request(const void *place)
{
    struct request *request;
    handle wanted;

    if (!__atomic_load_n(&live, __ATOMIC_RELAXED))
        return NULL;
    wanted = load_handle(place);
    pthread_mutex_lock(&lock);
    request = *bucket_of(wanted);
    while (request && request->handle != wanted)
        request = request->next;
    pthread_mutex_unlock(&lock);
    return request;
}

static struct vector kept_vector(struct vector vector, int blocks)
{
    int64_t *items = vector.items ? malloc((size_t)blocks * sizeof *items) : NULL;

    if (vector.items && !items)
        abort(); /* the other ranks would go on */
    for (int block = 0; items && block < blocks; block++)
        items[block] = item(vector, block);
    return (struct vector){items, 1, vector.each};
}

/* Copy datatypes and counts that are needed at the end, since the program may free them after the call. */
static void keep(struct elements *elements)
{
    elements->counts = kept_vector(elements->counts, elements->blocks);
    elements->offsets = kept_vector(elements->offsets, elements->blocks);
    if (!elements->blocks || elements->facts.dense)
        return;
    pmpi.Type_dup(elements->type, &elements->type);
    elements->type = load_handle(&elements->type);
}

static void drop(struct elements *elements)
{
    free((void *)elements->counts.items);
    free((void *)elements->offsets.items);
    if (elements->blocks && !elements->facts.dense)
        pmpi.Type_free(&elements->type);
}

/* MPI_Grequest_query_function */
static int query(void *extra, void *status)
{
    const struct request *request = extra;
    int *fields = (int *)status + shim_abi->status_source;

    pmpi.Status_set_elements(status, shim_handle(TYPE_BYTE), 0);
    pmpi.Status_set_cancelled(status, 0);
    fields[0] = shim_abi->any_source;
    fields[1] = shim_abi->any_tag;
    return request->code;
}

static void free_operation(struct request *request)
{
    if (request->underway)
        fanin_free(request->underway);
    request->underway = NULL;
}

/* MPI_Grequest_free_function. */
static int release(void *extra)
{
    struct request *request = extra;

    if (shim_active) /* otherwise the device is closed */
        free_operation(request);
    if (request->code)
        erase(request);
    free(request);
    return 0;
}

static void drop_buffers(struct request *request)
{
    drop(&request->decoded.source);
    drop(&request->decoded.destination);
}

/* MPI_Grequest_cancel_function: a collective can not be cancelled. */
static int not_cancelled(void *extra, int complete)
{
    (void)extra, (void)complete;
    return 0;
}

static struct request *new_request(const struct call *call, struct fanin_communicator *job,
                                   const struct decoded_call *decoded)
{
    struct request *request = calloc(1, sizeof *request);

    if (!request)
        abort(); /* the other ranks would go on */
    request->comm = call->comm;
    request->function = call->function;
    request->job = job;
    request->decoded = *decoded;
    keep(&request->decoded.source);
    keep(&request->decoded.destination);
    return request;
}

void shim_start(struct request *request)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (__atomic_load_n(&request->lookers, __ATOMIC_ACQUIRE))
        sched_yield(); /* a thread may still use the operation of the last start */
    free_operation(request);
    request->status = shim_prepare(&request->decoded, request->job, &request->prepared);
    if (request->status == FANIN_SUCCESS)
        request->status = fanin_start(request->job, &request->prepared.operation, &request->underway);
    if (request->status == FANIN_SUCCESS)
        shim_watch(request->job);
    else if (request->status == FANIN_NO_RESOURCES) /* the others wait for data that this rank can not send */
        fanin_end_job(request->job, FANIN_NO_RESOURCES);
    shim_set_progress(request, PENDING); /* last, so that no look sees the end of the last start */
}

/* 0: it has been freed. */
static handle communicator_of(const struct request *request)
{
    return request->is_of_freed ? 0 : request->comm;
}

/* Complete a request, whose operation has ended with `status`, for the MPI. One of several threads settles it; returns
 * 0 in the others. */
static int settle(struct request *request, enum fanin_status status)
{
    struct prepared_call *prepared = &request->prepared;
    enum progress expected = PENDING;

    if (!__atomic_compare_exchange_n(&request->progress, &expected, SETTLING, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return 0;
    if (status == FANIN_NO_RESOURCES && request->underway) /* the others wait for data that this rank can not send */
        fanin_end_job(request->job, status);
    shim_count_offloaded(request->function, prepared->source.bytes + prepared->destination.bytes);
    status = shim_conclude(&request->decoded, prepared, request->underway != NULL, status);
    request->code = status == FANIN_SUCCESS ? 0
                    : shim_error_code(communicator_of(request), status, request->function, prepared, request->job,
                                      request->underway);
    if (request->persistent) {
        pmpi.Start(&request->handle);
        shim_set_progress(request, SETTLED);
    } else {
        if (!request->code)
            erase(request);
        drop_buffers(request);
        shim_set_progress(request, SETTLED);
        pmpi.Grequest_complete(request->handle);
    }
    return 1;
}

static int look(struct request *request)
{
    enum progress progress = shim_progress_of(request);
    enum fanin_status status;

    if (progress != PENDING)
        return progress == SETTLING;
    if (request->underway)
        shim_end_if_revoked(communicator_of(request), request->job);
    status = request->underway ? fanin_test(request->underway) : request->status;
    return status == FANIN_PENDING || !settle(request, status);
}

int shim_is_pending(struct request *request)
{
    int pending;

    if (!request->persistent) /* once settled, its memory may be freed */
        return look(request);
    __atomic_add_fetch(&request->lookers, 1, __ATOMIC_SEQ_CST);
    pending = look(request);
    __atomic_sub_fetch(&request->lookers, 1, __ATOMIC_RELEASE);
    return pending;
}

void shim_let_settle(const struct request *request)
{
    while (shim_progress_of(request) == SETTLING)
        sched_yield();
}

void shim_finish_request(struct request *request)
{
    enum fanin_status status = request->status;

    if (shim_progress_of(request) == PENDING) {
        if (request->underway)
            status = shim_wait(communicator_of(request), request->job, request->underway);
        if (settle(request, status))
            return;
    }
    shim_let_settle(request);
}

int shim_make_request(struct call *call, enum form form, void *place, int *code)
{
    struct decoded_call decoded;
    struct communicator *communicator = shim_decide(call, form, &decoded, code);
    struct fanin_communicator *job;
    struct request *request;
    enum reason reason;

    if (!communicator) {
        if (*code)
            store_handle(place, shim_handle(REQUEST_NULL));
        return *code;
    }
    job = communicator->job;
    reason = form == PERSISTENT ? shim_form_job(communicator, 0, &job) : NO_REASON;
    if (reason != NO_REASON) {
        shim_count_left(call->function, reason);
        return 0;
    }
    request = new_request(call, job, &decoded);
    request->persistent = form == PERSISTENT;
    if (request->persistent)
        *code = pmpi.Recv_init(NULL, 0, shim_handle(TYPE_BYTE), shim_abi->proc_null, 0, shim_handle(COMM_SELF),
                               &request->handle);
    else
        *code = pmpi.Grequest_start((void *)query, (void *)release, (void *)not_cancelled, request, &request->handle);
    request->handle = load_handle(&request->handle);
    store_handle(place, request->handle);
    enter(request);
    if (!request->persistent)
        shim_start(request);
    return 1;
}

void shim_forget_communicator(handle comm)
{
    pthread_mutex_lock(&lock);
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        for (struct request *request = buckets[bucket]; request; request = request->next)
            if (request->comm == comm) {
                request->is_of_freed = 1;
                request->comm = shim_handle(COMM_WORLD);
            }
    pthread_mutex_unlock(&lock);
}

void shim_free_persistent(struct request *request)
{
    if (shim_active) { /* otherwise MPI_Finalize has left all jobs */
        shim_finish_request(request);
        free_operation(request);
        shim_leave_job(request->job);
    }
    erase(request);
    drop_buffers(request);
    free(request);
}
