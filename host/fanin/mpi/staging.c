/* Areas by powers of two, cut from registered regions that are kept until the process ends. */
#include "staging.h"
#include <pthread.h>
#include <stdlib.h>

enum { SMALLEST = 12, LARGEST = 24 };  /* orders: 4 KiB to 16 MiB. Longer messages are read where they are */
#define REGION (1ull << 20)            /* bytes that are registered together, for areas that are not larger */
#define MOST (128ull << 20)            /* bytes in all: what is beyond that is read where it is */

static struct fanin_context *device;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct area *unused[LARGEST + 1];
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

/* More areas of a size, unless that is too much, for us or for the device. */
static void add_region(uint32_t order)
{
    uint64_t bytes = 1ull << order, length = bytes > REGION ? bytes : REGION;
    struct area *areas = registered + length > MOST ? NULL : calloc(length / bytes, sizeof *areas);
    void *memory;
    uint32_t lkey;

    if (!areas)
        return;
    if (fanin_allocate(device, length, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &memory, &lkey) != FANIN_SUCCESS) {
        free(areas);
        return;
    }
    registered += length;
    for (uint64_t i = 0; i < length / bytes; i++) {
        areas[i] = (struct area){unused[order], (uint8_t *)memory + i * bytes, lkey, order};
        unused[order] = &areas[i];
    }
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
    if (area)
        unused[order] = area->next;
    pthread_mutex_unlock(&lock);
    return area;
}

void fanin_take_back(struct area *area)
{
    pthread_mutex_lock(&lock);
    area->next = unused[area->order];
    unused[area->order] = area;
    pthread_mutex_unlock(&lock);
}
