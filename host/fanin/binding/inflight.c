#include "binding.h"

#include <stdlib.h>

struct inflight *new_inflight(struct communicator *self, struct fanin_request *request, struct memory *memory)
{
    struct inflight *made = malloc(sizeof *made);

    if (!made) {
        PyErr_NoMemory();
        return NULL; /* the request keeps its memory for ever */
    }
    *made = (struct inflight){.request = request, .source = memory->source, .destination = memory->destination};
    if (self->requests) {
        made->next = self->requests;
        made->previous = self->requests->previous;
        made->previous->next = made->next->previous = made;
    } else {
        self->requests = made->next = made->previous = made;
    }
    return made;
}

static void unlink_inflight(struct communicator *self, struct inflight *inflight)
{
    if (inflight->next == inflight) {
        self->requests = NULL;
        return;
    }
    inflight->next->previous = inflight->previous;
    inflight->previous->next = inflight->next;
    if (self->requests == inflight)
        self->requests = inflight->next;
}

void free_inflight(struct communicator *self, struct inflight *inflight, int has_failed)
{
    struct memory memory = {inflight->source, inflight->destination};

    if (self->is_inherited || (has_failed && self->is_unconfirmed))
        return;
    if (has_failed && self->library)
        return; /* the device may write until the job has been left */
    self->ownerless--;
    unlink_inflight(self, inflight);
    if (inflight->request)
        fanin_free(inflight->request);
    free(inflight);
    release_memory(&memory);
}

/* A dropped request that has ended, with success while the job goes on; or NULL. */
static struct inflight *find_ended(struct communicator *self)
{
    struct inflight *each = self->requests;

    for (uint32_t left = self->ownerless; left && each; each = each->next) {
        if (each->owner)
            continue;
        if (!each->request || fanin_test(each->request) == FANIN_SUCCESS)
            return each;
        left--;
    }
    return NULL;
}

/* Restarts each time, since releasing memory may run any code. */
void reap(struct communicator *self)
{
    struct inflight *ended;

    while (!self->is_unconfirmed && (ended = find_ended(self)))
        free_inflight(self, ended, 0);
}
