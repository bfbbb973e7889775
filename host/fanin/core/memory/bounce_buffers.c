/* Bounce buffers have sizes that are powers of two, and are cut from registered regions. A region keeps its size of
 * buffers until there is no room for another region: then regions without a borrowed buffer are given back.
 */
#include "memory/bounce_buffers.h"
#include <stdlib.h>

enum { SMALLEST = 12, LARGEST = 24 };  /* orders: 4 KiB to 16 MiB. Longer messages are read where they are */
#define REGION (1ull << 20)            /* bytes that are registered together, for buffers that are not larger */
#define MOST (128ull << 20)            /* bytes in all */

struct bounce_region {
    struct bounce_region *next;
    void *memory;
    uint64_t length;
    uint32_t lkey;
    uint32_t borrowed;                 /* buffers */
    struct bounce_buffer buffers[];
};

struct bounce_pool {
    struct bounce_buffer *unused[LARGEST + 1]; /* by order */
    struct bounce_region *regions;
    uint64_t registered;               /* bytes */
};

static struct bounce_pool *pool_of(struct fanin_context *context)
{
    if (!context->bounce)
        context->bounce = calloc(1, sizeof *context->bounce);
    return context->bounce;
}

static uint32_t order_of(uint64_t bytes)
{
    uint32_t order = SMALLEST;

    while (1ull << order < bytes)
        order++;
    return order;
}

/* Take the buffers of a region out of the unused ones. */
static void withdraw(struct bounce_pool *pool, const struct bounce_region *region)
{
    for (struct bounce_buffer **link = &pool->unused[region->buffers[0].order]; *link;)
        if ((*link)->region == region)
            *link = (*link)->next;
        else
            link = &(*link)->next;
}

/* Give back regions that nobody uses, until there is room for `length` bytes. Returns whether there is. */
static int make_room(struct fanin_context *context, struct bounce_pool *pool, uint64_t length)
{
    for (struct bounce_region **link = &pool->regions; *link && pool->registered + length > MOST;) {
        struct bounce_region *region = *link;
        if (!region->borrowed) {
            withdraw(pool, region);
            /* A device that refuses may still use it: then it is never used again. */
            region->borrowed = fanin_deregister(context, region->lkey) != FANIN_SUCCESS;
        }
        if (region->borrowed) {
            link = &region->next;
            continue;
        }
        *link = region->next;
        fanin_unmap(region->memory, region->length);
        pool->registered -= region->length;
        free(region);
    }
    return pool->registered + length <= MOST;
}

static void cut(struct bounce_pool *pool, struct bounce_region *region, uint32_t order)
{
    for (uint64_t i = region->length >> order; i--;) {
        region->buffers[i] =
            (struct bounce_buffer){.next = pool->unused[order], .address = (uint8_t *)region->memory + (i << order),
                                   .region = region, .lkey = region->lkey, .order = order};
        pool->unused[order] = &region->buffers[i];
    }
}

/* More buffers of a size, unless that is too much, for us or for the device. */
static void add_region(struct fanin_context *context, struct bounce_pool *pool, uint32_t order)
{
    uint64_t bytes = 1ull << order, length = bytes > REGION ? bytes : REGION;
    struct bounce_region *region;

    if (!make_room(context, pool, length))
        return;
    region = calloc(1, sizeof *region + (length >> order) * sizeof *region->buffers);
    if (!region)
        return;
    region->length = length;
    if (fanin_allocate(context, length, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &region->memory, &region->lkey) !=
        FANIN_SUCCESS) {
        free(region);
        return;
    }
    region->next = pool->regions;
    pool->regions = region;
    pool->registered += length;
    cut(pool, region, order);
}

struct bounce_buffer *fanin_borrow_buffer(struct fanin_context *context, uint64_t length)
{
    struct bounce_buffer *buffer = NULL;
    struct bounce_pool *pool;

    pthread_mutex_lock(&context->bounce_lock);
    pool = pool_of(context);
    if (pool && length <= context->longest_bounced && length <= 1ull << LARGEST) {
        uint32_t order = order_of(length);
        if (!pool->unused[order])
            add_region(context, pool, order);
        buffer = pool->unused[order];
        if (buffer) {
            pool->unused[order] = buffer->next;
            buffer->region->borrowed++;
        }
    }
    pthread_mutex_unlock(&context->bounce_lock);
    return buffer;
}

struct bounce_buffer *fanin_obtain_buffer(struct fanin_context *context, uint64_t length)
{
    struct bounce_buffer *buffer = fanin_borrow_buffer(context, length);

    if (!buffer && (buffer = malloc(sizeof *buffer + length)))
        *buffer = (struct bounce_buffer){.address = (uint8_t *)(buffer + 1), .lkey = FANIN_LKEY_PROCESS};
    return buffer;
}

static void put_back(struct bounce_pool *pool, struct bounce_buffer *buffer)
{
    buffer->next = pool->unused[buffer->order];
    pool->unused[buffer->order] = buffer;
    buffer->region->borrowed--;
}

void fanin_return_buffer(struct fanin_context *context, struct bounce_buffer *buffer)
{
    if (!buffer->region) {
        free(buffer);
        return;
    }
    pthread_mutex_lock(&context->bounce_lock);
    put_back(context->bounce, buffer);
    pthread_mutex_unlock(&context->bounce_lock);
}

void *fanin_borrow(struct fanin_context *context, uint64_t length)
{
    struct bounce_buffer *buffer = fanin_borrow_buffer(context, length);

    return buffer ? buffer->address : NULL;
}

void fanin_return(struct fanin_context *context, void *memory)
{
    uint8_t *address = memory;

    pthread_mutex_lock(&context->bounce_lock);
    for (struct bounce_region *region = context->bounce->regions; region; region = region->next) {
        uint64_t offset = (uint64_t)(address - (uint8_t *)region->memory);
        if (address >= (uint8_t *)region->memory && offset < region->length) {
            put_back(context->bounce, &region->buffers[offset >> region->buffers[0].order]);
            break;
        }
    }
    pthread_mutex_unlock(&context->bounce_lock);
}

void fanin_free_bounce_buffers(struct fanin_context *context)
{
    struct bounce_region *region = context->bounce ? context->bounce->regions : NULL;

    while (region) {
        struct bounce_region *next = region->next;
        fanin_unmap(region->memory, region->length);
        free(region);
        region = next;
    }
    free(context->bounce);
    context->bounce = NULL;
}
