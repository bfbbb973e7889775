/* Bounce buffers have powers of two as sizes, and are cut from registered regions, each for one size. When there is no
 * room for another region, unused regions are given back. Record 0013 (docs/decisions) says why ordinary memory is
 * copied, and how much of it. */
#include "memory/bounce_buffers.h"
#include "complaint.h"
#include <stdlib.h>

enum { MIN_ORDER = 12, MAX_ORDER = 24 }; /* orders: 4 KiB to 16 MiB; longer messages are not staged */
#define REGION (1ull << 20)            /* bytes of a region, unless one buffer is larger */
#define MAX_BYTES (128ull << 20)       /* bytes in all */

struct bounce_region {
    struct bounce_region *next;
    struct bounce_buffer *unused;
    void *memory;
    uint64_t length;
    uint32_t order;                    /* of its buffers: 1 << order bytes */
    uint32_t lkey;
    uint32_t borrowed;                 /* buffers */
    struct bounce_buffer buffers[];
};

static uint32_t order_of(uint64_t bytes)
{
    uint32_t order = MIN_ORDER;

    while (1ull << order < bytes)
        order++;
    return order;
}

/* Give back unused regions until there is room for `length` bytes. Returns whether there is. */
static int make_room(struct fanin_context *context, uint64_t length)
{
    for (struct bounce_region **link = &context->bounce_regions; *link && context->bounce_bytes + length > MAX_BYTES;) {
        struct bounce_region *region = *link;
        /* If the device refuses, it may still use the region, which then is never used again. */
        if (!region->borrowed && fanin_deregister(context, region->lkey) != FANIN_SUCCESS) {
            region->borrowed = 1;
            region->unused = NULL;
        }
        if (region->borrowed) {
            link = &region->next;
            continue;
        }
        *link = region->next;
        fanin_unmap(region->memory, region->length);
        context->bounce_bytes -= region->length;
        free(region);
    }
    return context->bounce_bytes + length <= MAX_BYTES;
}

static void put_back(struct bounce_buffer *buffer)
{
    buffer->next = buffer->region->unused;
    buffer->region->unused = buffer;
}

/* A new region, or NULL beyond the limits of the library or the device. */
static struct bounce_region *add_region(struct fanin_context *context, uint32_t order)
{
    uint64_t bytes = 1ull << order, length = bytes > REGION ? bytes : REGION;
    struct bounce_region *region;

    if (!make_room(context, length))
        return NULL;
    region = calloc(1, sizeof *region + (length >> order) * sizeof *region->buffers);
    if (!region)
        return NULL;
    if (fanin_allocate(context, length, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &region->memory, &region->lkey) !=
        FANIN_SUCCESS) {
        fanin_forget_complaint(); /* the caller does without */
        free(region);
        return NULL;
    }
    region->length = length;
    region->order = order;
    for (uint64_t i = length >> order; i--;) {
        region->buffers[i] = (struct bounce_buffer){
            .address = (uint8_t *)region->memory + (i << order), .region = region, .lkey = region->lkey};
        put_back(&region->buffers[i]);
    }
    region->next = context->bounce_regions;
    context->bounce_regions = region;
    context->bounce_bytes += length;
    return region;
}

struct bounce_buffer *fanin_borrow_buffer(struct fanin_context *context, uint64_t length)
{
    struct bounce_buffer *buffer = NULL;
    struct bounce_region *region;
    uint32_t order;

    if (length > context->longest_bounced || length > 1ull << MAX_ORDER)
        return NULL;
    order = order_of(length);
    pthread_mutex_lock(&context->bounce_lock);
    region = context->bounce_regions;
    while (region && (region->order != order || !region->unused))
        region = region->next;
    if (region || (region = add_region(context, order))) {
        buffer = region->unused;
        region->unused = buffer->next;
        region->borrowed++;
    }
    pthread_mutex_unlock(&context->bounce_lock);
    return buffer;
}

struct bounce_buffer *fanin_obtain_buffer(struct fanin_context *context, uint64_t length)
{
    struct bounce_buffer *buffer = fanin_borrow_buffer(context, length);

    if (!buffer && !reaches_registered_memory_only(context) && (buffer = malloc(sizeof *buffer + length)))
        *buffer = (struct bounce_buffer){.address = (uint8_t *)(buffer + 1), .lkey = FANIN_LKEY_PROCESS};
    return buffer;
}

void fanin_return_buffer(struct fanin_context *context, struct bounce_buffer *buffer)
{
    if (!buffer->region) {
        free(buffer);
        return;
    }
    pthread_mutex_lock(&context->bounce_lock);
    buffer->region->borrowed--;
    put_back(buffer);
    pthread_mutex_unlock(&context->bounce_lock);
}

void *fanin_borrow(struct fanin_context *context, uint64_t length)
{
    struct bounce_buffer *buffer = fanin_borrow_buffer(context, length);

    return buffer ? buffer->address : NULL;
}

void fanin_return(struct fanin_context *context, void *memory)
{
    struct bounce_region *region;
    uint64_t offset = 0;

    pthread_mutex_lock(&context->bounce_lock);
    for (region = context->bounce_regions; region; region = region->next) {
        offset = (uintptr_t)memory - (uintptr_t)region->memory;
        if (offset < region->length)
            break;
    }
    pthread_mutex_unlock(&context->bounce_lock);
    if (region)
        fanin_return_buffer(context, &region->buffers[offset >> region->order]);
}

void fanin_free_bounce_buffers(struct fanin_context *context)
{
    while (context->bounce_regions) {
        struct bounce_region *region = context->bounce_regions;
        context->bounce_regions = region->next;
        fanin_unmap(region->memory, region->length);
        free(region);
    }
}
