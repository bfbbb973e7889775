/* A job gains members. Its ranks and the newcomers join a new job, whose id and key all ranks derive from the old one.
 * A lost process that comes back knows neither. Record 0098 (docs/decisions) says why newcomers are invited. */
#include "communicator/communicator.h"
#include "complaint.h"
#include "geometry.h"
#include "job/identity.h"
#include <stdlib.h>

/* Put each newcomer at its rank, and mark the rank as taken. */
static enum fanin_status place_newcomers(const struct fanin_newcomer *newcomers, uint32_t count, uint32_t ranks,
                                         struct fanin_place *places, uint8_t *taken)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = newcomers[i].rank;
        if (rank >= ranks)
            return fanin_complain("a newcomer's rank is %u, but the new job has ranks 0 to %u", rank, ranks - 1);
        if (taken[rank])
            return fanin_complain("two newcomers have rank %u", rank);
        taken[rank] = 1;
        places[rank] = newcomers[i].place;
    }
    return FANIN_SUCCESS;
}

/* Put the ranks of the old job, in their order, around the newcomers. Returns the new rank of `rank`. */
static uint32_t place_others(const struct fanin_job *old, uint32_t rank, struct fanin_place *places,
                             const uint8_t *taken)
{
    uint32_t at = 0, new_rank = 0;

    for (uint32_t other = 0; other < old->ranks; other++, at++) {
        while (taken[at])
            at++;
        places[at] = old->places[other];
        if (other == rank)
            new_rank = at;
    }
    return new_rank;
}

/* A job within one node may have segments that are too long for packets. */
static void leave_the_node(struct fanin_job *job)
{
    if (job->route != FANIN_ROUTE_LOCAL)
        return;
    job->route = FANIN_ROUTE_AUTO;
    if (job->chunk > DEFAULT_CHUNK)
        job->chunk = DEFAULT_CHUNK;
}

enum fanin_status fanin_begin_grow(struct fanin_communicator *communicator, const struct fanin_newcomer *newcomers,
                                   uint32_t count, struct fanin_communicator **made)
{
    const struct fanin_job *old = &communicator->job;
    struct fanin_job job = *old;
    struct fanin_place *places;
    enum fanin_status status;
    uint8_t *taken;
    uint32_t rank;

    fanin_forget_complaint();
    fanin_identify(&job, FOR_GROWN, communicator->made++, 0);
    if (!count)
        return fanin_complain("there are no newcomers");
    job.ranks = old->ranks + count;
    places = calloc(job.ranks, sizeof *places);
    taken = calloc(job.ranks, 1);
    status = places && taken ? place_newcomers(newcomers, count, job.ranks, places, taken) : FANIN_NO_RESOURCES;
    if (status == FANIN_SUCCESS) {
        rank = place_others(old, fanin_rank(communicator), places, taken);
        job.places = places;
        leave_the_node(&job);
        status = fanin_begin_join(communicator->stream.context, &job, rank, made);
    }
    free(places);
    free(taken);
    return status;
}

enum fanin_status fanin_grow(struct fanin_communicator *communicator, const struct fanin_newcomer *newcomers,
                             uint32_t count, uint32_t timeout_ms, struct fanin_communicator **made)
{
    struct fanin_communicator *begun;
    enum fanin_status status = fanin_begin_grow(communicator, newcomers, count, &begun);

    return status == FANIN_SUCCESS ? fanin_await_join(begun, timeout_ms, made) : status;
}
