/* A forked child must not use its parent's objects: its device calls would go to the parent's queues. */
#include "objects.h"
#include <errno.h>

static uint32_t forks; /* ancestors of this process since the library was loaded */

static void note_fork(void)
{
    forks++;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, note_fork);
}

void our_own(struct our_context *context)
{
    context->forks = forks;
}

int our_is_inherited(const struct ibv_context *context)
{
    return our_context((struct ibv_context *)context)->forks != forks;
}

int our_end_at_device(const struct ibv_context *context, enum fanin_status (*end)(struct fanin_context *, uint32_t),
                      uint32_t number)
{
    struct fanin_context *fanin = our_fanin((struct ibv_context *)context);
    int error = our_is_inherited(context) ? 0 : our_errno(end(fanin, number));

    return error == EIO ? 0 : error; /* on a lost device nothing is left to end */
}
