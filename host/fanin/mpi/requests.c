/* The table of requests, and their life. */
#define _GNU_SOURCE
#include "requests.h"
#include "pmpi.h"
#include "progress.h"
#include "world.h"
#include <sched.h>
#include <stdlib.h>

#define BUCKETS 256

static struct request *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned live; /* requests in the table: without any, nothing of this costs anything */

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

struct request *fanin_request(const void *place)
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
        abort(); /* not a rank's own decision: the others go on */
    for (int block = 0; items && block < blocks; block++)
        items[block] = item(vector, block);
    return (struct vector){items, 1};
}

/* Programs free datatypes and counts when the call has returned: what is needed at the end is kept. */
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
    int *fields = (int *)status + fanin_family->status_source;

    pmpi.Status_set_elements(status, fanin_object(TYPE_BYTE), 0);
    pmpi.Status_set_cancelled(status, 0);
    fields[0] = fanin_family->any_source;
    fields[1] = fanin_family->any_tag;
    return request->code;
}

/* MPI_Grequest_free_function. Not all MPIs can be called from it. */
static int release(void *extra)
{
    free(extra);
    return 0;
}

static void drop_buffers(struct request *request)
{
    drop(&request->operation.meaning.source);
    drop(&request->operation.meaning.destination);
}

/* MPI_Grequest_cancel_function: a collective can not be cancelled. */
static int not_cancelled(void *extra, int complete)
{
    (void)extra, (void)complete;
    return 0;
}

static struct request *new_request(const struct call *call, const struct communicator *communicator,
                                   const struct meaning *meaning)
{
    struct request *request = calloc(1, sizeof *request);

    if (!request)
        abort(); /* not a rank's own decision: the others go on */
    request->comm = call->comm;
    request->function = call->function;
    request->ranks = communicator->ranks;
    request->member = communicator->member;
    request->operation.meaning = *meaning;
    keep(&request->operation.meaning.source);
    keep(&request->operation.meaning.destination);
    return request;
}

static enum progress progress_of(const struct request *request)
{
    return __atomic_load_n(&request->progress, __ATOMIC_ACQUIRE);
}

static void set_progress(struct request *request, enum progress progress)
{
    __atomic_store_n(&request->progress, progress, __ATOMIC_RELEASE);
}

void fanin_start(struct request *request)
{
    struct operation *operation = &request->operation;

    fanin_hold_member(request->member);
    if (fanin_prepare(operation, &request->member->terms, request->ranks)) {
        fanin_stream_submit(&request->member->stream, &operation->transfer);
        fanin_watch(request->member);
    } else {
        fanin_abandon_job(request->member);
        fanin_drop_operation(operation);
    }
    set_progress(request, PENDING); /* last: a thread that looks earlier would take the last time's end for this one's */
}

/* Several threads may look at one request: it is for one of them to settle it. */
static int is_ours_to_settle(struct request *request)
{
    enum progress expected = PENDING;

    return __atomic_compare_exchange_n(&request->progress, &expected, SETTLING, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* The devices are done: so is the request, for the MPI. Returns 0 if another thread is at it. */
static int settle(struct request *request)
{
    struct operation *operation = &request->operation;
    enum fanin_status status;

    if (!is_ours_to_settle(request))
        return 0;
    fanin_count_offloaded(request->function, operation->source.bytes + operation->destination.bytes);
    status = fanin_conclude(operation);
    if (has_ended(&request->member->stream)) /* there was no memory for what the counts said */
        fanin_abandon_job(request->member);
    request->code = status == FANIN_SUCCESS ? 0 : fanin_error_code(status, fanin_function_name(request->function));
    fanin_release_member(request->member);
    if (request->persistent) {
        pmpi.Start(&request->handle);
        set_progress(request, SETTLED);
    } else {
        erase(request);
        drop_buffers(request);
        set_progress(request, SETTLED);
        pmpi.Grequest_complete(request->handle);
    }
    return 1;
}

int fanin_is_pending(struct request *request)
{
    enum progress progress = progress_of(request);

    if (progress != PENDING)
        return progress == SETTLING;
    if (!is_done(&request->operation.transfer))
        fanin_stream_advance(&request->member->stream);
    return !is_done(&request->operation.transfer) || !settle(request);
}

void fanin_let_settle(const struct request *request)
{
    while (progress_of(request) == SETTLING)
        sched_yield();
}

void fanin_finish_request(struct request *request)
{
    if (progress_of(request) == PENDING) {
        fanin_wait_for(&request->member->stream, &request->operation.transfer);
        if (settle(request))
            return;
    }
    fanin_let_settle(request);
}

int fanin_nonblocking(struct call *call, void *place, int *code)
{
    struct meaning meaning;
    struct communicator *communicator = fanin_decide(call, NONBLOCKING, &meaning, code);
    struct request *request;

    if (!communicator) {
        if (*code)
            store_handle(place, fanin_object(REQUEST_NULL));
        return *code;
    }
    request = new_request(call, communicator, &meaning);
    *code = pmpi.Grequest_start((void *)query, (void *)release, (void *)not_cancelled, request, &request->handle);
    request->handle = load_handle(&request->handle);
    store_handle(place, request->handle);
    enter(request);
    fanin_start(request);
    return 1;
}

int fanin_persistent(struct call *call, void *place, int *code)
{
    struct meaning meaning;
    struct communicator *communicator = fanin_decide(call, PERSISTENT, &meaning, code);
    struct member *member;
    struct request *request;

    if (!communicator)
        return *code;
    if (fanin_form_job(communicator, 0, &member) != JOINED) {
        fanin_count_left(call->function, REASON_REFUSED);
        return 0;
    }
    request = new_request(call, communicator, &meaning);
    request->member = member;
    request->persistent = 1;
    *code = pmpi.Recv_init(NULL, 0, fanin_object(TYPE_BYTE), fanin_family->proc_null, 0, fanin_object(COMM_SELF),
                           &request->handle);
    request->handle = load_handle(&request->handle);
    store_handle(place, request->handle);
    enter(request);
    return 1;
}

void fanin_forget_request(struct request *request)
{
    if (fanin_active) { /* else its job has been left with all others */
        fanin_finish_request(request);
        fanin_leave_job(request->member);
    }
    erase(request);
    drop_buffers(request);
    free(request);
}
