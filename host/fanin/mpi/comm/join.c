/* Forming jobs. The ranks exchange records through the MPI, and join. Then they exchange the states of their joins in
 * rounds, until all have joined or one has failed, so that all agree. Record 0051 (docs/decisions) says why a
 * communicator joins after 64 calls, and not when it is made. */
#define _GNU_SOURCE
#include "abi/pmpi.h"
#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/jobs.h"
#include "comm/members.h"
#include "settings.h"
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define ROUND_MS 100

/* The record of a rank. */
struct record {
    uint32_t jid, key;         /* random; those of rank 0 are used */
    uint32_t has_queues;       /* half of its device's */
    uint32_t is_leaving;       /* jobs that are still being left */
};

static struct record describe_self(void)
{
    uint32_t random[2] = {0};

    if (getrandom(random, sizeof random, 0) != sizeof random)
        random[0] = (uint32_t)getpid() * 2654435761u;
    return (struct record){.jid = random[0] ? random[0] : 1, .key = random[1],
                           .has_queues = shim_jobs_in_use() < fanin_limits(shim_device.context)->max_qp / 2,
                           .is_leaving = shim_is_leaving()};
}

static int have_queues(const struct record *records, int ranks)
{
    int found = 1;

    for (int rank = 0; rank < ranks; rank++)
        found &= (int)records[rank].has_queues;
    return found;
}

static int is_any_leaving(const struct record *records, int ranks)
{
    int found = 0;

    for (int rank = 0; rank < ranks; rank++)
        found |= (int)records[rank].is_leaving;
    return found;
}

static int tell_all(const void *mine, void *all, size_t bytes, handle comm)
{
    return pmpi.Allgather(mine, (int)bytes, shim_handle(TYPE_BYTE), all, (int)bytes, shim_handle(TYPE_BYTE), comm);
}

/* The rank whose status counts for all: the first refused one, otherwise one that still waits, otherwise any. */
static int decisive_rank(const uint32_t *statuses, int ranks)
{
    int found = 0;

    for (int rank = 0; rank < ranks; rank++) {
        if (statuses[rank] == FANIN_PENDING)
            found = rank;
        else if (statuses[rank] != FANIN_SUCCESS)
            return rank;
    }
    return found;
}

/* FANIN_PENDING: the device has been asked. */
static enum fanin_status begin_join(const struct fanin_job *description, uint32_t rank, struct fanin_communicator **job)
{
    enum fanin_status status = fanin_begin_join(shim_device.context, description, rank, job);

    if (status == FANIN_NO_RESOURCES) { /* jobs being left may free queues */
        shim_finish_leaving(SHIM_LEAVE_MS);
        status = fanin_begin_join(shim_device.context, description, rank, job);
    }
    return status == FANIN_SUCCESS ? FANIN_PENDING : status;
}

/* Why a communicator stays with the MPI, by the status of its join. Room comes back when other jobs end. */
static enum reason reason_of(enum fanin_status status)
{
    if (status == FANIN_SUCCESS)
        return NO_REASON;
    return status == FANIN_NO_RESOURCES || status == FANIN_JID_IN_USE ? REASON_NO_ROOM : REASON_REFUSED;
}

/* A device answers only when all ranks have joined, so a refusal must reach the others through the MPI. Rank 0 prints
 * it, if the MPI worked. */
static enum reason await_all(struct fanin_communicator *job, enum fanin_status status, const char *complaint,
                     const struct communicator *communicator, uint32_t *statuses)
{
    struct fanin_join_reply reply;
    uint32_t waited = 0, mine;
    int decisive;

    do {
        if (status == FANIN_PENDING)
            status = fanin_finish_join(job, &reply, ROUND_MS);
        waited += ROUND_MS;
        if (status == FANIN_PENDING && waited >= shim_settings.join_ms)
            status = FANIN_TIMEOUT;
        mine = status;
        if (tell_all(&mine, statuses, sizeof mine, communicator->handle))
            return REASON_REFUSED;
        decisive = decisive_rank(statuses, communicator->ranks);
    } while (statuses[decisive] == FANIN_PENDING);
    if (statuses[decisive] != FANIN_SUCCESS && communicator->rank == 0)
        shim_warn("%s: a communicator of %d ranks stays with MPI%s: rank %d could not join its job%s%s",
                  fanin_status_name(statuses[decisive]), communicator->ranks,
                  reason_of(statuses[decisive]) == REASON_NO_ROOM ? " for now" : "", decisive, *complaint ? ": " : "",
                  complaint);
    return reason_of(statuses[decisive]);
}

/* records, statuses: room for all ranks. */
static enum reason form(const struct communicator *communicator, int early, const struct plan *plan,
                        struct record *records, uint32_t *statuses, struct fanin_communicator **job)
{
    const char *complaint = "its nodes have loopback addresses of different machines";
    enum fanin_status status = FANIN_INVALID_REQUEST;
    struct record mine = describe_self();
    struct fanin_job description = plan->job;
    enum reason reason;

    if (tell_all(&mine, records, sizeof mine, communicator->handle))
        return REASON_REFUSED;
    if (early && !have_queues(records, communicator->ranks))
        return REASON_NOT_JOINED;
    if (!have_queues(records, communicator->ranks) && is_any_leaving(records, communicator->ranks)) {
        /* A device has room again only when all ranks have left another job. */
        shim_finish_leaving(SHIM_LEAVE_MS);
        if (tell_all(&mine, records, sizeof mine, communicator->handle))
            return REASON_REFUSED;
    }
    description.jid = records[0].jid;
    description.key = records[0].key;
    if (plan->is_reachable) {
        status = begin_join(&description, (uint32_t)communicator->rank, job);
        complaint = status == FANIN_INVALID_REQUEST ? fanin_complaint() : "";
    }
    reason = await_all(*job, status, complaint, communicator, statuses);
    if (reason == NO_REASON)
        return reason;
    if (*job)
        fanin_abandon(*job);
    *job = NULL;
    return reason;
}

enum reason shim_form_job(const struct communicator *communicator, int early, struct fanin_communicator **job)
{
    size_t ranks = (size_t)communicator->ranks;
    struct record *records = calloc(ranks, sizeof *records);
    uint32_t *statuses = calloc(ranks, sizeof *statuses); /* enum fanin_status */
    struct plan plan;
    enum reason reason;

    if (!records || !statuses)
        abort(); /* the other ranks would wait */
    *job = NULL;
    shim_plan_job(communicator->handle, communicator->ranks, &plan);
    reason = form(communicator, early, &plan, records, statuses, job);
    if (reason == NO_REASON)
        shim_enter_job(*job);
    free((void *)plan.job.places);
    free(records);
    free(statuses);
    return reason;
}
