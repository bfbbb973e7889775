/* A forked child must not use its parent's objects, not even when Python or C++ cleans up at its exit: it would take
 * the parent's completions and leave its jobs. */
#include "context.h"
#include <pthread.h>

static uint32_t forks; /* ancestors of this process since the library was loaded */

static void note_fork(void)
{
    forks++;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, note_fork);
}

void sharp_own(struct sharp_coll_context *context)
{
    context->forks = forks;
}

int sharp_is_inherited(const struct sharp_coll_context *context)
{
    return context->forks != forks;
}
