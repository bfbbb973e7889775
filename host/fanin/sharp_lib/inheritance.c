/* What a process has opened is not for its forked children: they would take the parent's completions, and leave its
 * jobs when they end. What Python and C++ clean up at exit, they clean up in children, too. */
#include "context.h"
#include <pthread.h>

static uint32_t forks; /* since the library was loaded, on the way to this process */

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
