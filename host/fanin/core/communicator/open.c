#include "communicator/communicator.h"
#include "complaint.h"
#include "memory/regions.h"
#include <stdlib.h>
#include <time.h>

#define FLUSH_MS 10000 /* for the other ranks to take this one's data */
#define POLL_MS 1

enum fanin_status fanin_open(const char *socket_path, struct fanin_context **context)
{
    const char *path = socket_path ? socket_path : getenv("FANIN_SOCKET");
    struct fanin_attach_reply limits;
    struct fanin_context *opened;
    enum fanin_status status;

    if (!path) {
        fanin_complain("no path was given, and FANIN_SOCKET is not set");
        return FANIN_NO_DEVICE;
    }
    status = fanin_connect(path, &opened);
    if (status != FANIN_SUCCESS) {
        if (!*fanin_complaint())
            fanin_complain("no connection to %.200s", path);
        return status;
    }
    status = fanin_attach(opened, &limits);
    if (status == FANIN_SUCCESS)
        *context = opened;
    else
        fanin_close(opened);
    return status;
}

static void close_context(struct fanin_context *context, int inherited)
{
    fanin_forget_communicators(context, inherited);
    fanin_free_bounce_buffers(context);
    fanin_free_regions(context);
    fanin_disconnect(context);
}

/* Wait until the devices of all ranks have the data of requests that have ended here. */
static void flush_all(const struct fanin_context *context, uint64_t deadline)
{
    const struct timespec moment = {.tv_nsec = POLL_MS * 1000000L};

    while (!fanin_is_flushed(context) && fanin_now_ms() < deadline)
        nanosleep(&moment, NULL);
}

/* Without a LEAVE the end of the connection would end the jobs, and that news may overtake results for other ranks. */
static void leave_jobs(const struct fanin_context *context, uint64_t deadline)
{
    struct fanin_communicator *communicator;

    while ((communicator = fanin_hold_idle(context))) {
        uint64_t now = fanin_now_ms();
        fanin_leave_job(communicator, deadline > now ? (uint32_t)(deadline - now) : 0);
        fanin_release(communicator);
    }
}

void fanin_close(struct fanin_context *context)
{
    uint64_t deadline = fanin_now_ms() + FLUSH_MS;

    if (!context)
        return;
    flush_all(context, deadline);
    leave_jobs(context, deadline);
    close_context(context, 0);
}

void fanin_close_inherited(struct fanin_context *context)
{
    close_context(context, 1);
}
