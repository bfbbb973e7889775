/* The registered regions of a context, in an array ordered by address. Regions are mappings, so they do not overlap. */
#include "memory/regions.h"
#include <stdlib.h>
#include <string.h>

struct region {
    uint64_t start, end;
    uint32_t lkey;
};

struct region_table {
    uint32_t count, capacity;
    struct region *regions;
};

/* Index of the first region that begins beyond `address`. */
static uint32_t behind(const struct region_table *table, uint64_t address)
{
    uint32_t low = 0, high = table->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (table->regions[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int make_room(struct fanin_context *context)
{
    struct region_table *table = context->regions;
    uint32_t capacity;
    struct region *regions;

    if (!table) {
        table = calloc(1, sizeof *table);
        if (!table)
            return 0;
        context->regions = table;
    }
    if (table->count < table->capacity)
        return 1;
    capacity = table->capacity ? 2 * table->capacity : 16;
    regions = realloc(table->regions, capacity * sizeof *regions);
    if (!regions)
        return 0;
    table->regions = regions;
    table->capacity = capacity;
    return 1;
}

int fanin_enter_region(struct fanin_context *context, const void *address, uint64_t length, uint32_t lkey)
{
    uint64_t start = (uintptr_t)address;
    int entered;

    pthread_mutex_lock(&context->region_lock);
    entered = make_room(context);
    if (entered) {
        struct region_table *table = context->regions;
        uint32_t place = behind(table, start);
        memmove(&table->regions[place + 1], &table->regions[place], (table->count - place) * sizeof *table->regions);
        table->regions[place] = (struct region){start, start + length, lkey};
        table->count++;
    }
    pthread_mutex_unlock(&context->region_lock);
    return entered;
}

void fanin_erase_region(struct fanin_context *context, uint32_t lkey)
{
    struct region_table *table;

    pthread_mutex_lock(&context->region_lock);
    table = context->regions;
    for (uint32_t place = 0; table && place < table->count; place++)
        if (table->regions[place].lkey == lkey) {
            table->count--;
            memmove(&table->regions[place], &table->regions[place + 1],
                    (table->count - place) * sizeof *table->regions);
            break;
        }
    pthread_mutex_unlock(&context->region_lock);
}

uint32_t fanin_lkey_of(struct fanin_context *context, const void *address, uint64_t length)
{
    uint64_t start = (uintptr_t)address;
    uint32_t lkey = FANIN_LKEY_PROCESS, place;

    pthread_mutex_lock(&context->region_lock);
    place = context->regions ? behind(context->regions, start) : 0;
    if (place) {
        const struct region *region = &context->regions->regions[place - 1];
        if (start <= region->end && length <= region->end - start)
            lkey = region->lkey;
    }
    pthread_mutex_unlock(&context->region_lock);
    return lkey;
}

void fanin_free_regions(struct fanin_context *context)
{
    if (context->regions)
        free(context->regions->regions);
    free(context->regions);
    context->regions = NULL;
}
