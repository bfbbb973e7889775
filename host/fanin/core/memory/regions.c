/* The registered regions of a context, ordered by address. Regions are mappings, so they do not overlap. */
#include "memory/regions.h"
#include <stdlib.h>
#include <string.h>

struct region {
    uint64_t start, end;
    uint32_t lkey;
};

/* Index of the first region that begins above `address`. */
static uint32_t behind(const struct fanin_context *context, uint64_t address)
{
    uint32_t low = 0, high = context->region_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (context->regions[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int fanin_enter_region(struct fanin_context *context, const void *address, uint64_t length, uint32_t lkey)
{
    uint64_t start = (uintptr_t)address;
    struct region *regions;

    pthread_mutex_lock(&context->region_lock);
    regions = realloc(context->regions, (context->region_count + 1) * sizeof *regions);
    if (regions) {
        uint32_t place;
        context->regions = regions;
        place = behind(context, start);
        memmove(&regions[place + 1], &regions[place], (context->region_count++ - place) * sizeof *regions);
        regions[place] = (struct region){start, start + length, lkey};
    }
    pthread_mutex_unlock(&context->region_lock);
    return regions != NULL;
}

void fanin_erase_region(struct fanin_context *context, uint32_t lkey)
{
    struct region *region, *end;

    pthread_mutex_lock(&context->region_lock);
    end = context->regions + context->region_count;
    for (region = context->regions; region < end && region->lkey != lkey; region++)
        ;
    if (region < end) {
        memmove(region, region + 1, (size_t)(end - region - 1) * sizeof *region);
        context->region_count--;
    }
    pthread_mutex_unlock(&context->region_lock);
}

uint32_t fanin_lkey_of(struct fanin_context *context, const void *address, uint64_t length)
{
    uint64_t start = (uintptr_t)address;
    uint32_t lkey = FANIN_LKEY_PROCESS, place;

    pthread_mutex_lock(&context->region_lock);
    place = behind(context, start);
    if (place) {
        const struct region *region = &context->regions[place - 1];
        if (start <= region->end && length <= region->end - start)
            lkey = region->lkey;
    }
    pthread_mutex_unlock(&context->region_lock);
    return lkey;
}

void fanin_free_regions(struct fanin_context *context)
{
    free(context->regions);
    context->regions = NULL;
    context->region_count = 0;
}
