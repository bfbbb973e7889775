/* Ranks tell each other their places, and take the number and the key of the job from rank 0. */
#define _GNU_SOURCE
#include "comm.h"
#include "agreement.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define JOIN_MS 60000
#define LEAVE_MS 10000

/* What a rank says of itself. */
struct member {
    uint32_t jid, key; /* those of rank 0 count */
    struct fanin_place place;
};

static enum fanin_status join(struct sharp_coll_comm *comm, const struct ranks *group, const struct member *members)
{
    struct fanin_place *places = calloc((size_t)group->size, sizeof *places);
    struct fanin_job job = {.jid = members[0].jid, .key = members[0].key, .route = FANIN_ROUTE_AUTO,
                            .ranks = (uint32_t)group->size, .places = places};
    enum fanin_status status;

    if (!places)
        return FANIN_NO_RESOURCES;
    for (int rank = 0; rank < group->size; rank++)
        places[rank] = members[rank].place;
    status = fanin_join(comm->context->device, &job, (uint32_t)group->rank, JOIN_MS, &comm->communicator);
    free(places);
    return status;
}

static int introduce(const struct sharp_coll_context *context, struct member *own)
{
    uint32_t random[2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return SHARP_COLL_ERROR;
    own->jid = random[0] | 1; /* not 0 */
    own->key = random[1];
    own->place = context->nic.place;
    return SHARP_COLL_SUCCESS;
}

static int form(struct sharp_coll_comm *comm, const struct ranks *group)
{
    struct member own = {.jid = 0}, *members = calloc((size_t)group->size, sizeof *members);
    enum fanin_status status = FANIN_NO_RESOURCES;
    int result = members ? introduce(comm->context, &own) : SHARP_COLL_ENOMEM;

    if (members && sharp_exchange(group, &own, sizeof own, members) != SHARP_COLL_SUCCESS)
        result = SHARP_COLL_ERROR;
    if (result == SHARP_COLL_SUCCESS)
        status = join(comm, group, members);
    free(members);
    result = sharp_agree(group, status, "UCC goes another way: forming a group of ranks");
    if (result != SHARP_COLL_SUCCESS && status == FANIN_SUCCESS)
        fanin_abandon(comm->communicator);
    return result;
}

int sharp_coll_comm_init(struct sharp_coll_context *context, struct sharp_coll_comm_init_spec *spec,
                         struct sharp_coll_comm **made)
{
    struct ranks group = {.out_of_band = &context->out_of_band, .oob_ctx = spec->oob_ctx, .rank = spec->rank,
                          .size = spec->size};
    struct sharp_coll_comm *comm;
    int result;

    if (group.size < 1 || group.rank < 0 || group.rank >= group.size) {
        sharp_say("INVALID_REQUEST: sharp_coll_comm_init: rank %d of %d: pass what UCC passes", group.rank, group.size);
        return SHARP_COLL_EINVAL;
    }
    comm = calloc(1, sizeof *comm);
    if (!comm)
        return SHARP_COLL_ENOMEM;
    comm->context = context;
    result = form(comm, &group);
    if (result != SHARP_COLL_SUCCESS) {
        free(comm);
        return result;
    }
    sharp_report("rank %d of %d has joined job %u by %s", group.rank, group.size, fanin_job_of(comm->communicator)->jid,
                 context->nic.socket);
    *made = comm;
    return SHARP_COLL_SUCCESS;
}

int sharp_coll_comm_destroy(struct sharp_coll_comm *comm)
{
    const uint64_t *begun = comm->begun;
    uint32_t jid = fanin_job_of(comm->communicator)->jid, rank = fanin_rank(comm->communicator);
    enum fanin_status status = fanin_leave(comm->communicator, LEAVE_MS);

    sharp_report("rank %u has left job %u, after %lu allreduces, %lu broadcasts, %lu allgathers, %lu reduce-scatters, %lu "
                 "barriers", rank, jid, begun[FANIN_ALLREDUCE], begun[FANIN_BROADCAST], begun[FANIN_ALLGATHER],
                 begun[FANIN_REDUCE_SCATTER], begun[FANIN_BARRIER]);
    free(comm);
    if (status == FANIN_SUCCESS || status == FANIN_PEER_LOST || status == FANIN_ABORTED)
        return SHARP_COLL_SUCCESS; /* what goes wrong in the end has been told by the requests */
    return sharp_failed(status, "leaving a group of ranks", "");
}
