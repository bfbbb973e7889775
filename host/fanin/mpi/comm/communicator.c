/* An attribute of each communicator of the MPI is its entry here, and tells when the program frees it. */
#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/jobs.h"
#include "abi/pmpi.h"
#include "settings.h"
#include <stdlib.h>

/* Calls, or bytes of calls, that take an MPI some milliseconds, as forming a job does. */
#define WORTH_CALLS 64
#define WORTH_BYTES (4 << 20)

int shim_active;
static int keyval;
static handle world_group;

#define RECENT 16 /* a power of two. Programs use several in turn: rows, columns, all */

/* Communicators that this thread has used, by their handles; valid while none has been freed since, which makes a new
 * generation. Asking the MPI takes as long as a short call. */
struct recent {
    struct communicator *communicator;
    unsigned generation;
};
static __thread __attribute__((tls_model("initial-exec"))) struct recent recents[RECENT];
static unsigned generation = 1;

static struct recent *recent_of(handle comm)
{
    return &recents[(comm * 0x9e3779b97f4a7c15ull >> 60) % RECENT];
}

int shim_is_worth_a_job(struct communicator *communicator, uint64_t bytes)
{
    communicator->calls++;
    communicator->bytes += bytes;
    return shim_settings.join != JOIN_AUTO || communicator->calls > WORTH_CALLS || communicator->bytes > WORTH_BYTES;
}

/* MPI_Comm_delete_attr_function: the communicator is about to be freed. */
static int deleted(handle comm, int key, void *value, void *extra)
{
    struct communicator *communicator = value;

    (void)comm, (void)key, (void)extra;
    __atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
    if (communicator->job && shim_active) /* else MPI_Finalize has left all jobs */
        shim_leave_job(communicator->job);
    free(communicator);
    return 0;
}

/* MPI_Comm_copy_attr_function: a duplicate gets an entry of its own. */
static int not_copied(handle comm, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return 0;
}

void shim_communicators_begin(void)
{
    pmpi.Comm_create_keyval((void *)not_copied, (void *)deleted, &keyval, NULL);
    pmpi.Comm_group(shim_handle(COMM_WORLD), &world_group);
    world_group = load_handle(&world_group);
}

/* Whether all ranks of a communicator are in this MPI_COMM_WORLD. Others have agreed on nothing with this rank. */
static int is_of_world(handle comm)
{
    handle group = 0, others = 0;
    int count = 0;

    pmpi.Comm_group(comm, &group);
    group = load_handle(&group);
    pmpi.Group_difference(group, world_group, &others);
    others = load_handle(&others);
    pmpi.Group_size(others, &count);
    pmpi.Group_free(&group);
    if (count) /* else it is MPI_GROUP_EMPTY, which is no new group */
        pmpi.Group_free(&others);
    return !count;
}

static int is_on_one_host(const struct fanin_communicator *job)
{
    const struct fanin_job *description = fanin_job_of(job);

    for (uint32_t rank = 0; rank < description->ranks; rank++)
        if (!shim_is_loopback(description->places[rank].address))
            return 0;
    return 1;
}

struct setting shim_setting(const struct communicator *communicator)
{
    struct fanin_join join;
    uint32_t route;

    if (fanin_describe(fanin_job_of(communicator->job), (uint32_t)communicator->rank, &join) != FANIN_SUCCESS)
        abort(); /* without memory; a rank can not decide this alone */
    /* of the job: this rank's node may be in a ring below the tree, and others not */
    route = join.flags & FANIN_JOB_FIXED_START ? FANIN_ROUTE_TREE : join.route;
    return (struct setting){route, (uint32_t)communicator->ranks, is_on_one_host(communicator->job)};
}

/* The sizes that may be offloaded, as far as they are known before a communicator joins: below one device all routes
 * are local. Equal on all its ranks. */
static void expect_thresholds(struct communicator *communicator)
{
    handle world = shim_handle(COMM_WORLD);
    const struct communicator *all = communicator->handle == world ? NULL : shim_communicator(world);
    struct setting setting = {FANIN_ROUTE_AUTO, 0, 0};

    if (all && all->job)
        setting = shim_setting(all);
    setting.ranks = (uint32_t)communicator->ranks;
    if (setting.route == FANIN_ROUTE_LOCAL)
        shim_read_thresholds(shim_settings.thresholds, &setting, communicator->ranges);
    else
        shim_read_widest_thresholds(shim_settings.thresholds, setting.ranks, communicator->ranges);
}

static struct communicator *add(handle comm)
{
    struct communicator *communicator = calloc(1, sizeof *communicator);
    int inter = 0;

    if (!communicator)
        abort(); /* a rank can not decide this alone: the others would decide otherwise */
    communicator->handle = comm;
    pmpi.Comm_size(comm, &communicator->ranks);
    pmpi.Comm_rank(comm, &communicator->rank);
    pmpi.Comm_test_inter(comm, &inter);
    if (inter)
        communicator->reason = REASON_INTERCOMM;
    else if (communicator->ranks == 1)
        communicator->reason = REASON_ONE_RANK;
    else if (!is_of_world(comm))
        communicator->reason = REASON_OTHER_WORLD;
    else
        communicator->reason = REASON_NOT_JOINED;
    if (communicator->reason == REASON_NOT_JOINED)
        expect_thresholds(communicator);
    pmpi.Comm_set_attr(comm, keyval, communicator);
    return communicator;
}

struct communicator *shim_communicator(handle comm)
{
    unsigned now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    struct recent *recent = recent_of(comm);
    struct communicator *communicator = recent->communicator;
    int found;

    if (communicator && recent->generation == now && communicator->handle == comm)
        return communicator;
    if (pmpi.Comm_get_attr(comm, keyval, &communicator, &found))
        return NULL; /* the MPI has called an error handler */
    if (!found)
        communicator = add(comm);
    recent->communicator = communicator;
    recent->generation = now;
    return communicator;
}

void shim_join_communicator(struct communicator *communicator, int early)
{
    struct setting setting;

    communicator->reason = shim_form_job(communicator, early, &communicator->job);
    if (communicator->reason != NO_REASON)
        return;
    setting = shim_setting(communicator);
    shim_read_thresholds(shim_settings.thresholds, &setting, communicator->ranges);
}

void shim_communicator_created(handle comm)
{
    enum join join = shim_settings.join;
    struct communicator *communicator;

    if (!shim_active || comm == shim_handle(COMM_NULL))
        return;
    if (join == JOIN_LATE || (join == JOIN_AUTO && comm != shim_handle(COMM_WORLD)))
        return;
    communicator = shim_communicator(comm);
    if (communicator && communicator->reason == REASON_NOT_JOINED)
        shim_join_communicator(communicator, 1);
}

void shim_communicators_end(void)
{
    shim_leave_all_jobs();
    pmpi.Group_free(&world_group);
}
