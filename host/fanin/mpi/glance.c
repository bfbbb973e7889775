/* Looking at requests without completing them. One of ours is looked at by itself; the MPI is asked about one request at a
 * time, since no array of it can hold what only we know.
 */
#include "entries.h"
#include "requests.h"
#include "world.h"

enum standing { IDLE, ACTIVE, COMPLETE }; /* IDLE: null, or persistent and not started */

static void *status_at(void *statuses, int index)
{
    int ignored = (intptr_t)statuses == fanin_family->status_ignore;

    return ignored ? statuses : (char *)statuses + (size_t)index * (size_t)fanin_family->status_bytes;
}

/* The status of a null request. */
static int empty(void *status)
{
    int flag;

    return pmpi.Request_get_status(fanin_object(REQUEST_NULL), &flag, status);
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
    struct request *request = fanin_request(place);
    int flag;

    *standing = ACTIVE;
    if (request && fanin_is_pending(request))
        return 0;
    if (!request || !request->persistent) /* once it is settled, a non-blocking one is a complete request of the MPI */
        return ask(place, standing, status);
    *standing = request->progress == SETTLED ? COMPLETE : IDLE;
    return pmpi.Request_get_status(request->handle, &flag, status);
}

ENTRY int MPI_Request_get_status(handle wanted, int *flag, void *status)
{
    fanin_bind();
    wanted = clean(wanted);
    struct request *request = fanin_request(&wanted);

    if (request && fanin_is_pending(request)) {
        *flag = 0;
        fanin_let_mpi_progress();
        return 0;
    }
    return pmpi.Request_get_status(wanted, flag, status);
}

ENTRY int MPI_Request_get_status_any(int count, const void *requests, int *index, int *flag, void *status)
{
    fanin_bind();
    enum standing standing = IDLE;
    int active = 0, code = 0;

    if (!fanin_active)
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
        fanin_let_mpi_progress();
    return code || active ? code : empty(status);
}

ENTRY int MPI_Request_get_status_all(int count, const void *requests, int *flag, void *statuses)
{
    fanin_bind();
    enum standing standing;
    int code = 0;

    if (!fanin_active)
        return pmpi.Request_get_status_all(count, requests, flag, statuses);
    *flag = 1;
    for (int i = 0; i < count && !code; i++) {
        code = glance_at(handle_at(requests, i), &standing, status_at(statuses, i));
        *flag &= standing != ACTIVE;
    }
    if (!*flag)
        fanin_let_mpi_progress();
    return code;
}

ENTRY int MPI_Request_get_status_some(int count, const void *requests, int *completed, int *indices, void *statuses)
{
    fanin_bind();
    enum standing standing;
    int active = 0, code = 0;

    if (!fanin_active)
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
        fanin_let_mpi_progress();
    return code;
}
