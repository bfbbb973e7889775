/* The survivors of a job that has lost a member agree on the members of the next one.
 *
 * First each asks its device for the failure: the program may have learned of the loss in another job of the same
 * ranks.
 *
 * A failure is named by bits, which get coarser with the distance: ranks of the same node learn which process is dead,
 * other nodes learn its node, and nodes beyond a switch only that switch's child. So no rank can decide alone. One of
 * the survivors, the registrar, takes a report of each and gives each the verdict, through pairs: jobs of two ranks
 * (NIC to NIC, or within a node), which need neither the old job nor its switches.
 *
 * The registrar is the first living rank of an order that is the same on all survivors, suspects last. A pair with a
 * dead registrar is lost within the detection time; then the next rank is asked. The id and key of the new job are
 * derived from its members, so ranks with different verdicts never meet in one job.
 * Record 0098 (docs/decisions) says why through one survivor. */
#include "communicator/communicator.h"
#include "complaint.h"
#include "job/identity.h"
#include "job/naming.h"
#include "job/placement.h"
#include "mix.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    NOTICE_MS = 1000, /* for the device to notice in this job a loss that another job has shown */
    GRACE_MS = 2000,  /* for suspects to report: a living rank knows of the failure by then */
    MARGIN_MS = 5000, /* for a message between living ranks */
    MAX_PAIRS = 32,  /* at a time: a device has 64 jobs, of which a client gets at most three quarters */
    PAIR_SLOTS = 8,
    PAIR_CHUNK = 256,
};

/* A job of two ranks, 0 the asker and 1 the registrar. Rank `root` sends the other one a row. */
struct pair {
    struct fanin_communicator *communicator; /* NULL: unused */
    struct fanin_request *request;           /* the row under way; NULL: still joining */
    uint64_t begun, deadline;
    uint32_t other;                          /* rank in the old job */
    uint32_t root;
    uint8_t *row;                            /* a byte for each rank, and whether a switch is lost */
};

/* What is known of a rank; the fields after the first two are the registrar's. */
struct candidate {
    uint8_t is_dead;    /* a rank of its node says that its process has ended */
    uint8_t is_suspect; /* a survivor may believe it lost */
    uint8_t has_reported, is_lost;
    uint8_t had_turn; /* its pair was begun in this phase */
    uint8_t is_heard; /* a rank of its node has reported, and knows the node's dead */
    uint64_t asked;   /* when its pair was begun; 0: not yet */
};

enum phase { ASCERTAINING, SEEKING, REPORTING, LISTENING, COLLECTING, TELLING, DECIDED };

struct agreement {
    enum phase phase;
    uint32_t rank, ranks, number, timeout_ms;
    uint32_t *order;             /* ranks in the order in which they are asked to be registrar */
    uint32_t next;               /* index of the one that is asked */
    uint64_t begun;              /* this phase */
    uint64_t deadline;           /* of this phase, as a rank that asks */
    uint64_t last;               /* deadline of finding a registrar */
    struct candidate *candidates;
    struct fanin_communicator *lost; /* the old job; held until it has told who is lost */
    uint8_t switch_is_lost;      /* of this rank's path: suspects are cut off, not dead */
    uint8_t *verdict;            /* row: 1 for each member */
    uint8_t is_unconfirmed;      /* a device may still write to rows */
    struct pair pairs[MAX_PAIRS];
};

/* ---- Pairs ---- */

static struct fanin_place address_only(const struct fanin_place *place)
{
    return (struct fanin_place){.address = place->address};
}

/* Between nodes a pair is a ring, whose first node notices that the second is dead. */
static enum fanin_status begin_pair(struct fanin_communicator *communicator, enum purpose purpose, uint32_t other,
                                    uint64_t limit_ms)
{
    struct agreement *agreement = communicator->agreement;
    uint32_t is_registrar = agreement->phase == COLLECTING || agreement->phase == TELLING;
    uint32_t registrar = is_registrar ? agreement->rank : other, asker = is_registrar ? other : agreement->rank;
    struct fanin_place places[2] = {address_only(&communicator->job.places[asker]),
                                    address_only(&communicator->job.places[registrar])};
    struct fanin_job job = communicator->job;
    struct pair *pair = agreement->pairs;
    enum fanin_status status;

    while (pair->communicator)
        pair++;
    fanin_identify(&job, purpose, agreement->number, (uint64_t)registrar << 32 | asker);
    job.ranks = 2;
    job.places = places;
    job.route = FANIN_ROUTE_AUTO;
    job.slots = PAIR_SLOTS;
    job.chunk = PAIR_CHUNK; /* short, for a path that loses long packets */
    job.flags = 0;
    pair->begun = fanin_now_ms();
    pair->deadline = pair->begun + limit_ms;
    pair->other = other;
    pair->root = purpose == FOR_VERDICT;
    status = fanin_begin_join(communicator->stream.context, &job, is_registrar, &pair->communicator);
    if (status != FANIN_SUCCESS)
        pair->communicator = NULL;
    return status;
}

static void end_pair(struct agreement *agreement, struct pair *pair, int leaves)
{
    enum fanin_status status;

    if (!pair->communicator)
        return;
    status = leaves ? fanin_leave(pair->communicator, MARGIN_MS) : fanin_withdraw(pair->communicator);
    if (pair->request)
        fanin_free(pair->request);
    agreement->is_unconfirmed |= status != FANIN_SUCCESS;
    pair->communicator = NULL;
    pair->request = NULL;
}

/* Join, then send the row or receive it. After any status but FANIN_PENDING the pair has been given back. */
static enum fanin_status advance_pair(struct agreement *agreement, struct pair *pair)
{
    struct fanin_operation row = {.collective = FANIN_BROADCAST, .root = pair->root, .block = agreement->ranks + 1,
                                  .timeout_ms = MARGIN_MS, .source = pair->row, .destination = pair->row};
    struct fanin_join_reply reply;
    enum fanin_status status;

    if (pair->request) {
        status = fanin_test(pair->request);
    } else {
        status = fanin_await_lease(pair->communicator, &reply, 0);
        if (status == FANIN_SUCCESS)
            status = fanin_start(pair->communicator, &row, &pair->request);
        else if (status == FANIN_PENDING && fanin_now_ms() >= pair->deadline)
            status = FANIN_TIMEOUT;
        if (status == FANIN_SUCCESS)
            status = FANIN_PENDING;
    }
    if (status != FANIN_PENDING)
        end_pair(agreement, pair, status == FANIN_SUCCESS);
    return status;
}

static void write_report(const struct agreement *agreement, uint8_t *row)
{
    for (uint32_t rank = 0; rank < agreement->ranks; rank++)
        row[rank] = agreement->candidates[rank].is_dead;
    row[agreement->ranks] = agreement->switch_is_lost;
}

static void begin_phase(struct agreement *agreement, enum phase phase)
{
    agreement->phase = phase;
    agreement->begun = fanin_now_ms();
    for (uint32_t rank = 0; rank < agreement->ranks; rank++)
        agreement->candidates[rank].had_turn = rank == agreement->rank;
}

/* ---- The failure of the old job ---- */

static void forget_lost(struct agreement *agreement)
{
    if (agreement->lost)
        fanin_release(agreement->lost);
    agreement->lost = NULL;
}

/* Read who is lost. Uses `order` and `verdict` as scratch memory. */
static void take_failure(struct agreement *agreement)
{
    uint32_t *ranks = agreement->order, count = 0, mates = 0;
    uint8_t *suspects = agreement->verdict;
    struct fanin_communicator_state state;
    const struct fanin_job *job = &agreement->lost->job;

    fanin_communicator_state(agreement->lost, &state);
    if (state.ended.status == FANIN_PEER_LOST)
        count = fanin_missing_ranks(job, agreement->rank, state.ended.missing, state.ended.missing_kind, ranks);
    for (uint32_t i = 0; i < count; i++) {
        suspects[ranks[i]] = 1;
        agreement->switch_is_lost |= ranks[i] == agreement->rank; /* everything behind the device above is named */
        mates += job->places[ranks[i]].address == job->places[agreement->rank].address;
    }
    for (uint32_t i = 0; i < count && mates == count && !agreement->switch_is_lost; i++)
        agreement->candidates[ranks[i]].is_dead = 1;
    fanin_widen(job, agreement->rank, suspects);
    for (uint32_t rank = 0; rank < agreement->ranks; rank++)
        agreement->candidates[rank].is_suspect = suspects[rank];
    memset(suspects, 0, agreement->ranks);
}

static void put_in_order(struct agreement *agreement)
{
    uint32_t *at = agreement->order;

    for (uint8_t suspects = 0; suspects < 2; suspects++)
        for (uint32_t rank = 0; rank < agreement->ranks; rank++)
            if (agreement->candidates[rank].is_suspect == suspects)
                *at++ = rank;
}

/* If the job shows no loss in time, no rank is suspect. */
static enum fanin_status ascertain(struct agreement *agreement)
{
    uint64_t patience = agreement->timeout_ms / 2 < NOTICE_MS ? agreement->timeout_ms / 2 : NOTICE_MS;

    if (!fanin_stream_knows_end(&agreement->lost->stream) && fanin_now_ms() - agreement->begun < patience)
        return FANIN_PENDING;
    take_failure(agreement);
    put_in_order(agreement);
    forget_lost(agreement);
    begin_phase(agreement, SEEKING);
    return FANIN_SUCCESS;
}

/* ---- As a rank that asks ---- */

static enum fanin_status seek(struct fanin_communicator *communicator)
{
    struct agreement *agreement = communicator->agreement;
    uint64_t now = fanin_now_ms(), patience = agreement->timeout_ms;
    uint32_t registrar;

    while (agreement->next < agreement->ranks && agreement->candidates[agreement->order[agreement->next]].is_dead)
        agreement->next++;
    if (agreement->next == agreement->ranks || now >= agreement->last) {
        fanin_complain("no other rank has taken a report: "
                       "they are lost, have not called, or went on without this one");
        return FANIN_TIMEOUT;
    }
    registrar = agreement->order[agreement->next];
    if (registrar == agreement->rank) {
        begin_phase(agreement, COLLECTING);
        return FANIN_SUCCESS;
    }
    if (agreement->candidates[registrar].is_suspect && !agreement->switch_is_lost)
        patience = GRACE_MS + MARGIN_MS;
    begin_phase(agreement, REPORTING);
    agreement->deadline = now + patience < agreement->last ? now + patience : agreement->last;
    write_report(agreement, agreement->pairs[0].row);
    return FANIN_SUCCESS;
}

/* Send the report, or wait for the verdict. If the registrar is dead, or went on without this rank, ask the next. */
static enum fanin_status ask(struct fanin_communicator *communicator)
{
    struct agreement *agreement = communicator->agreement;
    enum purpose purpose = agreement->phase == REPORTING ? FOR_REPORT : FOR_VERDICT;
    struct pair *pair = &agreement->pairs[0];
    uint64_t now = fanin_now_ms();
    enum fanin_status status;

    if (!pair->communicator) {
        status = begin_pair(communicator, purpose, agreement->order[agreement->next], agreement->deadline - now);
        status = status == FANIN_SUCCESS ? FANIN_PENDING : status;
    } else {
        status = advance_pair(agreement, pair);
    }
    if (status == FANIN_NO_RESOURCES && now < agreement->deadline)
        return FANIN_PENDING; /* other pairs use them for the moment */
    if (fanin_names_device(status) || status == FANIN_TIMEOUT || status == FANIN_NO_RESOURCES) {
        agreement->next++;
        begin_phase(agreement, SEEKING);
        return FANIN_PENDING;
    }
    if (status != FANIN_SUCCESS)
        return status;
    if (agreement->phase == LISTENING) {
        memcpy(agreement->verdict, pair->row, agreement->ranks + 1);
        begin_phase(agreement, DECIDED);
        return FANIN_SUCCESS;
    }
    begin_phase(agreement, LISTENING);
    agreement->deadline = now + agreement->timeout_ms + GRACE_MS + MARGIN_MS;
    return FANIN_SUCCESS;
}

/* ---- As registrar ---- */

static void take_report(const struct fanin_communicator *communicator, uint32_t from, const uint8_t *row)
{
    struct agreement *agreement = communicator->agreement;
    const struct fanin_place *places = communicator->job.places;

    for (uint32_t rank = 0; rank < agreement->ranks; rank++) {
        agreement->candidates[rank].is_dead |= row[rank];
        agreement->candidates[rank].is_heard |= places[rank].address == places[from].address;
    }
    agreement->candidates[from].has_reported = 1;
    agreement->verdict[agreement->ranks] |= row[agreement->ranks];
}

static int is_doubtful(const struct agreement *agreement, uint32_t rank)
{
    const struct candidate *candidate = &agreement->candidates[rank];

    return candidate->is_suspect && !agreement->switch_is_lost && !candidate->is_heard;
}

/* Whether a rank may still report: suspects have GRACE_MS from the start of their turn. */
static int is_expected(const struct agreement *agreement, uint32_t rank, uint64_t now)
{
    const struct candidate *candidate = &agreement->candidates[rank];

    if (candidate->has_reported || candidate->is_lost || candidate->is_dead)
        return 0;
    return !is_doubtful(agreement, rank) || !candidate->asked || now - candidate->asked <= GRACE_MS;
}

static int is_anybody_expected(const struct agreement *agreement, uint64_t now)
{
    for (uint32_t rank = 0; rank < agreement->ranks; rank++)
        if (is_expected(agreement, rank, now))
            return 1;
    return 0;
}

/* Begin as many pairs as possible. Returns how many ranks still wait for their turn. */
static uint32_t fill_pairs(struct fanin_communicator *communicator, enum purpose purpose, uint64_t limit_ms)
{
    struct agreement *agreement = communicator->agreement;
    enum fanin_status status = FANIN_SUCCESS;
    uint32_t count = 0, waiting = 0;

    for (uint32_t i = 0; i < MAX_PAIRS; i++)
        count += agreement->pairs[i].communicator != NULL;
    for (uint32_t i = 0; i < agreement->ranks; i++) {
        uint32_t rank = agreement->order[i];
        struct candidate *candidate = &agreement->candidates[rank];
        if (candidate->had_turn || (purpose == FOR_VERDICT && !agreement->verdict[rank]))
            continue;
        if (count < MAX_PAIRS && status != FANIN_NO_RESOURCES) {
            status = begin_pair(communicator, purpose, rank, limit_ms);
            candidate->had_turn = status != FANIN_NO_RESOURCES;
            candidate->is_lost |= status != FANIN_NO_RESOURCES && status != FANIN_SUCCESS;
            count += status == FANIN_SUCCESS;
            if (purpose == FOR_REPORT && !candidate->asked)
                candidate->asked = fanin_now_ms();
        }
        waiting += !candidate->had_turn;
    }
    return waiting;
}

/* After FANIN_NO_RESOURCES the rank gets another turn, when other pairs have ended. */
static enum fanin_status advance_in_turn(struct agreement *agreement, struct pair *pair)
{
    enum fanin_status status = pair->communicator ? advance_pair(agreement, pair) : FANIN_PENDING;

    if (status != FANIN_NO_RESOURCES)
        return status;
    agreement->candidates[pair->other].had_turn = 0;
    return FANIN_PENDING;
}

static void begin_collecting(struct fanin_communicator *communicator)
{
    struct agreement *agreement = communicator->agreement;
    uint8_t *row = agreement->pairs[0].row;

    write_report(agreement, row);
    take_report(communicator, agreement->rank, row);
}

static enum fanin_status collect(struct fanin_communicator *communicator)
{
    struct agreement *agreement = communicator->agreement;
    uint32_t others_wait;
    uint64_t now;

    if (!agreement->candidates[agreement->rank].has_reported)
        begin_collecting(communicator);
    others_wait = fill_pairs(communicator, FOR_REPORT, agreement->timeout_ms);
    now = fanin_now_ms();
    for (struct pair *pair = agreement->pairs; pair < agreement->pairs + MAX_PAIRS; pair++) {
        enum fanin_status status = advance_in_turn(agreement, pair);
        if (status == FANIN_SUCCESS)
            take_report(communicator, pair->other, pair->row);
        else if (status != FANIN_PENDING)
            agreement->candidates[pair->other].is_lost = 1;
        else if (pair->communicator && others_wait && !is_expected(agreement, pair->other, now)) {
            agreement->candidates[pair->other].is_lost = 1;
            end_pair(agreement, pair, 0);
        }
    }
    if (now - agreement->begun < agreement->timeout_ms && is_anybody_expected(agreement, now))
        return FANIN_PENDING;
    for (uint32_t i = 0; i < MAX_PAIRS; i++)
        end_pair(agreement, &agreement->pairs[i], 0);
    for (uint32_t rank = 0; rank < agreement->ranks; rank++)
        agreement->verdict[rank] = agreement->candidates[rank].has_reported;
    for (uint32_t i = 0; i < MAX_PAIRS; i++)
        memcpy(agreement->pairs[i].row, agreement->verdict, agreement->ranks + 1);
    begin_phase(agreement, TELLING);
    return FANIN_PENDING;
}

/* If a rank does not take the verdict, the new job fails and names it. */
static enum fanin_status tell(struct fanin_communicator *communicator)
{
    struct agreement *agreement = communicator->agreement;
    uint32_t left = 0;

    if (fanin_now_ms() - agreement->begun < MARGIN_MS)
        left = fill_pairs(communicator, FOR_VERDICT, MARGIN_MS);
    for (uint32_t i = 0; i < MAX_PAIRS; i++) {
        advance_in_turn(agreement, &agreement->pairs[i]);
        left += agreement->pairs[i].communicator != NULL;
    }
    if (!left)
        begin_phase(agreement, DECIDED);
    return FANIN_PENDING;
}

/* ---- The agreement ---- */

static enum fanin_status join_survivors(struct fanin_communicator *communicator)
{
    struct agreement *agreement = communicator->agreement;
    struct fanin_place *places = calloc(agreement->ranks, sizeof *places);
    struct fanin_job job = communicator->job;
    uint64_t members = 0, limit = fanin_now_ms() + agreement->timeout_ms;
    uint32_t rank = 0, count = 0;
    enum fanin_status status;

    if (!places)
        return FANIN_NO_RESOURCES;
    for (uint32_t old = 0; old < agreement->ranks; old++) {
        if (!agreement->verdict[old])
            continue;
        members = mix(members, old);
        if (old == agreement->rank)
            rank = count;
        places[count++] = communicator->job.places[old];
    }
    fanin_identify(&job, FOR_SURVIVORS, agreement->number, members);
    job.ranks = count;
    job.places = places;
    if (agreement->verdict[agreement->ranks])
        job.route = FANIN_ROUTE_RING;
    fanin_end_agreement(communicator);
    communicator->join_by = limit;
    status = fanin_start_join(communicator, &job, rank);
    free(places);
    return status;
}

static enum fanin_status step(struct fanin_communicator *communicator)
{
    enum fanin_status status;

    switch (communicator->agreement->phase) {
    case ASCERTAINING: status = ascertain(communicator->agreement); break;
    case SEEKING: status = seek(communicator); break;
    case REPORTING:
    case LISTENING: status = ask(communicator); break;
    case COLLECTING: status = collect(communicator); break;
    case TELLING: status = tell(communicator); break;
    default: status = join_survivors(communicator);
    }
    return status == FANIN_SUCCESS ? FANIN_PENDING : status;
}

enum fanin_status fanin_agree(struct fanin_communicator *communicator, uint32_t timeout_ms)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    uint64_t deadline = fanin_now_ms() + timeout_ms;
    enum fanin_status status = step(communicator);

    while (status == FANIN_PENDING && communicator->agreement && fanin_now_ms() < deadline) {
        nanosleep(&moment, NULL);
        fanin_progress();
        status = step(communicator);
    }
    return status;
}

void fanin_end_agreement(struct fanin_communicator *communicator)
{
    struct agreement *agreement = communicator->agreement;

    if (!agreement)
        return;
    forget_lost(agreement);
    for (uint32_t i = 0; i < MAX_PAIRS; i++)
        end_pair(agreement, &agreement->pairs[i], 0);
    for (uint32_t i = 0; i < MAX_PAIRS && !agreement->is_unconfirmed; i++)
        free(agreement->pairs[i].row);
    free(agreement->order);
    free(agreement->candidates);
    free(agreement->verdict);
    free(agreement);
    communicator->agreement = NULL;
}

enum fanin_status fanin_begin_agreement(struct fanin_communicator *communicator, struct fanin_communicator *lost,
                                        uint32_t timeout_ms)
{
    uint32_t ranks = lost->job.ranks;
    struct agreement *agreement = calloc(1, sizeof *agreement);

    communicator->agreement = agreement;
    if (!agreement)
        return FANIN_NO_RESOURCES;
    fanin_hold(lost);
    *agreement = (struct agreement){.rank = fanin_rank(lost), .ranks = ranks, .number = lost->shrunk++, .lost = lost,
                                    .timeout_ms = timeout_ms, .last = fanin_now_ms() + 2ull * timeout_ms,
                                    .order = calloc(ranks, sizeof *agreement->order),
                                    .candidates = calloc(ranks, sizeof *agreement->candidates),
                                    .verdict = calloc(ranks + 1, 1)};
    for (uint32_t i = 0; i < MAX_PAIRS; i++)
        if (!(agreement->pairs[i].row = calloc(ranks + 1, 1)))
            return FANIN_NO_RESOURCES;
    if (!agreement->order || !agreement->candidates || !agreement->verdict)
        return FANIN_NO_RESOURCES;
    begin_phase(agreement, ASCERTAINING);
    return fanin_copy_job(communicator, &lost->job);
}
