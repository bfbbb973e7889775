/* How a rank joins a job, and jobs made from another: dup, split, shrink and grow. Every rank computes the same
 * description by itself. Survivors of a job agree on the new one before they join it. */
#include "communicator/communicator.h"
#include "complaint.h"
#include "geometry.h"
#include "job/identity.h"
#include "job/naming.h"
#include <stdlib.h>

#define AWAIT_MS 5 /* between two looks at the other communicators */

/* ---- Join ---- */

enum fanin_status fanin_finish_join(struct fanin_communicator *communicator, struct fanin_join_reply *reply,
                                    uint32_t timeout_ms)
{
    if (!communicator->agreement)
        return fanin_await_lease(communicator, reply, timeout_ms);
    fanin_forget_complaint();
    *reply = (struct fanin_join_reply){0};
    return fanin_agree(communicator, timeout_ms);
}

enum fanin_status fanin_abandon(struct fanin_communicator *communicator)
{
    fanin_end_agreement(communicator);
    return fanin_withdraw(communicator);
}

/* Put the members that a failed join names into fanin_complaint. */
static void complain_of(const struct fanin_communicator *communicator, enum fanin_status status,
                        const struct fanin_join_reply *reply)
{
    struct fanin_cqe members = {.status = (uint8_t)status, .missing = reply->missing,
                                .missing_kind = (uint8_t)reply->missing_kind,
                                .lost_device = fanin_names_device(status) ? reply->slots : 0};

    fanin_complain_of(&communicator->job, communicator->stream.job_params.rank, &members);
}

static enum fanin_status await_join(struct fanin_communicator *communicator, uint32_t timeout_ms,
                                    struct fanin_communicator **joined)
{
    uint64_t deadline = fanin_now_ms() + timeout_ms;
    struct fanin_join_reply reply;
    enum fanin_status status;

    do {
        status = fanin_finish_join(communicator, &reply, AWAIT_MS);
        if (status == FANIN_PENDING)
            fanin_progress(); /* another rank may wait for a request that this one has not posted */
    } while (status == FANIN_PENDING && fanin_now_ms() < deadline);
    if (status != FANIN_SUCCESS && !*fanin_complaint())
        complain_of(communicator, status, &reply);
    if (status == FANIN_SUCCESS)
        *joined = communicator;
    else
        fanin_abandon(communicator);
    if (status == FANIN_INVALID_REQUEST && !*fanin_complaint())
        fanin_complain("the device refuses the description of the job, or that this rank joins it again");
    return status == FANIN_PENDING ? FANIN_TIMEOUT : status;
}

enum fanin_status fanin_join(struct fanin_context *context, const struct fanin_job *job, uint32_t rank,
                             uint32_t timeout_ms, struct fanin_communicator **joined)
{
    struct fanin_communicator *communicator;
    enum fanin_status status = fanin_begin_join(context, job, rank, &communicator);

    return status == FANIN_SUCCESS ? await_join(communicator, timeout_ms, joined) : status;
}

/* ---- Dup ---- */

enum fanin_status fanin_begin_dup(struct fanin_communicator *communicator, uint32_t slots,
                                  struct fanin_communicator **made)
{
    struct fanin_job job = communicator->job;

    fanin_identify(&job, FOR_GROUP, communicator->made++, 0);
    if (slots)
        job.slots = slots;
    return fanin_begin_join(communicator->stream.context, &job, fanin_rank(communicator), made);
}

enum fanin_status fanin_dup(struct fanin_communicator *communicator, uint32_t slots, uint32_t timeout_ms,
                            struct fanin_communicator **made)
{
    struct fanin_communicator *begun;
    enum fanin_status status = fanin_begin_dup(communicator, slots, &begun);

    return status == FANIN_SUCCESS ? await_join(begun, timeout_ms, made) : status;
}

/* ---- Split ---- */

static int is_before(const struct fanin_choice *choices, uint32_t one, uint32_t other)
{
    return choices[one].key < choices[other].key || (choices[one].key == choices[other].key && one < other);
}

/* Write the places of the group of `rank`, in their new order. Returns the new rank. */
static uint32_t form_group(const struct fanin_job *job, const struct fanin_choice *choices, uint32_t rank,
                           struct fanin_place *places, uint32_t *count)
{
    uint32_t new_rank = 0;

    *count = 0;
    for (uint32_t one = 0; one < job->ranks; one++) {
        uint32_t place = 0;
        if (choices[one].color != choices[rank].color)
            continue;
        for (uint32_t other = 0; other < job->ranks; other++)
            place += choices[other].color == choices[rank].color && is_before(choices, other, one);
        places[place] = job->places[one];
        if (one == rank)
            new_rank = place;
        ++*count;
    }
    return new_rank;
}

enum fanin_status fanin_begin_split(struct fanin_communicator *communicator, const struct fanin_choice *choices,
                                    struct fanin_communicator **made)
{
    struct fanin_job job = communicator->job;
    int64_t color = choices[fanin_rank(communicator)].color;
    uint32_t number = communicator->made++, rank;
    struct fanin_place *places;
    enum fanin_status status;

    *made = NULL;
    if (color < 0)
        return FANIN_SUCCESS;
    places = malloc(job.ranks * sizeof *places);
    if (!places)
        return FANIN_NO_RESOURCES;
    fanin_identify(&job, FOR_GROUP, number, (uint64_t)color);
    rank = form_group(&communicator->job, choices, fanin_rank(communicator), places, &job.ranks);
    job.places = places;
    status = fanin_begin_join(communicator->stream.context, &job, rank, made);
    free(places);
    return status;
}

enum fanin_status fanin_split(struct fanin_communicator *communicator, int64_t color, int64_t key, uint32_t timeout_ms,
                              struct fanin_communicator **made)
{
    struct fanin_choice mine = {color, key}, *choices = malloc(communicator->job.ranks * sizeof *choices);
    struct fanin_operation exchange = {.collective = FANIN_ALLGATHER, .tag = FANIN_DTYPE_I64, .timeout_ms = timeout_ms,
                                       .block = sizeof mine, .source = &mine, .destination = choices};
    enum fanin_status status = choices ? fanin_call(communicator, &exchange, 0, NULL) : FANIN_NO_RESOURCES;
    struct fanin_communicator *begun = NULL;

    if (status == FANIN_SUCCESS)
        status = fanin_begin_split(communicator, choices, &begun);
    free(choices);
    if (status == FANIN_SUCCESS && begun)
        return await_join(begun, timeout_ms, made);
    if (status == FANIN_SUCCESS)
        *made = NULL;
    return status;
}

/* ---- Shrink ---- */

enum fanin_status fanin_begin_shrink(struct fanin_communicator *lost, uint32_t timeout_ms,
                                     struct fanin_communicator **made)
{
    struct fanin_communicator *communicator;
    enum fanin_status status = FANIN_NO_RESOURCES;

    fanin_forget_complaint();
    if (!lost->stream.context || !has_joined(lost))
        return fanin_complain("the device has been closed, or the job has not been joined");
    communicator = fanin_new_communicator(lost->stream.context);
    if (communicator)
        status = fanin_begin_agreement(communicator, lost, timeout_ms);
    if (status == FANIN_SUCCESS)
        *made = communicator;
    else if (communicator)
        fanin_abandon(communicator);
    return status;
}

enum fanin_status fanin_shrink(struct fanin_communicator *communicator, uint32_t timeout_ms,
                               struct fanin_communicator **made)
{
    struct fanin_communicator *begun;
    enum fanin_status status = fanin_begin_shrink(communicator, timeout_ms, &begun);

    return status == FANIN_SUCCESS ? await_join(begun, UINT32_MAX, made) : status;
}

/* ---- Grow ---- */

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

/* Id and key are derived from the old job, so a lost process that comes back knows neither. Record 0098
 * (docs/decisions) says why newcomers are invited. */
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

    return status == FANIN_SUCCESS ? await_join(begun, timeout_ms, made) : status;
}
