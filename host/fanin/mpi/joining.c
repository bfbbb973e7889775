/* A JOIN of each rank of a communicator, and the rounds in which the ranks tell each other how theirs stands. */
#include "joining.h"
#include "device.h"
#include "pmpi.h"
#include "settings.h"

#define ROUND_MS 100

int fanin_tell_all(const void *mine, void *all, size_t bytes, handle comm)
{
    return pmpi.Allgather(mine, (int)bytes, fanin_object(TYPE_BYTE), all, (int)bytes, fanin_object(TYPE_BYTE), comm);
}

static void remember_terms(struct member *member, const struct fanin_join *join, uint32_t chunk, uint32_t rank)
{
    uint32_t nodes = join->node_count < 64 ? join->node_count : 64;

    member->terms = (struct terms){.jid = join->jid, .chunk = chunk, .route = join->route, .rank = rank,
                                   .node_bitmap = ~0ull >> (64 - nodes), .rank_bitmap = join->rank_bitmap};
}

void fanin_begin_joining(struct member *member, const struct description *job, uint32_t rank,
                         struct joining *joining, char *complaint)
{
    joining->status = fanin_mpi_membership(job, rank, &joining->join, complaint);
    if (joining->status != FANIN_SUCCESS)
        return;
    joining->join.qp = member->stream.qp;
    joining->reply.chunk = joining->join.chunk;
    joining->status = fanin_join(fanin_device.context, &joining->join, &joining->request);
    if (joining->status == FANIN_SUCCESS)
        joining->status = FANIN_PENDING;
}

void fanin_end_joining(struct member *member, struct joining *joining, uint32_t rank)
{
    uint32_t chunk = joining->reply.chunk ? joining->reply.chunk : joining->join.chunk;

    if (joining->request)
        fanin_forget(joining->request);
    if (joining->status != FANIN_SUCCESS)
        return;
    fanin_stream_begin(&member->stream, fanin_device.context, joining->join.qp, member->stream.cq, &joining->reply);
    remember_terms(member, &joining->join, chunk, rank);
}

/* Whether there is nothing more to wait for: all have joined, or one never will. */
static int is_decided(const uint32_t *statuses, int ranks)
{
    int pending = 0, refused = 0;

    for (int rank = 0; rank < ranks; rank++) {
        pending |= statuses[rank] == FANIN_PENDING;
        refused |= fanin_is_refused(statuses[rank]);
    }
    return refused || !pending;
}

int fanin_await_all(struct joining *joining, const struct communicator *communicator, uint32_t *statuses)
{
    uint32_t waited = 0, mine;
    int code;

    do {
        if (joining->status == FANIN_PENDING)
            joining->status = fanin_await(joining->request, &joining->reply, ROUND_MS);
        waited += ROUND_MS;
        if (joining->status == FANIN_PENDING && waited >= fanin_settings.join_ms)
            joining->status = FANIN_TIMEOUT;
        mine = joining->status;
        code = fanin_tell_all(&mine, statuses, sizeof mine, communicator->handle);
    } while (!code && !is_decided(statuses, communicator->ranks));
    return code;
}
