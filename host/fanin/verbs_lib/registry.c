#include "registry.h"
#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct our_known *first[OUR_KINDS];
/* The kernel's handles count from 0, so they never equal ours. Positive also as int, as pyverbs shows handles. */
static uint32_t last_number = UINT32_C(1) << 30;

uint32_t our_new_number(void)
{
    return __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
}

void our_know(enum our_kind kind, struct our_known *known, uint32_t number)
{
    our_lock_known();
    *known = (struct our_known){.next = first[kind], .number = number};
    first[kind] = known;
    our_unlock_known();
}

void our_unknow(enum our_kind kind, struct our_known *known)
{
    struct our_known **place = &first[kind];

    our_lock_known();
    while (*place != known)
        place = &(*place)->next;
    *place = known->next;
    our_unlock_known();
}

void our_lock_known(void)
{
    pthread_mutex_lock(&lock);
}

void our_unlock_known(void)
{
    pthread_mutex_unlock(&lock);
}

/* So that the lock is free in a child, whatever the parent's threads did at the fork. */
__attribute__((constructor)) static void hold_while_forking(void)
{
    pthread_atfork(our_lock_known, our_unlock_known, our_unlock_known);
}

static struct our_known *search(struct our_known *from, uint32_t number)
{
    while (from && from->number != number)
        from = from->next;
    return from;
}

struct our_known *our_find_known(enum our_kind kind, uint32_t number)
{
    return search(first[kind], number);
}

struct our_known *our_find_next_known(const struct our_known *found)
{
    return search(found->next, found->number);
}
