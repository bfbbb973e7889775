/* Looking at requests without completing them. One of ours is looked at by itself; the MPI is asked about one request at a
 * time, since no array of it can hold what only we know.
 */
#include "entry/entry.h"
#include "requests/requests.h"
#include "init.h"

enum standing { IDLE, ACTIVE, COMPLETE }; /* IDLE: null, or persistent and not started */

static void *status_at(void *statuses, int index)
{
    int ignored = (intptr_t)statuses == shim_abi->status_ignore;

    return ignored ? statuses : (char *)statuses + (size_t)index * (size_t)shim_abi->status_bytes;
}

/* The status of a null request. */
static int empty(void *status)
{
    int flag;

    return pmpi.Request_get_status(shim_handle(REQUEST_NULL), &flag, status);
}

/* What the MPI says of a request. */
static int ask(const void *place, enum standing *standing, void *status)
{
    int index, flag, code = pmpi.Request_get_status_any(1, place, &index, &flag, status);

    *standing = code || !flag ? ACTIVE : index == UNDEFINED ? IDLE : COMPLETE;
    return code;
}

static int glance_at(const void *place, enum standing *standing, void *status)
{
    struct request *request = shim_request(place);
    int flag;

    *standing = ACTIVE;
    if (request && shim_is_pending(request))
        return 0;
    if (!request || !request->persistent) /* once it is settled, a non-blocking one is a complete request of the MPI */
        return ask(place, standing, status);
    *standing = request->progress == SETTLED ? COMPLETE : IDLE;
    return pmpi.Request_get_status(request->handle, &flag, status);
}

ENTRY int MPI_Request_get_status(handle wanted, int *flag, void *status)
{
    shim_bind();
    wanted = clean(wanted);
    struct request *request = shim_request(&wanted);

    if (request && shim_is_pending(request)) {
        *flag = 0;
        shim_let_mpi_progress();
        return 0;
    }
    return pmpi.Request_get_status(wanted, flag, status);
}

ENTRY int MPI_Request_get_status_any(int count, const void *requests, int *index, int *flag, void *status)
{
    shim_bind();
    enum standing standing = IDLE;
    int active = 0, code = 0;

    if (!shim_active)
        return pmpi.Request_get_status_any(count, requests, index, flag, status);
    *index = UNDEFINED;
    for (int i = 0; i < count && !code && standing != COMPLETE; i++) {
        code = glance_at(handle_at(requests, i), &standing, status);
        active |= standing != IDLE;
        if (standing == COMPLETE)
            *index = i;
    }
    *flag = *index != UNDEFINED || !active;
    if (*index == UNDEFINED)
        shim_let_mpi_progress();
    return code || active ? code : empty(status);
}

ENTRY int MPI_Request_get_status_all(int count, const void *requests, int *flag, void *statuses)
{
    shim_bind();
    enum standing standing;
    int code = 0;

    if (!shim_active)
        return pmpi.Request_get_status_all(count, requests, flag, statuses);
    *flag = 1;
    for (int i = 0; i < count && !code; i++) {
        code = glance_at(handle_at(requests, i), &standing, status_at(statuses, i));
        *flag &= standing != ACTIVE;
    }
    if (!*flag)
        shim_let_mpi_progress();
    return code;
}

ENTRY int MPI_Request_get_status_some(int count, const void *requests, int *completed, int *indices, void *statuses)
{
    shim_bind();
    enum standing standing;
    int active = 0, code = 0;

    if (!shim_active)
        return pmpi.Request_get_status_some(count, requests, completed, indices, statuses);
    *completed = 0;
    for (int i = 0; i < count && !code; i++) {
        code = glance_at(handle_at(requests, i), &standing, status_at(statuses, *completed));
        active |= standing != IDLE;
        if (standing == COMPLETE)
            indices[(*completed)++] = i;
    }
    if (!active)
        *completed = UNDEFINED;
    else if (!*completed)
        shim_let_mpi_progress();
    return code;
}
