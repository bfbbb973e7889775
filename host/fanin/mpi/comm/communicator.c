/* The table of communicators. An attribute of each tells when the program frees it. */
#define _GNU_SOURCE
#include "comm/communicator.h"
#include "comm/jobs.h"
#include "abi/pmpi.h"
#include "settings.h"
#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 1024
#define MOST_UNUSED 8  /* joined communicators that are freed unused, before later ones join at their first use */
#define LEAVE_MS 10000 /* for a device to confirm that a job is left */

int shim_active;
static struct communicator *buckets[BUCKETS];
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int keyval;
static handle world_group;

/* The communicator that this thread used last; valid while the table has this generation. */
static __thread struct {
    struct communicator *communicator;
    unsigned generation;
} recent;
static unsigned generation = 1;
static unsigned unused_joins; /* communicators that were freed unused, since the last that was used */

static unsigned bucket_of(handle comm)
{
    return (unsigned)((comm * 0x9e3779b97f4a7c15ull) >> 54) % BUCKETS;
}

static void drop(struct communicator *communicator)
{
    if (communicator->job && !communicator->used)
        __atomic_add_fetch(&unused_joins, 1, __ATOMIC_RELAXED);
    if (communicator->job)
        shim_leave_job(communicator->job);
    free(communicator);
}

void shim_note_use(struct communicator *communicator)
{
    communicator->used = 1;
    __atomic_store_n(&unused_joins, 0, __ATOMIC_RELAXED);
}

int shim_early_join_pays(void)
{
    return __atomic_load_n(&unused_joins, __ATOMIC_RELAXED) < MOST_UNUSED;
}

/* MPI_Comm_delete_attr_function: the communicator is about to be freed. */
static int deleted(handle comm, int key, void *value, void *extra)
{
    struct communicator *communicator, **link;

    (void)key, (void)extra;
    pthread_rwlock_wrlock(&lock);
    link = &buckets[bucket_of(clean(comm))];
    while (*link && *link != value)
        link = &(*link)->next;
    communicator = *link; /* NULL: shim_communicators_end has dropped it */
    if (communicator)
        *link = communicator->next;
    __atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
    pthread_rwlock_unlock(&lock);
    if (communicator)
        drop(communicator);
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
static int is_of_world(handle comm, int ranks)
{
    int *numbers = malloc(2 * (size_t)ranks * sizeof *numbers), inside = numbers != NULL;
    handle group = 0;

    if (!numbers || pmpi.Comm_group(comm, &group))
        abort(); /* a rank can not decide this alone: the others would decide otherwise */
    group = load_handle(&group);
    for (int rank = 0; rank < ranks; rank++)
        numbers[rank] = rank;
    inside = !pmpi.Group_translate_ranks(group, ranks, numbers, world_group, numbers + ranks);
    for (int rank = 0; rank < ranks; rank++)
        inside &= numbers[ranks + rank] != UNDEFINED;
    pmpi.Group_free(&group);
    free(numbers);
    return inside;
}

/* Returns 0 if the handle is no communicator, or one that was freed; the MPI has called an error handler then. */
static int inspect(struct communicator *communicator)
{
    int inter = 0;

    if (pmpi.Comm_size(communicator->handle, &communicator->ranks))
        return 0;
    pmpi.Comm_rank(communicator->handle, &communicator->rank);
    pmpi.Comm_test_inter(communicator->handle, &inter);
    communicator->state = LEFT_TO_MPI;
    if (inter)
        communicator->reason = REASON_INTERCOMM;
    else if (communicator->ranks == 1)
        communicator->reason = REASON_ONE_RANK;
    else if (!is_of_world(communicator->handle, communicator->ranks))
        communicator->reason = REASON_OTHER_WORLD;
    else
        communicator->state = FRESH;
    return 1;
}

static struct communicator *find(handle comm)
{
    struct communicator *communicator = buckets[bucket_of(comm)];

    while (communicator && communicator->handle != comm)
        communicator = communicator->next;
    return communicator;
}

static struct communicator *add(handle comm)
{
    struct communicator *communicator = calloc(1, sizeof *communicator);

    if (!communicator)
        abort();
    communicator->handle = comm;
    if (!inspect(communicator)) {
        free(communicator);
        return NULL;
    }
    pthread_rwlock_wrlock(&lock);
    communicator->next = buckets[bucket_of(comm)];
    buckets[bucket_of(comm)] = communicator;
    pthread_rwlock_unlock(&lock);
    pmpi.Comm_set_attr(comm, keyval, communicator);
    return communicator;
}

struct communicator *shim_communicator(handle comm)
{
    unsigned now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    struct communicator *communicator = recent.communicator;

    if (communicator && recent.generation == now && communicator->handle == comm)
        return communicator;
    pthread_rwlock_rdlock(&lock);
    communicator = find(comm);
    pthread_rwlock_unlock(&lock);
    if (!communicator)
        communicator = add(comm);
    recent.communicator = communicator;
    recent.generation = now;
    return communicator;
}

void shim_join_communicator(struct communicator *communicator, int early)
{
    communicator->reason = REASON_REFUSED;
    communicator->state = shim_form_job(communicator, early, &communicator->job);
}

void shim_communicator_created(handle comm)
{
    struct communicator *communicator;

    if (!shim_active || shim_settings.late || comm == shim_handle(COMM_NULL))
        return;
    communicator = shim_communicator(comm);
    if (communicator && communicator->state == FRESH)
        shim_join_communicator(communicator, 1);
}

void shim_communicators_end(void)
{
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        while (buckets[bucket]) {
            struct communicator *communicator = buckets[bucket];
            buckets[bucket] = communicator->next;
            drop(communicator);
        }
    shim_leave_all_jobs(LEAVE_MS);
    pmpi.Group_free(&world_group);
}
