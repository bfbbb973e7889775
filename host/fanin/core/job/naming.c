/* The members that a completion names, and the path of a job, in words. */
#include "job/naming.h"
#include "complaint.h"
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_NAMED 8      /* ranks in a text */
#define MAX_TEXT 640  /* with so many names */
#define MAX_COMPLAINT 200

struct text {
    char bytes[MAX_TEXT];
    size_t length;
};

struct address_text {
    char bytes[INET_ADDRSTRLEN];
};

__attribute__((format(printf, 2, 3))) static void append(struct text *text, const char *format, ...)
{
    size_t room = sizeof text->bytes - text->length;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->bytes + text->length, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->length += (size_t)length < room ? (size_t)length : room - 1;
}

static struct address_text text_of(uint32_t address)
{
    struct in_addr network = {htonl(address)};
    struct address_text text;

    inet_ntop(AF_INET, &network, text.bytes, sizeof text.bytes);
    return text;
}

static struct address_text address_of(const struct fanin_job *job, uint32_t rank)
{
    return text_of(job->places[rank].address);
}

static int is_switch(const struct fanin_job *job, uint32_t address)
{
    for (uint32_t rank = 0; rank < job->ranks; rank++)
        for (uint32_t level = 0; level < job->places[rank].hops; level++)
            if (job->places[rank].hop[level] == address)
                return 1;
    return 0;
}

static void append_device(struct text *text, const struct fanin_job *job, uint32_t rank, uint32_t address)
{
    const struct fanin_place *own = &job->places[rank];

    if (is_switch(job, address))
        append(text, "the switch %s%s", text_of(address).bytes,
               own->hops && own->hop[0] == address ? " above this node's NIC" : "");
    else
        append(text, "%s NIC %s", address == own->address ? "this node's" : "the", text_of(address).bytes);
}

int fanin_names_device(uint32_t status)
{
    return status == FANIN_PEER_LOST || status == FANIN_PATH_MTU;
}

static void append_lost_device(struct text *text, const struct fanin_job *job, uint32_t rank,
                               const struct fanin_cqe *cqe)
{
    int is_path = cqe->status == FANIN_PATH_MTU;

    append(text, is_path ? "packets with data do not reach or leave " : "");
    append_device(text, job, rank, cqe->lost_device);
    append(text, is_path ? ", headers do" : " does not answer, or was restarted");
}

static void append_ranks(struct text *text, const struct fanin_job *job, const uint32_t *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        append(text, "%srank %u (node %s)", i ? ", " : "", ranks[i], address_of(job, ranks[i]).bytes);
}

/* How many of the ranks from `first` on are on its node. */
static uint32_t count_beside(const struct fanin_job *job, const uint32_t *ranks, uint32_t first, uint32_t count)
{
    uint32_t beside = 0;

    for (uint32_t i = first; i < count; i++)
        beside += job->places[ranks[i]].address == job->places[ranks[first]].address;
    return beside;
}

/* Nodes, each with its ranks. */
static void append_nodes(struct text *text, const struct fanin_job *job, const uint32_t *ranks, uint32_t count)
{
    for (uint32_t first = 0; first < count; first++) {
        uint32_t address = job->places[ranks[first]].address, before = 0, listed = 0;
        while (before < first && job->places[ranks[before]].address != address)
            before++;
        if (before < first)
            continue; /* the node has been named */
        append(text, "%snode %s (%s ", first ? ", " : "", address_of(job, ranks[first]).bytes,
               count_beside(job, ranks, first, count) > 1 ? "ranks" : "rank");
        for (uint32_t i = first; i < count; i++)
            if (job->places[ranks[i]].address == address)
                append(text, "%s%u", listed++ ? ", " : "", ranks[i]);
        append(text, ")");
    }
}

/* `words`, then the ranks, the first `named` of them by name. */
static void append_members(struct text *text, const char *words, int by_node, const struct fanin_job *job,
                           const uint32_t *ranks, uint32_t count, uint32_t named)
{
    append(text, "%s", words);
    (by_node ? append_nodes : append_ranks)(text, job, ranks, named);
    if (!named)
        append(text, "%u ranks", count);
    else if (named < count)
        append(text, ", %u more%s", count - named, by_node ? " ranks" : "");
}

/* Remove `rank` itself. Returns how many are left. */
static uint32_t without(uint32_t rank, const uint32_t *ranks, uint32_t count, uint32_t *others)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < count; i++)
        if (ranks[i] != rank)
            others[left++] = ranks[i];
    return left;
}

/* The ranks, at most `most` of them by name. ranks: the `count` that the completion names, then the `others`. */
static void append_missing(struct text *text, const struct fanin_job *job, const struct fanin_cqe *cqe,
                           const uint32_t *ranks, uint32_t count, uint32_t others, uint32_t most)
{
    int knows_ranks = !cqe->missing_kind || count == 1; /* of other nodes devices name the node only */
    int is_path = cqe->status == FANIN_PATH_MTU;
    int is_cut_off = cqe->status == FANIN_PEER_LOST && is_switch(job, cqe->lost_device);

    if (cqe->status == FANIN_OP_MISMATCH)
        append_members(text, "noticed at: ", 0, job, ranks, count, count < most ? count : most);
    else if (is_path)
        append_members(text, "from: ", 1, job, ranks, count, count < most ? count : most);
    else if (is_cut_off)
        append_members(text, "cut off: ", 1, job, ranks + count, others, others < most ? others : most);
    else if (!others)
        append(text, "the others waited for this rank");
    else
        append_members(text, knows_ranks ? "missing: " : "missing on: ", !knows_ranks, job, ranks + count, others,
                       others < most ? others : most);
}

void fanin_name_members(const struct fanin_job *job, uint32_t rank, const struct fanin_cqe *cqe, char *words,
                        size_t capacity)
{
    uint32_t *ranks = malloc(2 * job->ranks * sizeof *ranks), most = MAX_NAMED, count, others;
    struct text text, device = {.length = 0};

    if (fanin_names_device(cqe->status) && cqe->lost_device)
        append_lost_device(&device, job, rank, cqe);
    count = ranks ? fanin_missing_ranks(job, rank, cqe->missing, cqe->missing_kind, ranks) : 0;
    others = count ? without(rank, ranks, count, ranks + count) : 0;
    do {
        text = device;
        if (count && device.length)
            append(&text, "; ");
        if (count)
            append_missing(&text, job, cqe, ranks, count, others, most);
    } while (text.length >= capacity && most--);
    free(ranks);
    snprintf(words, capacity, "%s", text.bytes);
}

void fanin_complain_of(const struct fanin_job *job, uint32_t rank, const struct fanin_cqe *cqe)
{
    char words[MAX_COMPLAINT];

    fanin_name_members(job, rank, cqe, words, sizeof words);
    fanin_complain("%s", words);
}

static void append_nics(struct text *text, const struct fanin_job *job)
{
    uint32_t nics = 0, named = 0;

    for (uint32_t pass = 0; pass < 2; pass++) {
        if (pass)
            append(text, nics == 1 ? "NIC " : "%u NICs: ", nics);
        for (uint32_t rank = 0; rank < job->ranks; rank++) {
            uint32_t before = 0;
            while (before < rank && job->places[before].address != job->places[rank].address)
                before++;
            nics += !pass && before == rank;
            if (pass && before == rank && named < MAX_NAMED)
                append(text, "%s%s", named++ ? ", " : "", address_of(job, rank).bytes);
        }
    }
    if (named < nics)
        append(text, ", %u more", nics - named);
}

static const char *reason_of_ring(const struct fanin_job *job)
{
    uint32_t rings = 0, switches = 0;

    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        rings += job->places[rank].ring && job->places[rank].ring == job->places[0].ring;
        switches += job->places[rank].hops != 0;
    }
    if (rings == job->ranks)
        return ", all on one plain switch";
    return switches ? ", for no switch is named above all of them" : ", for no switch is named above them";
}

static void append_route(struct text *text, const struct fanin_job *job, const struct fanin_join *join)
{
    int is_tree = join->route == FANIN_ROUTE_TREE || join->flags & FANIN_JOB_FIXED_START;

    append(text, "route %s, ", is_tree ? "tree" : join->route == FANIN_ROUTE_RING ? "ring" : "local");
    append_nics(text, job);
    for (uint32_t level = 0; is_tree && level < join->hop_count; level++)
        append(text, "%s%s", level ? ", " : " below switch ", text_of(join->hop[level].address).bytes);
    if (!is_tree && join->route == FANIN_ROUTE_RING && job->route == FANIN_ROUTE_AUTO)
        append(text, "%s", reason_of_ring(job));
}

void fanin_name_path(const struct fanin_job *job, uint32_t rank, uint32_t chunk, uint32_t mtu, char *words,
                     size_t capacity)
{
    struct text text = {.length = 0};
    struct fanin_join join;

    text.bytes[0] = 0;
    if (fanin_describe(job, rank, &join) == FANIN_SUCCESS) {
        append_route(&text, job, &join);
        if (chunk)
            append(&text, "; segments of %u bytes", chunk);
        if (mtu)
            append(&text, "%s MTU %u", chunk ? "," : ";", mtu);
    }
    snprintf(words, capacity, "%s", text.bytes);
}
