/* Forming jobs and leaving them. What all ranks must know to form one goes through the MPI: one exchange before, so that
 * none begins what another can not do, and one after, so that all go on together or none does.
 */
#define _GNU_SOURCE
#include "membership.h"
#include "communicator.h"
#include "device.h"
#include "pmpi.h"
#include "settings.h"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LEAVE_MS 10000
#define LARGEST_CHUNK 4096
#define LOOPBACK 127u
#define FEWER_SLOTS 4      /* the jobs of smaller communicators ask for so many times fewer: there may be many */

/* What a rank tells the others. */
struct record {
    struct place place;
    uint32_t chunk;            /* that its device can have */
    uint32_t jid, key;         /* random: those of rank 0 count */
    uint32_t host;             /* tells machines apart that have the same loopback addresses */
    uint32_t spare;            /* queues that its device has for it */
};

static struct member *members;  /* that have not ended */
static struct member *leaving;
static uint32_t queues;         /* in use */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
    uint32_t random[2] = {0}, chunk = LARGEST_CHUNK;

    if (getrandom(random, sizeof random, 0) != sizeof random)
        random[0] = (uint32_t)getpid() * 2654435761u;
    while (chunk > fanin_device.limits.max_chunk)
        chunk /= 2;
    *record = (struct record){.place = fanin_device.place, .chunk = chunk, .jid = random[0] ? random[0] : 1,
                              .key = random[1], .host = host_number(),
                              .spare = fanin_device.limits.max_qp - __atomic_load_n(&queues, __ATOMIC_RELAXED)};
}

static int exchange(const void *mine, void *all, size_t bytes, handle comm)
{
    return pmpi.Allgather(mine, (int)bytes, fanin_object(TYPE_BYTE), all, (int)bytes, fanin_object(TYPE_BYTE), comm);
}

static int meet(const struct record *one, const struct record *other)
{
    return one->place.address >> 24 != LOOPBACK || one->host == other->host;
}

/* The description that follows from the records of all: the same on every rank. */
static int describe_job(const struct record *records, int ranks, int world, struct place *places,
                        struct description *job)
{
    *job = (struct description){.jid = records[0].jid, .key = records[0].key, .route = fanin_settings.route,
                                .chunk = records[0].chunk, .slots = fanin_settings.slots, .ranks = (uint32_t)ranks,
                                .places = places};
    if (!world && job->slots > FEWER_SLOTS * FEWER_SLOTS)
        job->slots /= FEWER_SLOTS;
    for (int rank = 0; rank < ranks; rank++) {
        places[rank] = records[rank].place;
        if (records[rank].chunk < job->chunk)
            job->chunk = records[rank].chunk;
        if (!meet(&records[0], &records[rank]))
            return 0;
    }
    return 1;
}

static enum fanin_status make_queues(struct member *member)
{
    uint32_t cq, qp;
    enum fanin_status status = fanin_create_cq(fanin_device.context, &cq);

    if (status != FANIN_SUCCESS)
        return status;
    status = fanin_create_qp(fanin_device.context, cq, &qp);
    if (status != FANIN_SUCCESS) {
        fanin_destroy_cq(fanin_device.context, cq);
        return status;
    }
    member->stream.cq = cq;
    member->stream.qp = qp;
    __atomic_add_fetch(&queues, 1, __ATOMIC_RELAXED);
    return FANIN_SUCCESS;
}

static void destroy_queues(struct member *member)
{
    fanin_destroy_qp(fanin_device.context, member->stream.qp);
    fanin_destroy_cq(fanin_device.context, member->stream.cq);
    __atomic_sub_fetch(&queues, 1, __ATOMIC_RELAXED);
}

static void remember_terms(struct member *member, const struct fanin_join *join, uint32_t chunk, uint32_t rank)
{
    uint32_t nodes = join->node_count < 64 ? join->node_count : 64;

    member->terms = (struct terms){.jid = join->jid, .chunk = chunk, .route = join->route, .rank = rank,
                                   .node_bitmap = ~0ull >> (64 - nodes), .rank_bitmap = join->rank_bitmap};
}

static enum fanin_status join_job(struct member *member, struct fanin_join *join, uint32_t rank)
{
    struct fanin_join_reply reply = {.chunk = join->chunk};
    struct fanin_request *request;
    enum fanin_status status;

    join->qp = member->stream.qp;
    status = fanin_join(fanin_device.context, join, &request);
    if (status != FANIN_SUCCESS)
        return status;
    status = fanin_await(request, &reply, fanin_settings.join_ms);
    fanin_forget(request);
    if (status != FANIN_SUCCESS)
        return status == FANIN_PENDING ? FANIN_TIMEOUT : status;
    fanin_stream_begin(&member->stream, fanin_device.context, join->qp, member->stream.cq, &reply);
    remember_terms(member, join, reply.chunk ? reply.chunk : join->chunk, rank);
    return FANIN_SUCCESS;
}

/* This rank's part. Whether the others have done theirs is not known yet. */
static enum fanin_status try_to_join(struct member *member, const struct description *job, uint32_t rank,
                                     char *complaint)
{
    struct fanin_join join;
    enum fanin_status status = fanin_mpi_membership(job, rank, &join, complaint);

    if (status != FANIN_SUCCESS)
        return status;
    status = make_queues(member);
    if (status == FANIN_NO_RESOURCES) { /* those of jobs that were left may come free */
        fanin_finish_leaving(LEAVE_MS);
        status = make_queues(member);
    }
    if (status != FANIN_SUCCESS)
        return status;
    status = join_job(member, &join, rank);
    if (status != FANIN_SUCCESS)
        destroy_queues(member);
    return status;
}

static void warn_of(const struct communicator *communicator, const uint32_t *statuses, const char *complaint)
{
    int rank = 0;

    while (rank < communicator->ranks - 1 && statuses[rank] == FANIN_SUCCESS)
        rank++;
    if (communicator->rank == 0)
        fanin_warn("%s: a communicator of %d ranks stays with MPI: rank %d could not join its job%s%s",
                   fanin_status_name(statuses[rank]), communicator->ranks, rank, *complaint ? ": " : "", complaint);
}

static int all_joined(const uint32_t *statuses, int ranks)
{
    int joined = 1;

    for (int rank = 0; rank < ranks; rank++)
        joined &= statuses[rank] == FANIN_SUCCESS;
    return joined;
}

static void enter(struct member *member)
{
    pthread_mutex_lock(&lock);
    member->next = members;
    members = member;
    pthread_mutex_unlock(&lock);
}

/* Whether each rank has half of its queues left: communicators that may never be used shall not take those of others. */
static int have_plenty(const struct record *records, int ranks)
{
    int plenty = 1;

    for (int rank = 0; rank < ranks; rank++)
        plenty &= records[rank].spare > fanin_device.limits.max_qp / 2;
    return plenty;
}

enum state fanin_form_job(struct communicator *communicator, int early, struct member **formed)
{
    size_t ranks = (size_t)communicator->ranks;
    struct record mine, *records = calloc(ranks, sizeof *records);
    struct place *places = calloc(ranks, sizeof *places);
    uint32_t *statuses = calloc(ranks, sizeof *statuses), status = FANIN_INVALID_REQUEST;
    struct member *member = calloc(1, sizeof *member);
    char complaint[MAX_COMPLAINT] = "its nodes have loopback addresses of different machines";
    struct description job;
    int world = communicator->handle == fanin_object(COMM_WORLD), joined = 0, postponed = 0;

    if (!records || !places || !statuses || !member)
        abort(); /* not a rank's own decision: the others wait for it */
    describe_self(&mine);
    if (exchange(&mine, records, sizeof mine, communicator->handle) == 0 &&
        !(postponed = early && !have_plenty(records, communicator->ranks))) {
        if (describe_job(records, communicator->ranks, world, places, &job)) {
            *complaint = 0;
            status = try_to_join(member, &job, (uint32_t)communicator->rank, complaint);
        }
        joined = exchange(&status, statuses, sizeof status, communicator->handle) == 0 &&
                 all_joined(statuses, communicator->ranks);
        if (!joined) {
            warn_of(communicator, statuses, complaint);
            if (status == FANIN_SUCCESS)
                destroy_queues(member);
        }
    }
    if (joined)
        enter(member);
    else
        free(member);
    free(records);
    free(places);
    free(statuses);
    if (joined)
        *formed = member;
    return joined ? JOINED : postponed ? FRESH : LEFT_TO_MPI;
}

static void unlink_member(struct member **list, const struct member *member)
{
    while (*list && *list != member)
        list = &(*list)->next;
    if (*list)
        *list = member->next;
}

/* What is under way is done first. Returns whether the device has been told. */
static int begin_leaving(struct member *member)
{
    int drained;

    if (member->leave)
        return 1;
    fanin_stream_advance(&member->stream);
    pthread_mutex_lock(&member->stream.lock);
    drained = !member->stream.first;
    pthread_mutex_unlock(&member->stream.lock);
    return drained && fanin_leave(fanin_device.context, member->stream.qp, &member->leave) == FANIN_SUCCESS;
}

static void end_member(struct member *member)
{
    destroy_queues(member);
    pthread_mutex_destroy(&member->stream.lock);
    free(member);
}

/* The members that have been left come off the list one by one as the device confirms, or at `deadline`. */
static void reap(uint32_t timeout_ms)
{
    struct member *left, *kept = NULL;

    pthread_mutex_lock(&lock);
    left = leaving;
    leaving = NULL;
    pthread_mutex_unlock(&lock);
    while (left) {
        struct member *member = left;
        struct fanin_join_reply reply;
        left = member->next;
        int told = begin_leaving(member), gone = told && fanin_await(member->leave, &reply, timeout_ms) != FANIN_PENDING;
        if (!gone && !timeout_ms) {
            member->next = kept;
            kept = member;
            continue;
        }
        if (told)
            fanin_forget(member->leave);
        end_member(member);
    }
    pthread_mutex_lock(&lock);
    while (kept) {
        struct member *member = kept;
        kept = member->next;
        member->next = leaving;
        leaving = member;
    }
    pthread_mutex_unlock(&lock);
}

/* Does not wait: others may leave much later. What the device has confirmed meanwhile is given back. */
void fanin_leave_job(struct member *member)
{
    pthread_mutex_lock(&lock);
    unlink_member(&members, member);
    member->next = leaving;
    leaving = member;
    pthread_mutex_unlock(&lock);
    reap(0);
}

void fanin_leave_all(void)
{
    while (members)
        fanin_leave_job(members);
}

void fanin_finish_leaving(unsigned timeout_ms)
{
    reap(timeout_ms);
}

void fanin_abandon_job(struct member *member)
{
    fanin_destroy_qp(fanin_device.context, member->stream.qp);
}

void fanin_advance_all(void)
{
    pthread_mutex_lock(&lock);
    for (struct member *member = members; member; member = member->next)
        fanin_stream_advance(&member->stream);
    pthread_mutex_unlock(&lock);
}
