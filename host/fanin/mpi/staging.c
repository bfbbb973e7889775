/* Areas by powers of two, cut from registered regions. A region is kept for what it was cut into, until there is no room
 * for another one: then those that nobody uses are given back.
 */
#include "staging.h"
#include <pthread.h>
#include <stdlib.h>

enum { SMALLEST = 12, LARGEST = 24 };  /* orders: 4 KiB to 16 MiB. Longer messages are read where they are */
#define REGION (1ull << 20)            /* bytes that are registered together, for areas that are not larger */
#define MOST (128ull << 20)            /* bytes in all: what is beyond that is read where it is */

struct region {
    struct region *next;
    void *memory;
    uint64_t length;
    uint32_t lkey;
    uint32_t lent;                     /* areas */
    struct area areas[];
};

static struct fanin_context *device;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct area *unused[LARGEST + 1];
static struct region *regions;
static uint64_t registered, longest;

void fanin_staging_begin(struct fanin_context *context)
{
    const char *limit = getenv("FANIN_STAGING");

    device = context;
    longest = limit ? strtoull(limit, NULL, 10) : 1ull << LARGEST;
}

static uint32_t order_of(uint64_t bytes)
{
    uint32_t order = SMALLEST;

    while (1ull << order < bytes)
        order++;
    return order;
}

/* Take the areas of a region out of those that can be lent. */
static void withdraw(const struct region *region)
{
    for (struct area **link = &unused[region->areas[0].order]; *link;)
        if ((*link)->region == region)
            *link = (*link)->next;
        else
            link = &(*link)->next;
}

/* Give back what nobody uses, until there is room for `length` bytes. Returns whether there is. */
static int make_room(uint64_t length)
{
    for (struct region **link = &regions; *link && registered + length > MOST;) {
        struct region *region = *link;
        if (!region->lent) {
            withdraw(region);
            region->lent = fanin_deregister(device, region->lkey) != FANIN_SUCCESS; /* for good: who knows what it did */
        }
        if (region->lent) {
            link = &region->next;
            continue;
        }
        *link = region->next;
        fanin_unmap(region->memory, region->length);
        registered -= region->length;
        free(region);
    }
    return registered + length <= MOST;
}

static void cut(struct region *region, uint32_t order)
{
    for (uint64_t i = 0; i < region->length >> order; i++) {
        region->areas[i] = (struct area){.next = unused[order], .address = (uint8_t *)region->memory + (i << order),
                                         .region = region, .lkey = region->lkey, .order = order};
        unused[order] = &region->areas[i];
    }
}

/* More areas of a size, unless that is too much, for us or for the device. */
static void add_region(uint32_t order)
{
    uint64_t bytes = 1ull << order, length = bytes > REGION ? bytes : REGION;
    struct region *region;

    if (!make_room(length))
        return;
    region = calloc(1, sizeof *region + (length >> order) * sizeof *region->areas);
    if (!region)
        return;
    region->length = length;
    if (fanin_allocate(device, length, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &region->memory, &region->lkey) !=
        FANIN_SUCCESS) {
        free(region);
        return;
    }
    region->next = regions;
    regions = region;
    registered += length;
    cut(region, order);
}

struct area *fanin_lend(uint64_t bytes)
{
    uint32_t order = order_of(bytes);
    struct area *area = NULL;

    if (bytes > longest || order > LARGEST)
        return NULL;
    pthread_mutex_lock(&lock);
    if (!unused[order])
        add_region(order);
    area = unused[order];
    if (area) {
        unused[order] = area->next;
        area->region->lent++;
    }
    pthread_mutex_unlock(&lock);
    return area;
}

void fanin_take_back(struct area *area)
{
    pthread_mutex_lock(&lock);
    area->next = unused[area->order];
    unused[area->order] = area;
    area->region->lent--;
    pthread_mutex_unlock(&lock);
}
