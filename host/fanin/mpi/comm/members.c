#define _GNU_SOURCE
#include "comm/members.h"
#include "abi/pmpi.h"
#include "comm/device.h"
#include "report.h"
#include "settings.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_CHUNK 4096
#define ALONE_MS 10000     /* of waiting for all ranks, before rank 0 prints a warning */
#define OTHERS_ALONE_MS 60000
#define FEWER_SLOTS 4      /* smaller communicators, of which there may be many, ask for a quarter of the slots */

/* What each rank broadcasts of itself. */
struct member {
    enum fanin_status status;  /* of its device; the rest is valid with one only */
    struct fanin_place place;
    uint32_t chunk;            /* the device's limit */
    uint32_t host;             /* identifies the machine, since loopback addresses do not */
    char name[64];             /* of its host */
    uint32_t cpus;             /* of its host */
    int is_crowded; /* its host has more ranks than CPUs; each rank computes it */
};

static struct member *members;
static int member_count;
static handle world_group;

static void name_host(struct member *member)
{
    char name[256] = {0};

    gethostname(name, sizeof name - 1);
    member->host = 2166136261u;
    for (const char *letter = name; *letter; letter++)
        member->host = (member->host ^ (uint8_t)*letter) * 16777619u;
    snprintf(member->name, sizeof member->name, "%.63s", name);
}

static uint32_t longest_chunk(void)
{
    uint32_t chunk = MAX_CHUNK;

    while (chunk > fanin_limits(shim_device.context)->max_chunk)
        chunk /= 2;
    return chunk;
}

/* All CPUs online, however the launcher binds ranks. */
static uint32_t cpus_of_host(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return cpus > 0 ? (uint32_t)cpus : 1;
}

/* Ranks of a host are mostly consecutive. */
static void find_crowded(void)
{
    for (int rank = 0; rank < member_count; rank++) {
        struct member *member = &members[rank];
        uint32_t ranks = 0;
        if (rank && member[-1].host == member->host) {
            member->is_crowded = member[-1].is_crowded;
            continue;
        }
        for (int other = 0; other < member_count; other++)
            ranks += members[other].host == member->host;
        member->is_crowded = ranks > member->cpus;
    }
}

/* A rank without the shim never answers, so after a while rank 0 prints a warning; later all others, if rank 0 has no
 * shim. */
static int exchange(const struct member *mine, int rank)
{
    int bytes = sizeof *mine, code, done = 0, status[16];
    handle byte = shim_handle(TYPE_BYTE), world = shim_handle(COMM_WORLD), request = 0;
    uint64_t end = fanin_now_ms() + (rank ? OTHERS_ALONE_MS : ALONE_MS);

    if (!pmpi.Iallgather)
        return pmpi.Allgather(mine, bytes, byte, members, bytes, byte, world);
    code = pmpi.Iallgather(mine, bytes, byte, members, bytes, byte, world, &request);
    while (!code && !done) {
        code = pmpi.Test(&request, &done, status);
        if (!done && fanin_now_ms() > end) {
            if (shim_settings.report != REPORT_NONE)
                shim_say("NOT_EVERYWHERE: this rank has waited for %d s in MPI_Init for all ranks to say whether they "
                         "have a device: preload libfanin_mpi.so in all of them or in none",
                         (rank ? OTHERS_ALONE_MS : ALONE_MS) / 1000);
            end = UINT64_MAX;
        }
        sched_yield();
    }
    return code;
}

void shim_exchange_members(enum fanin_status status, int rank, int ranks)
{
    struct member mine = {.status = status, .place = shim_device.place, .cpus = cpus_of_host()};

    name_host(&mine);
    if (status == FANIN_SUCCESS)
        mine.chunk = longest_chunk();
    member_count = ranks;
    members = calloc((size_t)ranks, sizeof *members);
    /* The other ranks would wait for this one. */
    if (!members || exchange(&mine, rank))
        abort();
    find_crowded();
    pmpi.Comm_group(shim_handle(COMM_WORLD), &world_group);
    world_group = load_handle(&world_group);
}

void shim_forget_members(void)
{
    pmpi.Group_free(&world_group);
    free(members);
    members = NULL;
}

enum fanin_status shim_status_of(int rank)
{
    return members[rank].status;
}

const char *shim_host_of(int rank)
{
    return members[rank].name;
}

static int *world_ranks_of(handle comm, int ranks)
{
    int *own = calloc((size_t)ranks * 2, sizeof *own), *in_world = own + ranks;
    handle group = 0;

    if (!own)
        abort(); /* the other ranks would decide differently */
    for (int rank = 0; rank < ranks; rank++) {
        own[rank] = rank;
        in_world[rank] = -1;
    }
    pmpi.Comm_group(comm, &group);
    group = load_handle(&group);
    pmpi.Group_translate_ranks(group, ranks, own, world_group, in_world);
    pmpi.Group_free(&group);
    for (int rank = 0; rank < ranks; rank++)
        own[rank] = in_world[rank];
    return own;
}

/* Loopback addresses do not reach another machine. */
static int can_reach(const struct member *one, const struct member *other)
{
    return !shim_is_loopback(one->place.address) || one->host == other->host;
}

static void ask_for_fewer_slots(struct fanin_job *job)
{
    if (job->slots > FEWER_SLOTS * FEWER_SLOTS)
        job->slots /= FEWER_SLOTS;
}

/* For a communicator whose ranks are all in MPI_COMM_WORLD. */
static void plan_places(const int *world_ranks, struct fanin_place *places, struct plan *plan)
{
    const struct member *first = &members[world_ranks[0]];
    struct fanin_job *job = &plan->job;
    int is_local = 1;

    job->places = places;
    job->chunk = first->chunk;
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        const struct member *member = &members[world_ranks[rank]];
        places[rank] = member->place;
        is_local &= member->place.address == first->place.address;
        if (member->chunk < job->chunk)
            job->chunk = member->chunk;
        plan->is_reachable &= can_reach(first, member);
        plan->is_on_one_host &= shim_is_loopback(member->place.address);
        plan->is_crowded |= member->is_crowded;
    }
    job->flags |= shim_settings.order;
    if (is_local) { /* segments need not fit into packets; longer ones need fewer slots */
        ask_for_fewer_slots(job);
        job->chunk *= FANIN_LOCAL_CHUNK / MAX_CHUNK; /* less with short packets, so that the lease does not grow */
    }
}

void shim_plan_job(handle comm, int ranks, struct plan *plan)
{
    struct fanin_place *places = calloc((size_t)ranks, sizeof *places);
    int *world_ranks = world_ranks_of(comm, ranks);

    if (!places)
        abort(); /* the other ranks would decide differently */
    *plan = (struct plan){.job = {.jid = 1, .route = shim_settings.route, .slots = shim_settings.slots,
                                  .ranks = (uint32_t)ranks},
                          .is_of_world = 1, .is_reachable = 1, .is_on_one_host = 1};
    for (int rank = 0; rank < ranks; rank++)
        plan->is_of_world &= world_ranks[rank] >= 0 && world_ranks[rank] < member_count;
    if (comm != shim_handle(COMM_WORLD))
        ask_for_fewer_slots(&plan->job);
    if (plan->is_of_world)
        plan_places(world_ranks, places, plan);
    else
        free(places);
    free(world_ranks);
}
