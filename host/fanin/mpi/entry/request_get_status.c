/* The entries that look at requests without completing them. They ask the MPI about one request at a time, since an
 * array for it could not hold the shim's. */
#include "abi/mpi_progress.h"
#include "entry/entry.h"
#include "requests/errors.h"

enum request_state { IDLE, ACTIVE, COMPLETE }; /* IDLE: null, or persistent and not started */

static void *status_at(void *statuses, int index)
{
    int ignored = (intptr_t)statuses == shim_abi->status_ignore;

    return ignored ? statuses : (char *)statuses + (size_t)index * (size_t)shim_abi->status_bytes;
}

/* Store the status of a null request. */
static int empty(void *status)
{
    int flag;

    return pmpi.Request_get_status(shim_handle(REQUEST_NULL), &flag, status);
}

/* The MPI's state of a request. */
static int ask(const void *place, enum request_state *state, void *status)
{
    struct silenced silenced = shim_silence(1, place);
    int index, flag, code;

    code = shim_speak(&silenced, pmpi.Request_get_status_any(1, place, &index, &flag, status));
    *state = code || !flag ? ACTIVE : index == UNDEFINED ? IDLE : COMPLETE;
    return code;
}

static int inspect(const void *place, enum request_state *state, void *status)
{
    struct request *request = shim_request(place);
    int flag;

    *state = ACTIVE;
    if (request && shim_is_pending(request))
        return 0;
    if (!request || !request->persistent) /* the MPI knows the state of a non-blocking one */
        return ask(place, state, status);
    *state = shim_progress_of(request) == SETTLED ? COMPLETE : IDLE;
    return pmpi.Request_get_status(request->handle, &flag, status);
}

ENTRY(Request_get_status, (handle wanted, int *flag, void *status), (wanted, flag, status))
{
    wanted = clean(wanted);
    struct request *request = shim_request(&wanted);
    struct silenced silenced;

    if (request && shim_is_pending(request)) {
        *flag = 0;
        shim_let_mpi_progress();
        return 0;
    }
    silenced = shim_silence(1, &wanted);
    return shim_speak(&silenced, pmpi.Request_get_status(wanted, flag, status));
}

ENTRY(Request_get_status_any, (int count, const void *requests, int *index, int *flag, void *status),
      (count, requests, index, flag, status))
{
    enum request_state state = IDLE;
    int active = 0, code = 0;

    if (!shim_active)
        return pmpi.Request_get_status_any(count, requests, index, flag, status);
    *index = UNDEFINED;
    for (int i = 0; i < count && !code && state != COMPLETE; i++) {
        code = inspect(handle_at(requests, i), &state, status);
        active |= state != IDLE;
        if (state == COMPLETE)
            *index = i;
    }
    *flag = *index != UNDEFINED || !active;
    if (*index == UNDEFINED)
        shim_let_mpi_progress();
    return code || active ? code : empty(status);
}

ENTRY(Request_get_status_all, (int count, const void *requests, int *flag, void *statuses),
      (count, requests, flag, statuses))
{
    enum request_state state;
    int code = 0;

    if (!shim_active)
        return pmpi.Request_get_status_all(count, requests, flag, statuses);
    *flag = 1;
    for (int i = 0; i < count && !code; i++) {
        code = inspect(handle_at(requests, i), &state, status_at(statuses, i));
        *flag &= state != ACTIVE;
    }
    if (!*flag)
        shim_let_mpi_progress();
    return code;
}

ENTRY(Request_get_status_some, (int count, const void *requests, int *completed, int *indices, void *statuses),
      (count, requests, completed, indices, statuses))
{
    enum request_state state;
    int active = 0, code = 0;

    if (!shim_active)
        return pmpi.Request_get_status_some(count, requests, completed, indices, statuses);
    *completed = 0;
    for (int i = 0; i < count && !code; i++) {
        code = inspect(handle_at(requests, i), &state, status_at(statuses, *completed));
        active |= state != IDLE;
        if (state == COMPLETE)
            indices[(*completed)++] = i;
    }
    if (!active)
        *completed = UNDEFINED;
    else if (!*completed)
        shim_let_mpi_progress();
    return code;
}
