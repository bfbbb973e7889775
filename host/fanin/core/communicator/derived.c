/* Communicators made from a communicator. Every rank computes the same description by itself. */
#include "communicator/communicator.h"
#include "job/identity.h"
#include <stdlib.h>

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

    return status == FANIN_SUCCESS ? fanin_await_join(begun, timeout_ms, made) : status;
}

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
        return fanin_await_join(begun, timeout_ms, made);
    if (status == FANIN_SUCCESS)
        *made = NULL;
    return status;
}
