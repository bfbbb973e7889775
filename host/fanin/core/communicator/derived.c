/* Communicators made from a communicator. Every rank computes the same description from what all know, so nobody needs
 * to hand it out.
 */
#include "communicator/communicator.h"
#include "complaint.h"
#include "geometry.h"
#include "mix.h"
#include <stdlib.h>
#include <string.h>

/* Id and key of the job that the `number`th call makes for the ranks of a color. */
static void identify(struct fanin_job *job, uint32_t number, uint64_t color)
{
    uint64_t digest = mix(mix(mix((uint64_t)job->jid << 32 | job->key, number), color), 0x6a6f62);

    job->jid = (uint32_t)digest ? (uint32_t)digest : 1;
    job->key = (uint32_t)(digest >> 32);
}

static struct fanin_place *copy_places(const struct fanin_job *job)
{
    struct fanin_place *places = malloc(job->ranks * sizeof *places);

    if (places)
        memcpy(places, job->places, job->ranks * sizeof *places);
    return places;
}

static enum fanin_status await_join(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    uint64_t deadline = fanin_now_ms() + timeout_ms, now;
    struct fanin_join_reply reply;
    enum fanin_status status;

    do {
        status = fanin_finish_join(communicator, &reply, 5);
        if (status == FANIN_PENDING)
            fanin_progress(); /* another rank may wait for what this one has not posted yet */
        now = fanin_now_ms();
    } while (status == FANIN_PENDING && now < deadline);
    return status == FANIN_PENDING ? FANIN_TIMEOUT : status;
}

/* As far as this rank's device allows; give the numbers where the devices of a job differ. */
static void use_defaults(struct fanin_job *job, const struct fanin_context *context)
{
    if (!job->chunk) {
        job->chunk = DEFAULT_CHUNK;
        while (job->chunk > fanin_limits(context)->max_chunk && job->chunk > 256)
            job->chunk /= 2;
    }
    if (!job->slots)
        job->slots = DEFAULT_SLOTS;
}

enum fanin_status fanin_join(struct fanin_context *context, const struct fanin_job *given, uint32_t rank,
                             uint32_t timeout_ms, struct fanin_communicator **joined)
{
    struct fanin_communicator *communicator;
    char complaint[FANIN_MAX_COMPLAINT];
    struct fanin_job job = *given;
    struct fanin_join join;
    enum fanin_status status;

    if (!job.places || !job.ranks || rank >= job.ranks) {
        fanin_complain("the job has no places, or rank %u is none of its ranks", rank);
        return FANIN_INVALID_REQUEST;
    }
    use_defaults(&job, context);
    status = fanin_describe(&job, rank, &join, complaint);
    if (status != FANIN_SUCCESS) {
        fanin_complain("%s", complaint);
        return status;
    }
    job.places = copy_places(&job);
    if (!job.places)
        return FANIN_NO_RESOURCES;
    status = fanin_begin_join(context, &join, rank, job.ranks, &communicator);
    if (status != FANIN_SUCCESS) {
        free((void *)job.places);
        return status;
    }
    communicator->job = job;
    status = await_join(communicator, timeout_ms);
    if (status == FANIN_SUCCESS)
        *joined = communicator;
    else
        fanin_abandon(communicator);
    return status;
}

enum fanin_status fanin_dup(struct fanin_communicator *communicator, uint32_t slots, uint32_t timeout_ms,
                            struct fanin_communicator **made)
{
    struct fanin_job job = communicator->job;

    if (!job.ranks)
        return FANIN_NOT_SUPPORTED;
    identify(&job, communicator->made++, 0);
    if (slots)
        job.slots = slots;
    return fanin_join(communicator->stream.context, &job, fanin_rank(communicator), timeout_ms, made);
}

/* What a rank says in a split. */
struct choice {
    int64_t color, key;
};

/* Whether rank `one` stands before rank `other` in their new group. */
static int is_before(const struct choice *choices, uint32_t one, uint32_t other)
{
    return choices[one].key < choices[other].key || (choices[one].key == choices[other].key && one < other);
}

/* The places of the group of `rank`, in their new order. Returns the new rank. */
static uint32_t form_group(const struct fanin_job *job, const struct choice *choices, uint32_t rank,
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

enum fanin_status fanin_split(struct fanin_communicator *communicator, int64_t color, int64_t key, uint32_t timeout_ms,
                              struct fanin_communicator **made)
{
    struct choice mine = {color, key}, *choices;
    struct fanin_job job = communicator->job;
    struct fanin_place *places;
    enum fanin_status status;
    uint32_t rank;

    if (!job.ranks)
        return FANIN_NOT_SUPPORTED;
    choices = malloc(job.ranks * sizeof *choices);
    places = malloc(job.ranks * sizeof *places);
    status = choices && places ? fanin_allgather(communicator, &mine, choices, sizeof mine) : FANIN_NO_RESOURCES;
    if (status == FANIN_SUCCESS) {
        identify(&job, communicator->made++, (uint64_t)color);
        *made = NULL;
    }
    if (status == FANIN_SUCCESS && color >= 0) {
        rank = form_group(&communicator->job, choices, fanin_rank(communicator), places, &job.ranks);
        job.places = places;
        status = fanin_join(communicator->stream.context, &job, rank, timeout_ms, made);
    }
    free(choices);
    free(places);
    return status;
}
