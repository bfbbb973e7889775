/* Forming jobs. The ranks exchange through the MPI what each must know, and join. Then they exchange in rounds how
 * each join stands, until all have joined, or one has failed: so all go on together, or none does.
 */
#define _GNU_SOURCE
#include "abi/pmpi.h"
#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/jobs.h"
#include "settings.h"
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define LARGEST_CHUNK 4096
#define FEWER_SLOTS 4      /* there may be many jobs of smaller communicators: each asks for a quarter of the slots */
#define ROUND_MS 100

/* What a rank tells the others. */
struct record {
    struct fanin_place place;
    uint32_t chunk;            /* the longest that its device can have */
    uint32_t jid, key;         /* random: those of rank 0 count */
    uint32_t host;             /* tells machines apart that have the same loopback addresses */
    uint32_t has_queues;       /* half of those of its device */
};

/* Tables of all ranks, while a job is formed. */
struct tables {
    struct record *records;
    struct fanin_place *places;
    uint32_t *statuses;        /* enum fanin_status of each join */
};

static uint32_t host_number(void)
{
    char name[256] = {0};
    uint32_t number = 2166136261u;

    gethostname(name, sizeof name - 1);
    for (const char *letter = name; *letter; letter++)
        number = (number ^ (uint8_t)*letter) * 16777619u;
    return number;
}

static void describe_self(struct record *record)
{
    const struct fanin_attach_reply *limits = fanin_limits(shim_device.context);
    uint32_t random[2] = {0}, chunk = LARGEST_CHUNK;

    if (getrandom(random, sizeof random, 0) != sizeof random)
        random[0] = (uint32_t)getpid() * 2654435761u;
    while (chunk > limits->max_chunk)
        chunk /= 2;
    *record = (struct record){.place = shim_device.place, .chunk = chunk, .jid = random[0] ? random[0] : 1,
                              .key = random[1], .host = host_number(),
                              .has_queues = shim_jobs_in_use() < limits->max_qp / 2};
}

/* Two machines may have the same loopback addresses. */
static int can_reach(const struct record *one, const struct record *other)
{
    return !shim_is_loopback(one->place.address) || one->host == other->host;
}

static void ask_for_fewer_slots(struct fanin_job *job)
{
    if (job->slots > FEWER_SLOTS * FEWER_SLOTS)
        job->slots /= FEWER_SLOTS;
}

/* The description of the job, which is the same on every rank. Returns 0 if the ranks can not reach each other.
 * have_queues: whether all ranks have queues to spare. Only then does a communicator join before it is used. */
static int describe_job(const struct record *records, int ranks, int world, struct fanin_place *places,
                        struct fanin_job *job, int *have_queues)
{
    int local = 1, reachable = 1;

    *job = (struct fanin_job){.jid = records[0].jid, .key = records[0].key, .route = shim_settings.route,
                              .chunk = records[0].chunk, .slots = shim_settings.slots, .ranks = (uint32_t)ranks,
                              .places = places};
    *have_queues = 1;
    for (int rank = 0; rank < ranks; rank++) {
        places[rank] = records[rank].place;
        local &= places[rank].address == places[0].address;
        if (records[rank].chunk < job->chunk)
            job->chunk = records[rank].chunk;
        reachable &= can_reach(&records[0], &records[rank]);
        *have_queues &= (int)records[rank].has_queues;
    }
    if (!world)
        ask_for_fewer_slots(job);
    if (local) { /* segments need not fit into packets, and longer ones need fewer slots */
        ask_for_fewer_slots(job);
        job->chunk *= FANIN_LOCAL_CHUNK / LARGEST_CHUNK; /* less where packets are short, or a lease would take more */
    }
    return reachable;
}

static int tell_all(const void *mine, void *all, size_t bytes, handle comm)
{
    return pmpi.Allgather(mine, (int)bytes, shim_handle(TYPE_BYTE), all, (int)bytes, shim_handle(TYPE_BYTE), comm);
}

/* The rank whose status is that of all: the first that was refused, else one that still waits, else any. */
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

/* Ask this rank's device. Returns FANIN_PENDING if it has been asked. */
static enum fanin_status begin_join(const struct fanin_job *description, uint32_t rank, struct fanin_communicator **job)
{
    enum fanin_status status = fanin_begin_join(shim_device.context, description, rank, job);

    if (status == FANIN_NO_RESOURCES) { /* jobs that are being left may give queues back */
        shim_finish_leaving(SHIM_LEAVE_MS);
        status = fanin_begin_join(shim_device.context, description, rank, job);
    }
    return status == FANIN_SUCCESS ? FANIN_PENDING : status;
}

/* A device answers when all ranks have joined, so the others would wait for one that is refused. Returns whether all
 * have joined; else rank 0 says why not, if the MPI let the ranks tell each other. */
static int await_all(struct fanin_communicator *job, enum fanin_status status, const char *complaint,
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
            return 0;
        decisive = decisive_rank(statuses, communicator->ranks);
    } while (statuses[decisive] == FANIN_PENDING);
    if (statuses[decisive] != FANIN_SUCCESS && communicator->rank == 0)
        shim_warn("%s: a communicator of %d ranks stays with MPI: rank %d could not join its job%s%s",
                  fanin_status_name(statuses[decisive]), communicator->ranks, decisive, *complaint ? ": " : "",
                  complaint);
    return statuses[decisive] == FANIN_SUCCESS;
}

static enum reason form(const struct communicator *communicator, int early, struct tables *tables,
                       struct fanin_communicator **job)
{
    const char *complaint = "its nodes have loopback addresses of different machines";
    int world = communicator->handle == shim_handle(COMM_WORLD), reachable, have_queues;
    enum fanin_status status = FANIN_INVALID_REQUEST;
    struct fanin_job description;
    struct record mine;

    describe_self(&mine);
    if (tell_all(&mine, tables->records, sizeof mine, communicator->handle))
        return REASON_REFUSED;
    reachable = describe_job(tables->records, communicator->ranks, world, tables->places, &description, &have_queues);
    if (early && !have_queues)
        return REASON_NOT_JOINED;
    if (reachable) {
        status = begin_join(&description, (uint32_t)communicator->rank, job);
        complaint = status == FANIN_INVALID_REQUEST ? fanin_complaint() : "";
    }
    if (await_all(*job, status, complaint, communicator, tables->statuses))
        return NO_REASON;
    if (*job)
        fanin_abandon(*job);
    return REASON_REFUSED;
}

enum reason shim_form_job(const struct communicator *communicator, int early, struct fanin_communicator **job)
{
    size_t ranks = (size_t)communicator->ranks;
    struct tables tables = {calloc(ranks, sizeof *tables.records), calloc(ranks, sizeof *tables.places),
                            calloc(ranks, sizeof *tables.statuses)};
    enum reason reason;

    if (!tables.records || !tables.places || !tables.statuses)
        abort(); /* a rank can not decide this alone: the others wait for it */
    *job = NULL;
    reason = form(communicator, early, &tables, job);
    if (reason == NO_REASON)
        shim_enter_job(*job);
    free(tables.records);
    free(tables.places);
    free(tables.statuses);
    return reason;
}
