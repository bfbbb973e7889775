#include "requests/errors.h"
#include "abi/pmpi.h"
#include <pthread.h>

static const enum object comms[] = {COMM_WORLD, COMM_SELF};

/* The first of several threads replaces the handlers; the last one restores them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned silent;
static handle handlers[2];

static void replace_handlers(void)
{
    for (int i = 0; i < 2; i++) {
        pmpi.Comm_get_errhandler(shim_handle(comms[i]), &handlers[i]);
        handlers[i] = load_handle(&handlers[i]);
        pmpi.Comm_set_errhandler(shim_handle(comms[i]), shim_handle(ERRORS_RETURN));
    }
}

static void put_handlers_back(void)
{
    for (int i = 0; i < 2; i++) {
        pmpi.Comm_set_errhandler(shim_handle(comms[i]), handlers[i]);
        pmpi.Errhandler_free(&handlers[i]);
    }
}

struct silenced shim_silence(int count, const void *requests)
{
    struct silenced silenced = {0};

    for (int i = 0; i < count && !silenced.is_needed; i++) {
        const struct request *request = shim_request(handle_at(requests, i));
        if (request && !request->persistent && shim_progress_of(request) == SETTLED)
            silenced = (struct silenced){.is_needed = 1, .comm = request->comm};
    }
    if (silenced.is_needed) {
        pthread_mutex_lock(&lock);
        if (!silent++)
            replace_handlers();
        pthread_mutex_unlock(&lock);
    }
    return silenced;
}

int shim_speak(const struct silenced *silenced, int code)
{
    if (!silenced->is_needed)
        return code;
    pthread_mutex_lock(&lock);
    if (!--silent)
        put_handlers_back();
    pthread_mutex_unlock(&lock);
    if (code)
        pmpi.Comm_call_errhandler(silenced->comm, code);
    return code;
}
