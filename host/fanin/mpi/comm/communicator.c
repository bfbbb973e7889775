/* The entry of a communicator is an attribute of it, so the MPI tells when the program frees it. */
#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/jobs.h"
#include "comm/members.h"
#include "abi/pmpi.h"
#include "settings.h"
#include <stdlib.h>
#include <string.h>

/* Calls, or bytes of calls, that take an MPI as long as forming a job: some milliseconds. */
#define WORTH_CALLS 64
#define WORTH_BYTES (4 << 20)
#define MIN_BACKOFF 1024 /* calls before a communicator asks again for a job; doubled each time */

int shim_active;
static int keyval;
static void (*forget)(handle comm);

__thread struct recent shim_recents[SHIM_RECENTS] __attribute__((tls_model("initial-exec")));
unsigned shim_generation = 1;

int shim_is_worth_a_job(struct communicator *communicator, uint64_t bytes)
{
    communicator->calls++;
    communicator->bytes += bytes;
    return shim_settings.join != JOIN_AUTO || communicator->calls > WORTH_CALLS || communicator->bytes > WORTH_BYTES;
}

int shim_may_retry(struct communicator *communicator)
{
    if (++communicator->without_room < communicator->backoff)
        return 0;
    communicator->reason = REASON_NOT_JOINED;
    return 1;
}

/* MPI_Comm_delete_attr_function: the communicator will be freed. */
static int deleted(handle comm, int key, void *value, void *extra)
{
    struct communicator *communicator = value;

    (void)key, (void)extra;
    forget(clean(comm));
    __atomic_add_fetch(&shim_generation, 1, __ATOMIC_RELEASE);
    if (communicator->job && shim_active) /* otherwise MPI_Finalize has left all jobs */
        shim_leave_job(communicator->job);
    free(communicator);
    return 0;
}

/* MPI_Comm_copy_attr_function: a duplicate gets its own entry. */
static int not_copied(handle comm, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return 0;
}

void shim_communicators_begin(void (*forgets)(handle comm))
{
    forget = forgets;
    pmpi.Comm_create_keyval((void *)not_copied, (void *)deleted, &keyval, NULL);
}

/* A job that its devices would refuse has no route. */
static struct setting setting_of(const struct plan *plan, int rank)
{
    struct setting setting = {FANIN_ROUTE_AUTO, plan->job.ranks, plan->is_on_one_host, plan->is_crowded};
    struct fanin_join join;

    if (fanin_describe(&plan->job, (uint32_t)rank, &join) == FANIN_SUCCESS)
        /* the job's route: only some nodes may be in a ring below the tree */
        setting.route = join.flags & FANIN_JOB_FIXED_START ? FANIN_ROUTE_TREE : join.route;
    return setting;
}

/* The sizes to offload in a setting; remembers the last one, since reading the text is the slowest part of a new
 * communicator. */
static void find_ranges(const struct setting *setting, struct range *ranges)
{
    static __thread struct setting last;
    static __thread struct range found[RANGE_COUNT];

    if (!last.ranks || memcmp(setting, &last, sizeof last)) {
        memset(found, 0, sizeof found);
        shim_read_thresholds(shim_settings.thresholds, setting, found);
        last = *setting;
    }
    memcpy(ranges, found, sizeof found);
}

static void plan(struct communicator *communicator)
{
    struct plan plan;

    shim_plan_job(communicator->handle, communicator->ranks, &plan);
    communicator->reason = plan.is_of_world ? REASON_NOT_JOINED : REASON_OTHER_WORLD;
    if (plan.is_of_world) {
        communicator->setting = setting_of(&plan, communicator->rank);
        find_ranges(&communicator->setting, communicator->ranges);
    }
    free((void *)plan.job.places);
}

static struct communicator *add(handle comm)
{
    struct communicator *communicator = calloc(1, sizeof *communicator);
    int inter = 0;

    if (!communicator)
        abort(); /* the other ranks would decide differently */
    communicator->handle = comm;
    pmpi.Comm_size(comm, &communicator->ranks);
    pmpi.Comm_rank(comm, &communicator->rank);
    pmpi.Comm_test_inter(comm, &inter);
    if (inter)
        communicator->reason = REASON_INTERCOMM;
    else if (communicator->ranks == 1)
        communicator->reason = REASON_ONE_RANK;
    else
        plan(communicator);
    pmpi.Comm_set_attr(comm, keyval, communicator);
    return communicator;
}

struct communicator *shim_communicator(handle comm)
{
    unsigned generation = __atomic_load_n(&shim_generation, __ATOMIC_ACQUIRE);
    struct communicator *communicator = shim_recent_communicator(comm);
    int found;

    if (communicator)
        return communicator;
    if (pmpi.Comm_get_attr(comm, keyval, &communicator, &found))
        return NULL; /* the MPI has called its error handler */
    if (!found)
        communicator = add(comm);
    *shim_recent(comm) = (struct recent){communicator, generation};
    return communicator;
}

void shim_join_communicator(struct communicator *communicator, int early)
{
    communicator->is_to_join = 0;
    communicator->reason = shim_form_job(communicator, early, &communicator->job);
    communicator->without_room = 0;
    if (communicator->reason != REASON_NO_ROOM)
        return;
    communicator->has_order_of_mpi = 1; /* the MPI computes its sums meanwhile */
    communicator->backoff = communicator->backoff ? 2 * communicator->backoff : MIN_BACKOFF;
}

void shim_communicator_created(handle comm)
{
    struct communicator *communicator;

    if (!shim_active || shim_settings.join != JOIN_EARLY || comm == shim_handle(COMM_NULL))
        return;
    communicator = shim_communicator(comm);
    if (communicator && communicator->reason == REASON_NOT_JOINED)
        shim_join_communicator(communicator, 1);
}

void shim_name_path(char *words, size_t capacity)
{
    struct communicator *world = shim_communicator(shim_handle(COMM_WORLD));
    uint32_t mtu = fanin_limits(shim_device.context)->mtu;
    struct plan plan;

    *words = 0;
    if (world && world->job) {
        fanin_name_path_of(world->job, words, capacity);
    } else if (world && world->ranks > 1) {
        shim_plan_job(world->handle, world->ranks, &plan);
        fanin_name_path(&plan.job, (uint32_t)world->rank, plan.job.chunk, mtu, words, capacity);
        free((void *)plan.job.places);
    }
}

void shim_communicators_end(void)
{
    shim_leave_all_jobs();
}
