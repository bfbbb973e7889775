/* The entries that start and complete requests, of the shim and of the MPI in one array. An entry first settles the
 * shim's, then calls the MPI, which completes all. A persistent request of the shim that is under way is inactive for
 * the MPI; so if the MPI finds no active request, nothing is complete yet. Record 0051 (docs/decisions) says why
 * requests are the MPI's own. */
#define _GNU_SOURCE
#include "abi/mpi_progress.h"
#include "entry/entry.h"
#include "requests/errors.h"
#include <sched.h>

#define POLLS 50 /* with a yield between, before a waiter sleeps */
#define SLICE_MS 1

/* Settle the requests of an array that have ended. Returns one of the shim's that is still under way, or NULL. */
static struct request *find_pending(int count, void *requests)
{
    struct request *pending = NULL;

    for (int i = 0; i < count; i++) {
        struct request *request = shim_request(handle_at(requests, i));
        if (request && shim_is_pending(request))
            pending = request;
    }
    return pending;
}

/* Yield, and after some polls sleep. */
static void wait_a_moment(const struct request *pending, int polls)
{
    fanin_progress();
    if (polls < POLLS || !pending->underway)
        sched_yield();
    else
        fanin_wait(pending->underway, SLICE_MS);
}

/* Note that the program has completed a request; a persistent one becomes inactive. Returns its error, which the MPI
 * does not know. */
static int end_one(struct request *request)
{
    int code = 0;

    if (!request || !request->persistent)
        return 0;
    shim_let_settle(request);
    if (shim_progress_of(request) != SETTLED)
        return 0;
    shim_set_progress(request, INACTIVE);
    code = request->code;
    if (code)
        pmpi.Comm_call_errhandler(request->comm, code);
    return code;
}

/* Note the completed requests of an array: those at `indices`, or the first ones. Returns the first error of the
 * shim's. */
static int end(void *requests, int completed, const int *indices)
{
    int code = 0;

    for (int i = 0; i < completed; i++) {
        int own = end_one(shim_request(handle_at(requests, indices ? indices[i] : i)));
        code = code ? code : own;
    }
    return code;
}

static int not_yet(int *flag)
{
    *flag = 0;
    shim_let_mpi_progress();
    return 0;
}

ENTRY(Wait, (void *place, void *status), (place, status))
{
    struct silenced silenced;
    struct request *request = shim_request(place);
    int persistent = request && request->persistent, code;

    if (request)
        shim_finish_request(request);
    silenced = shim_silence(1, place);
    code = shim_speak(&silenced, pmpi.Wait(place, status));
    return code || !persistent ? code : end_one(request);
}

ENTRY(Test, (void *place, int *flag, void *status), (place, flag, status))
{
    struct silenced silenced;
    struct request *request = shim_request(place);
    int persistent = request && request->persistent, code;

    if (request && shim_is_pending(request))
        return not_yet(flag);
    silenced = shim_silence(1, place);
    code = shim_speak(&silenced, pmpi.Test(place, flag, status));
    return code || !persistent ? code : end_one(request);
}

ENTRY(Waitall, (int count, void *requests, void *statuses), (count, requests, statuses))
{
    struct silenced silenced;
    int code, ours;

    for (int i = 0; i < count; i++) {
        struct request *request = shim_request(handle_at(requests, i));
        if (request)
            shim_finish_request(request);
    }
    silenced = shim_silence(count, requests);
    code = shim_speak(&silenced, pmpi.Waitall(count, requests, statuses));
    ours = end(requests, count, NULL);
    return code ? code : ours;
}

ENTRY(Testall, (int count, void *requests, int *flag, void *statuses), (count, requests, flag, statuses))
{
    struct silenced silenced;
    int code;

    if (find_pending(count, requests))
        return not_yet(flag);
    silenced = shim_silence(count, requests);
    code = shim_speak(&silenced, pmpi.Testall(count, requests, flag, statuses));
    return code || !*flag ? code : end(requests, count, NULL);
}

ENTRY(Testany, (int count, void *requests, int *index, int *flag, void *status), (count, requests, index, flag, status))
{
    struct request *pending = find_pending(count, requests);
    struct silenced silenced = shim_silence(count, requests);
    int code = shim_speak(&silenced, pmpi.Testany(count, requests, index, flag, status));

    if (!code && *flag && *index == UNDEFINED && pending)
        *flag = 0;
    return code || !*flag || *index == UNDEFINED ? code : end(requests, 1, index);
}

ENTRY(Waitany, (int count, void *requests, int *index, void *status), (count, requests, index, status))
{
    struct silenced silenced;
    struct request *pending;
    int code, flag;

    for (int polls = 0; (pending = find_pending(count, requests)); polls++) {
        code = Testany_entry(count, requests, index, &flag, status);
        if (code || flag)
            return code;
        wait_a_moment(pending, polls);
    }
    silenced = shim_silence(count, requests);
    code = shim_speak(&silenced, pmpi.Waitany(count, requests, index, status));
    return code || *index == UNDEFINED ? code : end(requests, 1, index);
}

ENTRY(Testsome, (int count, void *requests, int *completed, int *indices, void *statuses),
      (count, requests, completed, indices, statuses))
{
    struct request *pending = find_pending(count, requests);
    struct silenced silenced = shim_silence(count, requests);
    int code = shim_speak(&silenced, pmpi.Testsome(count, requests, completed, indices, statuses));

    if (!code && *completed == UNDEFINED && pending)
        *completed = 0;
    return code ? code : end(requests, *completed, indices);
}

ENTRY(Waitsome, (int count, void *requests, int *completed, int *indices, void *statuses),
      (count, requests, completed, indices, statuses))
{
    struct silenced silenced;
    struct request *pending;
    int code;

    for (int polls = 0; (pending = find_pending(count, requests)); polls++) {
        code = Testsome_entry(count, requests, completed, indices, statuses);
        if (code || *completed)
            return code;
        wait_a_moment(pending, polls);
    }
    silenced = shim_silence(count, requests);
    code = shim_speak(&silenced, pmpi.Waitsome(count, requests, completed, indices, statuses));
    return code ? code : end(requests, *completed, indices);
}

ENTRY(Start, (void *place), (place))
{
    struct request *request = shim_request(place);

    if (!request || !request->persistent)
        return pmpi.Start(place);
    shim_start(request);
    return 0;
}

ENTRY(Startall, (int count, void *requests), (count, requests))
{
    int code = 0, ours = 0;

    for (int i = 0; i < count; i++)
        ours += shim_request(handle_at(requests, i)) != NULL;
    if (!ours)
        return pmpi.Startall(count, requests);
    for (int i = 0; i < count && !code; i++)
        code = Start_entry(handle_at(requests, i));
    return code;
}

ENTRY(Request_free, (void *place), (place))
{
    struct request *request = shim_request(place);

    if (request && request->persistent)
        shim_free_persistent(request);
    return pmpi.Request_free(place);
}
