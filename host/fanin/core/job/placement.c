/* Nodes, routes and hops of a job: from the places of its ranks to what one rank tells its device. All ranks compute
 * the same layout. Nodes are in the order of their first ranks, with those of a ring together. */
#include "job/placement.h"
#include "complaint.h"
#include "geometry.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct fanin_place place;  /* path up to the lowest switch that all nodes share */
    uint32_t ranks;            /* their number */
};

struct layout {
    struct node *nodes;
    uint32_t count;
    uint32_t route;            /* the one taken */
    uint32_t own;              /* node of this rank */
    uint32_t bit;              /* of this rank at its node */
};

static const char *text_of(uint32_t address, char text[INET_ADDRSTRLEN])
{
    struct in_addr network = {htonl(address)};

    return inet_ntop(AF_INET, &network, text, INET_ADDRSTRLEN);
}

/* Bytes of a place in use, without unused hops. */
static size_t used_bytes(const struct fanin_place *place)
{
    return offsetof(struct fanin_place, hop) + place->hops * sizeof *place->hop;
}

static uint32_t node_at(const struct layout *layout, uint32_t address)
{
    uint32_t node = 0;

    while (node < layout->count && layout->nodes[node].place.address != address)
        node++;
    return node;
}

/* Insert a node behind the others of its ring, or last. */
static void insert_node(struct layout *layout, const struct fanin_place *place)
{
    uint32_t at = layout->count;

    for (uint32_t node = 0; place->ring && node < layout->count; node++)
        if (layout->nodes[node].place.ring == place->ring)
            at = node + 1;
    memmove(&layout->nodes[at + 1], &layout->nodes[at], (layout->count - at) * sizeof *layout->nodes);
    layout->nodes[at] = (struct node){.place = *place};
    layout->count++;
}

/* Returns 0 if two ranks of a node have different paths. */
static int collect_nodes(struct layout *layout, const struct fanin_job *job, uint32_t rank)
{
    for (uint32_t i = 0; i < job->ranks; i++) {
        const struct fanin_place *place = &job->places[i];
        uint32_t node = node_at(layout, place->address);
        if (node == layout->count) {
            insert_node(layout, place);
        } else if (memcmp(place, &layout->nodes[node].place, used_bytes(place))) {
            char address[INET_ADDRSTRLEN];
            fanin_complain("two ranks of node %s have different paths above it", text_of(place->address, address));
            return 0;
        }
    }
    for (uint32_t i = 0; i < job->ranks; i++) {
        uint32_t node = node_at(layout, job->places[i].address);
        if (i == rank) {
            layout->own = node;
            layout->bit = (uint32_t)layout->nodes[node].ranks;
        }
        layout->nodes[node].ranks++;
    }
    return 1;
}

static uint32_t ring_size(const struct layout *layout, uint32_t ring)
{
    uint32_t nodes = 0;

    for (uint32_t node = 0; node < layout->count; node++)
        nodes += layout->nodes[node].place.ring == ring;
    return nodes;
}

static uint32_t level_of(const struct fanin_place *place, uint32_t address)
{
    uint32_t level = 0;

    while (level < place->hops && place->hop[level] != address)
        level++;
    return level;
}

/* The lowest switch on the paths of all nodes, or 0. */
static uint32_t shared_switch(const struct layout *layout)
{
    const struct fanin_place *first = &layout->nodes[0].place;

    for (uint32_t level = 0; level < first->hops; level++) {
        uint32_t node = 1;
        while (node < layout->count &&
               level_of(&layout->nodes[node].place, first->hop[level]) < layout->nodes[node].place.hops)
            node++;
        if (node == layout->count)
            return first->hop[level];
    }
    return 0;
}

static uint32_t choose_route(const struct layout *layout, uint32_t asked, uint32_t top)
{
    uint32_t ring = layout->nodes[0].place.ring;

    if (layout->count == 1)
        return FANIN_ROUTE_LOCAL;
    if (asked != FANIN_ROUTE_AUTO)
        return asked;
    if (ring && ring_size(layout, ring) == layout->count)
        return FANIN_ROUTE_RING;
    return top ? FANIN_ROUTE_TREE : FANIN_ROUTE_RING;
}

/* Identifies the child below the switch at `level` of a node's path: a switch, a ring, or the node. */
static uint64_t identity(const struct layout *layout, uint32_t node, uint32_t level)
{
    const struct fanin_place *place = &layout->nodes[node].place;

    if (level)
        return place->hop[level - 1];
    return place->ring ? 1ull << 32 | place->ring : 2ull << 32 | node;
}

/* Number of children of a switch; `bit`: index of `wanted` among them, in the order of their first nodes. */
static uint32_t children_of(const struct layout *layout, uint32_t address, uint64_t wanted, uint32_t *bit)
{
    uint64_t known[FANIN_MAX_CHILDREN];
    uint32_t count = 0;

    for (uint32_t node = 0; node < layout->count; node++) {
        const struct fanin_place *place = &layout->nodes[node].place;
        uint32_t level = level_of(place, address), child = 0;
        if (level == place->hops)
            continue;
        uint64_t found = identity(layout, node, level);
        while (child < count && known[child] != found)
            child++;
        if (child == count && count == FANIN_MAX_CHILDREN)
            return FANIN_MAX_CHILDREN + 1;
        known[child] = found;
        count += child == count;
        if (found == wanted)
            *bit = child;
    }
    return count;
}

/* ---- Checks: each complains and returns 0 ---- */

/* Whether the paths of two nodes stay together once they meet, as in a tree. */
static int do_ways_agree(const struct fanin_place *one, const struct fanin_place *other)
{
    char child[INET_ADDRSTRLEN], parent[INET_ADDRSTRLEN], another[INET_ADDRSTRLEN];

    for (uint32_t level = 0; level + 1 < one->hops; level++) {
        uint32_t same = level_of(other, one->hop[level]);
        if (same + 1 < other->hops && other->hop[same + 1] != one->hop[level + 1]) {
            fanin_complain("switch %s has two parents, %s and %s", text_of(one->hop[level], child),
                           text_of(one->hop[level + 1], parent), text_of(other->hop[same + 1], another));
            return 0;
        }
    }
    if (one->ring && one->ring == other->ring && one->hop[0] != other->hop[0]) {
        fanin_complain("the nodes of ring %u have different switches", one->ring - 1);
        return 0;
    }
    return 1;
}

static int is_node_possible(const struct layout *layout, const struct node *node)
{
    const struct fanin_place *place = &node->place;
    char address[INET_ADDRSTRLEN];
    uint32_t ring = place->ring ? ring_size(layout, place->ring) : 0;

    if (layout->route == FANIN_ROUTE_RING)
        ring = layout->count;
    if (node->ranks > FANIN_MAX_CHILDREN)
        fanin_complain("node %s has %u ranks; the limit is %d", text_of(place->address, address), node->ranks,
                       FANIN_MAX_CHILDREN);
    else if (ring > FANIN_MAX_CHILDREN)
        fanin_complain("a ring of %u nodes exceeds the limit %d", ring, FANIN_MAX_CHILDREN);
    else
        return 1;
    return 0;
}

/* Whether the switches whose first node this is have few enough children. */
static int are_switches_possible(const struct layout *layout, uint32_t node)
{
    const struct fanin_place *place = &layout->nodes[node].place;
    char address[INET_ADDRSTRLEN];
    uint32_t bit, first;

    for (uint32_t level = 0; level < place->hops; level++) {
        for (first = 0; level_of(&layout->nodes[first].place, place->hop[level]) == layout->nodes[first].place.hops;)
            first++;
        if (first == node && children_of(layout, place->hop[level], 0, &bit) > FANIN_MAX_CHILDREN) {
            fanin_complain("switch %s has more than %d children", text_of(place->hop[level], address),
                           FANIN_MAX_CHILDREN);
            return 0;
        }
    }
    return 1;
}

static int is_possible(const struct layout *layout, uint32_t top)
{
    if (layout->route == FANIN_ROUTE_LOCAL && layout->count > 1) {
        fanin_complain("route local needs all ranks on one node");
        return 0;
    }
    if (layout->route == FANIN_ROUTE_TREE && !top) {
        fanin_complain("the nodes share no offloading switch, which route tree needs");
        return 0;
    }
    for (uint32_t node = 0; node < layout->count; node++) {
        if (!is_node_possible(layout, &layout->nodes[node]))
            return 0;
        for (uint32_t other = 0; layout->route == FANIN_ROUTE_TREE && other < layout->count; other++)
            if (!do_ways_agree(&layout->nodes[node].place, &layout->nodes[other].place))
                return 0;
        if (!are_switches_possible(layout, node))
            return 0;
    }
    return 1;
}

static int is_power_of_two(uint32_t number)
{
    return number && !(number & (number - 1));
}

/* 0 stands for a default. */
static enum fanin_status check_numbers(const struct fanin_job *job)
{
    const uint32_t known = FANIN_JOB_WIDE | FANIN_JOB_REPRODUCIBLE_RUN | FANIN_JOB_REPRODUCIBLE_SHAPE;

    if (!job->jid)
        return fanin_complain("jid is 0; give another number");
    if (job->slots && (!is_power_of_two(job->slots) || job->slots < MIN_SLOTS))
        return fanin_complain("slots is %u, not a power of two of at least %d", job->slots, MIN_SLOTS);
    if (job->chunk && !is_power_of_two(job->chunk))
        return fanin_complain("chunk is %u, not a power of two", job->chunk);
    if (job->flags & ~known)
        return fanin_complain("flags %#x have unknown bits", job->flags);
    return FANIN_SUCCESS;
}

static int is_place_possible(const struct fanin_place *place)
{
    char address[INET_ADDRSTRLEN];

    if (place->hops > FANIN_MAX_HOPS) {
        fanin_complain("%u levels of switches above node %s exceed the limit %d", place->hops,
                       text_of(place->address, address), FANIN_MAX_HOPS);
        return 0;
    }
    for (uint32_t level = 0; level < place->hops; level++)
        if (level_of(place, place->hop[level]) != level) {
            fanin_complain("node %s has a switch twice above it", text_of(place->address, address));
            return 0;
        }
    return 1;
}

/* Whether each place makes sense by itself. */
static int is_plausible(const struct fanin_job *job, uint32_t rank)
{
    if (!job->places || rank >= job->ranks) {
        fanin_complain("rank %u is not one of the %u ranks of the job", rank, job->ranks);
        return 0;
    }
    if (job->route > FANIN_ROUTE_RING && job->route != FANIN_ROUTE_AUTO) {
        fanin_complain("route %u is unknown", job->route);
        return 0;
    }
    for (uint32_t other = 0; other < job->ranks; other++)
        if (!is_place_possible(&job->places[other]))
            return 0;
    return 1;
}

static void write_hops(const struct layout *layout, struct fanin_join *join)
{
    const struct fanin_place *place = &layout->nodes[layout->own].place;

    for (uint32_t level = 0; level < place->hops; level++) {
        struct fanin_hop *hop = &join->hop[level];
        uint32_t children =
            children_of(layout, place->hop[level], identity(layout, layout->own, level), &hop->bit);
        hop->address = place->hop[level];
        hop->mask = ~0ull >> (64 - children);
    }
    join->hop_count = place->hops;
}

/* The ring of the rank's node: all nodes, or those on its plain switch, which are consecutive. */
static void write_ring(const struct layout *layout, struct fanin_join *join)
{
    uint32_t ring = layout->nodes[layout->own].place.ring, first = 0, count = layout->count;

    join->node_index = layout->own;
    join->node_count = count;
    if (layout->route == FANIN_ROUTE_TREE && ring) {
        while (layout->nodes[first].place.ring != ring)
            first++;
        count = ring_size(layout, ring);
        join->route = FANIN_ROUTE_RING;
        join->flags |= FANIN_JOB_FIXED_START;
    } else if (layout->route != FANIN_ROUTE_RING) {
        return;
    }
    join->node_index = layout->own - first;
    join->node_count = count;
    join->next_address = layout->nodes[first + (join->node_index + 1) % count].place.address;
    join->previous_address = layout->nodes[first + (join->node_index + count - 1) % count].place.address;
}

/* FNV-1a detects ranks that disagree; it need not be cryptographic, since the job's key keeps others out. */
static uint64_t digest_of(uint64_t digest, const void *data, size_t bytes)
{
    for (const uint8_t *byte = data; bytes--; byte++)
        digest = (digest ^ *byte) * 0x100000001b3ull;
    return digest;
}

static void write_digest(const struct fanin_job *job, uint32_t route, struct fanin_join *join)
{
    uint32_t terms[] = {job->jid, job->key, route, job->chunk, job->slots, job->flags, job->ranks};

    for (uint32_t half = 0; half < 2; half++) {
        join->digest[half] = digest_of(0xcbf29ce484222325ull + half, terms, sizeof terms);
        for (uint32_t rank = 0; rank < job->ranks; rank++)
            join->digest[half] = digest_of(join->digest[half], &job->places[rank], used_bytes(&job->places[rank]));
    }
}

/* The layout of a job for rank `rank`; 0 if it is impossible. The caller frees `layout->nodes` in either case. */
static int lay_out(const struct fanin_job *job, uint32_t rank, struct layout *layout)
{
    uint32_t top;

    *layout = (struct layout){0};
    if (!is_plausible(job, rank))
        return 0;
    layout->nodes = calloc(job->ranks, sizeof *layout->nodes);
    if (!layout->nodes) {
        fanin_complain("there is no memory for %u nodes", job->ranks);
        return 0;
    }
    if (!collect_nodes(layout, job, rank))
        return 0;
    for (uint32_t node = 0; node < layout->count; node++)
        if (ring_size(layout, layout->nodes[node].place.ring) == 1)
            layout->nodes[node].place.ring = 0;
    top = shared_switch(layout);
    layout->route = choose_route(layout, job->route, top);
    for (uint32_t node = 0; node < layout->count; node++) {
        struct fanin_place *place = &layout->nodes[node].place;
        place->hops = layout->route == FANIN_ROUTE_TREE && top ? level_of(place, top) + 1 : 0;
    }
    return is_possible(layout, top);
}

enum fanin_status fanin_describe(const struct fanin_job *job, uint32_t rank, struct fanin_join *join)
{
    struct layout layout = {0};
    int exists = check_numbers(job) == FANIN_SUCCESS && lay_out(job, rank, &layout);

    if (exists) {
        *join = (struct fanin_join){.jid = job->jid, .key = job->key, .route = layout.route,
                                    .rank_bitmap = 1ull << layout.bit,
                                    .rank_mask = ~0ull >> (64 - layout.nodes[layout.own].ranks),
                                    .slots = job->slots, .chunk = job->chunk, .flags = job->flags};
        write_ring(&layout, join);
        write_hops(&layout, join);
        write_digest(job, layout.route, join);
    }
    free(layout.nodes);
    return exists ? FANIN_SUCCESS : FANIN_INVALID_REQUEST;
}

/* Bit of a node at the device or in the ring that `kind` names, or -1. */
static int bit_of_node(const struct layout *layout, uint32_t node, uint32_t kind)
{
    const struct fanin_place *own = &layout->nodes[layout->own].place, *place = &layout->nodes[node].place;
    int is_ring = layout->route == FANIN_ROUTE_RING || (layout->route == FANIN_ROUTE_TREE && own->ring);
    uint32_t level = kind - (is_ring ? 2 : 1), first = 0, bit;

    if (is_ring && kind == 1) {
        if (layout->route == FANIN_ROUTE_RING)
            return (int)node;
        while (layout->nodes[first].place.ring != own->ring)
            first++;
        return place->ring == own->ring ? (int)(node - first) : -1;
    }
    if (layout->route != FANIN_ROUTE_TREE || level >= own->hops || level_of(place, own->hop[level]) == place->hops)
        return -1;
    children_of(layout, own->hop[level], identity(layout, node, level_of(place, own->hop[level])), &bit);
    return (int)bit;
}

uint32_t fanin_missing_ranks(const struct fanin_job *job, uint32_t rank, uint64_t missing, uint32_t kind,
                             uint32_t *ranks)
{
    uint32_t count = 0, own_bit = 0;
    struct layout layout;

    if (lay_out(job, rank, &layout))
        for (uint32_t other = 0; other < job->ranks; other++) {
            uint32_t node = node_at(&layout, job->places[other].address);
            int bit = kind ? bit_of_node(&layout, node, kind) : node == layout.own ? (int)own_bit++ : -1;
            if (bit >= 0 && bit < 64 && missing >> bit & 1)
                ranks[count++] = other;
        }
    free(layout.nodes);
    return count;
}

/* The largest group that a device names by one bit: a node, or everything below a child of the top switch. */
static int group_of(const struct layout *layout, uint32_t node)
{
    const struct fanin_place *own = &layout->nodes[layout->own].place;

    return layout->route == FANIN_ROUTE_TREE ? bit_of_node(layout, node, own->hops + (own->ring != 0)) : (int)node;
}

void fanin_widen(const struct fanin_job *job, uint32_t rank, uint8_t *lost)
{
    uint64_t groups = 0;
    struct layout layout;

    if (lay_out(job, rank, &layout))
        for (uint32_t pass = 0; pass < 2; pass++)
            for (uint32_t other = 0; other < job->ranks; other++) {
                int group = group_of(&layout, node_at(&layout, job->places[other].address));
                if (pass == 0 && lost[other])
                    groups |= 1ull << group;
                else if (pass == 1)
                    lost[other] = groups >> group & 1;
            }
    free(layout.nodes);
}
