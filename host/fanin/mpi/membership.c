/* Forming jobs. What all ranks must know to form one goes through the MPI: one exchange before, so that none begins what
 * another can not do, and others until the outcome is known of all, so that all go on together or none does.
 */
#define _GNU_SOURCE
#include "communicator.h"
#include "device.h"
#include "joining.h"
#include "members.h"
#include "pmpi.h"
#include "settings.h"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LARGEST_CHUNK 4096
#define LOOPBACK 127u
#define FEWER_SLOTS 4      /* jobs of smaller communicators, of which there may be many, ask for so many times fewer */

/* What a rank tells the others. */
struct record {
    struct place place;
    uint32_t chunk;            /* that its device can have */
    uint32_t jid, key;         /* random: those of rank 0 count */
    uint32_t host;             /* tells machines apart that have the same loopback addresses */
    uint32_t plenty;           /* joining before any use pays, and its device has half of its queues left for it */
    uint32_t status;           /* enum fanin_status: whether it has the queues for this job */
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
    uint32_t random[2] = {0}, chunk = LARGEST_CHUNK;

    if (getrandom(random, sizeof random, 0) != sizeof random)
        random[0] = (uint32_t)getpid() * 2654435761u;
    while (chunk > fanin_device.limits.max_chunk)
        chunk /= 2;
    *record = (struct record){.place = fanin_device.place, .chunk = chunk, .jid = random[0] ? random[0] : 1,
                              .key = random[1], .host = host_number(),
                              .plenty = fanin_early_pays() &&
                                        fanin_queues_in_use() < fanin_device.limits.max_qp / 2};
}

static int meet(const struct record *one, const struct record *other)
{
    return one->place.address >> 24 != LOOPBACK || one->host == other->host;
}

static void ask_for_fewer_slots(struct description *job)
{
    if (job->slots > FEWER_SLOTS * FEWER_SLOTS)
        job->slots /= FEWER_SLOTS;
}

/* Segments that never leave a node need not fit into packets; of longer ones fewer do. */
static void lengthen_chunk(struct description *job)
{
    for (uint32_t rank = 1; rank < job->ranks; rank++)
        if (job->places[rank].address != job->places[0].address)
            return;
    ask_for_fewer_slots(job);
    job->chunk *= FANIN_LOCAL_CHUNK / LARGEST_CHUNK; /* less where packets are shorter, or a lease would take more */
}

/* The description that follows from the records of all: the same on every rank. */
static int describe_job(const struct record *records, int ranks, int world, struct place *places,
                        struct description *job)
{
    *job = (struct description){.jid = records[0].jid, .key = records[0].key, .route = fanin_settings.route,
                                .chunk = records[0].chunk, .slots = fanin_settings.slots, .ranks = (uint32_t)ranks,
                                .places = places};
    if (!world)
        ask_for_fewer_slots(job);
    for (int rank = 0; rank < ranks; rank++) {
        places[rank] = records[rank].place;
        if (records[rank].chunk < job->chunk)
            job->chunk = records[rank].chunk;
        if (!meet(&records[0], &records[rank]))
            return 0;
    }
    lengthen_chunk(job);
    return 1;
}

static void warn_of(const struct communicator *communicator, const uint32_t *statuses, const char *complaint)
{
    int rank = 0;

    while (rank < communicator->ranks - 1 && !fanin_is_refused(statuses[rank]))
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

/* Communicators that may never be used shall not take the queues of others. */
static int have_plenty(const struct record *records, int ranks)
{
    int plenty = 1;

    for (int rank = 0; rank < ranks; rank++)
        plenty &= records[rank].plenty;
    return plenty;
}

/* Tables of the ranks of a communicator, for the time of forming a job. */
struct tables {
    struct record *records;
    struct place *places;
    uint32_t *statuses;
};

static struct tables new_tables(size_t ranks)
{
    struct tables tables = {calloc(ranks, sizeof *tables.records), calloc(ranks, sizeof *tables.places),
                            calloc(ranks, sizeof *tables.statuses)};

    if (!tables.records || !tables.places || !tables.statuses)
        abort(); /* not a rank's own decision: the others wait for it */
    return tables;
}

static void free_tables(struct tables *tables)
{
    free(tables->records);
    free(tables->places);
    free(tables->statuses);
}

/* All exchanges, and what lies between. Nobody begins to join where a rank is known that can not. */
static enum state form(struct communicator *communicator, int early, struct member *member, struct record *mine,
                       struct tables *tables)
{
    char complaint[MAX_COMPLAINT] = "its nodes have loopback addresses of different machines";
    int ranks = communicator->ranks, world = communicator->handle == fanin_object(COMM_WORLD);
    struct joining joining = {.status = FANIN_INVALID_REQUEST};
    struct description job;
    int code;

    if (fanin_tell_all(mine, tables->records, sizeof *mine, communicator->handle))
        return LEFT_TO_MPI;
    if (early && !have_plenty(tables->records, ranks))
        return FRESH;
    for (int rank = 0; rank < ranks; rank++)
        tables->statuses[rank] = tables->records[rank].status;
    if (all_joined(tables->statuses, ranks)) {
        if (describe_job(tables->records, ranks, world, tables->places, &job)) {
            *complaint = 0;
            fanin_begin_joining(member, &job, (uint32_t)communicator->rank, &joining, complaint);
        }
        code = fanin_await_all(&joining, communicator, tables->statuses);
        fanin_end_joining(member, &joining, (uint32_t)communicator->rank);
        if (code)
            return LEFT_TO_MPI;
    } else {
        *complaint = 0;
    }
    if (all_joined(tables->statuses, ranks))
        return JOINED;
    warn_of(communicator, tables->statuses, complaint);
    return LEFT_TO_MPI;
}

enum state fanin_form_job(struct communicator *communicator, int early, struct member **formed)
{
    struct tables tables = new_tables((size_t)communicator->ranks);
    struct member *member = calloc(1, sizeof *member);
    struct record mine;
    enum state state;

    if (!member)
        abort(); /* as above */
    describe_self(&mine);
    mine.status = early && !mine.plenty ? FANIN_NO_RESOURCES : fanin_find_queues(member);
    state = form(communicator, early, member, &mine, &tables);
    free_tables(&tables);
    if (state == JOINED) {
        fanin_enter_member(member);
        *formed = member;
        return state;
    }
    if (mine.status == FANIN_SUCCESS)
        fanin_destroy_queues(member);
    free(member);
    return state;
}
