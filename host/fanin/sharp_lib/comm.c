/* The ranks exchange their places, and use rank 0's id and key of the job. */
#define _GNU_SOURCE
#include "comm.h"
#include "agreement.h"
#include "log.h"
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#define JOIN_MS 60000
#define ROUND_MS 20 /* between votes while ranks join */
#define LEAVE_MS 10000

struct member {
    uint32_t jid, key; /* those of rank 0 are used */
    struct fanin_place place;
};

/* FANIN_PENDING: the device has been asked. */
static enum fanin_status begin_join(struct sharp_coll_comm *comm, const struct ranks *group,
                                    const struct member *members)
{
    struct fanin_place *places = calloc((size_t)group->size, sizeof *places);
    struct fanin_job job = {.jid = members[0].jid, .key = members[0].key, .route = FANIN_ROUTE_AUTO,
                            .ranks = (uint32_t)group->size, .places = places};
    enum fanin_status status = fanin_order_of_environment(&job.flags);

    if (!places)
        return FANIN_NO_RESOURCES;
    for (int rank = 0; rank < group->size; rank++)
        places[rank] = members[rank].place;
    if (status == FANIN_SUCCESS)
        status = fanin_begin_join(comm->context->device, &job, (uint32_t)group->rank, &comm->communicator);
    free(places);
    return status == FANIN_SUCCESS ? FANIN_PENDING : status;
}

/* FANIN_PENDING: not all ranks have joined yet. `words`: the members that a failure names. */
static enum fanin_status await_join(struct fanin_communicator *communicator, uint64_t deadline, char words[MAX_WORDS])
{
    struct fanin_join_reply reply;
    enum fanin_status status = fanin_finish_join(communicator, &reply, ROUND_MS);
    struct fanin_cqe missing = {.missing = reply.missing, .missing_kind = (uint8_t)reply.missing_kind};

    if (status == FANIN_PENDING)
        fanin_progress(); /* another rank may wait for a request that this one has not posted */
    if (status == FANIN_PENDING && fanin_now_ms() >= deadline)
        status = FANIN_TIMEOUT;
    missing.status = (uint8_t)status;
    if (status != FANIN_PENDING && status != FANIN_SUCCESS)
        sharp_name_members(communicator, &missing, words);
    return status;
}

/* A device answers only when all ranks have joined, so ranks vote meanwhile, to learn of a refusal. `status`: of
 * begin_join, or of an earlier failure. */
static enum fanin_status finish_join(struct sharp_coll_comm *comm, const struct ranks *group, enum fanin_status status)
{
    uint64_t deadline = fanin_now_ms() + JOIN_MS;
    char words[MAX_WORDS] = "";
    enum fanin_status agreed;

    do {
        if (status == FANIN_PENDING)
            status = await_join(comm->communicator, deadline, words);
        agreed = sharp_agree(group, status, "UCC goes another way: forming a group of ranks", words);
    } while (agreed == FANIN_PENDING);
    return agreed;
}

static enum fanin_status introduce(const struct sharp_coll_context *context, struct member *own)
{
    uint32_t random[2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return FANIN_NO_RESOURCES;
    own->jid = random[0] | 1; /* not 0 */
    own->key = random[1];
    own->place = context->nic.place;
    return FANIN_SUCCESS;
}

static enum fanin_status form(struct sharp_coll_comm *comm, const struct ranks *group, struct member *members)
{
    struct member own = {.jid = 0};
    enum fanin_status status = introduce(comm->context, &own);
    enum fanin_status exchanged = sharp_exchange(group, &own, sizeof own, members);

    if (exchanged == FANIN_SUCCESS && !members[0].jid)
        exchanged = FANIN_ABORTED; /* rank 0 has no id for the job, or could not gather */
    if (status == FANIN_SUCCESS)
        status = exchanged;
    if (status == FANIN_SUCCESS)
        status = begin_join(comm, group, members);
    status = finish_join(comm, group, status);
    if (status != FANIN_SUCCESS && comm->communicator)
        fanin_abandon(comm->communicator);
    return status;
}

int sharp_coll_comm_init(struct sharp_coll_context *context, struct sharp_coll_comm_init_spec *spec,
                         struct sharp_coll_comm **made)
{
    struct ranks group = {.out_of_band = &context->out_of_band, .oob_ctx = spec->oob_ctx, .rank = spec->rank,
                          .size = spec->size};
    struct sharp_coll_comm *comm;
    struct member *members;
    enum fanin_status status = FANIN_NO_RESOURCES;
    char path[MAX_WORDS];

    if (group.size < 1 || group.rank < 0 || group.rank >= group.size || sharp_is_inherited(context)) {
        sharp_say("INVALID_REQUEST: sharp_coll_comm_init: rank %d of %d%s: pass what UCC passes", group.rank,
                  group.size, sharp_is_inherited(context) ? ", in a child of the process that opened the device" : "");
        return SHARP_COLL_EINVAL;
    }
    if (!context->device)
        return sharp_code_of(context->lacking); /* known to all ranks, and reported by one */
    comm = calloc(1, sizeof *comm);
    members = calloc((size_t)group.size, sizeof *members);
    if (comm && members) {
        comm->context = context;
        status = FANIN_SUCCESS;
    }
    status = sharp_agree(&group, status, "UCC goes another way: memory for a group of ranks", "");
    if (status == FANIN_SUCCESS)
        status = form(comm, &group, members);
    free(members);
    if (status != FANIN_SUCCESS) {
        free(comm);
        return sharp_code_of(status);
    }
    fanin_name_path_of(comm->communicator, path, sizeof path);
    sharp_report("rank %d of %d has joined job %u by %s: %s", group.rank, group.size,
                 fanin_job_of(comm->communicator)->jid, context->nic.socket, path);
    *made = comm;
    return SHARP_COLL_SUCCESS;
}

int sharp_coll_comm_destroy(struct sharp_coll_comm *comm)
{
    const uint64_t *begun = comm->begun;
    uint32_t jid = fanin_job_of(comm->communicator)->jid, rank = fanin_rank(comm->communicator);
    enum fanin_status sent, left;

    if (sharp_is_inherited(comm->context)) { /* the parent still uses the job */
        free(comm);
        return SHARP_COLL_SUCCESS;
    }
    sent = fanin_flush(comm->communicator, LEAVE_MS);
    if (sent != FANIN_SUCCESS) /* of a broadcast, whose root does not wait */
        sharp_failed(sent, "giving the other ranks what this one has brought", "");
    left = fanin_leave(comm->communicator, LEAVE_MS);
    if (left != FANIN_SUCCESS)
        sharp_failed(left, "leaving a group of ranks", "");
    sharp_report("rank %u has left job %u, after %" PRIu64 " allreduces, %" PRIu64 " broadcasts, %" PRIu64
                 " allgathers, %" PRIu64 " reduce-scatters, %" PRIu64 " barriers", rank, jid, begun[FANIN_ALLREDUCE],
                 begun[FANIN_BROADCAST], begun[FANIN_ALLGATHER], begun[FANIN_REDUCE_SCATTER], begun[FANIN_BARRIER]);
    free(comm);
    return sharp_code_of(sent == FANIN_SUCCESS ? left : sent);
}
