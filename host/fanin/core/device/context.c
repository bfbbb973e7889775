#define _GNU_SOURCE
#include "complaint.h"
#include "device/access.h"
#include "device/remote.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define INITIAL_SPIN_BUDGET 50

static struct fanin_context *new_context(const struct device_access *access)
{
    struct fanin_context *context = calloc(1, sizeof *context);
    pthread_condattr_t clock;

    if (!context)
        return NULL;
    context->access = access;
    context->socket = context->doorbell_fd = -1;
    context->spin_budget = INITIAL_SPIN_BUDGET;
    pthread_mutex_init(&context->region_lock, NULL);
    pthread_mutex_init(&context->bounce_lock, NULL);
    pthread_mutex_init(&context->ring_lock, NULL);
    pthread_mutex_init(&context->request_lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&context->answered, &clock);
    pthread_condattr_destroy(&clock);
    return context;
}

enum fanin_status fanin_connect(const char *socket_path, struct fanin_context **context)
{
    struct fanin_context *connected = new_context(fanin_is_remote_address(socket_path) ? &fanin_remote_access
                                                                                       : &fanin_local_access);
    enum fanin_status status = FANIN_NO_RESOURCES;

    fanin_forget_complaint();
    if (connected)
        status = connected->access->connect(connected, socket_path);
    if (status == FANIN_SUCCESS)
        *context = connected;
    else if (connected)
        fanin_disconnect(connected);
    return status;
}

static enum fanin_status read_staging_limit(struct fanin_context *context)
{
    const char *text = getenv("FANIN_STAGING");
    char *rest;

    context->longest_bounced = UINT64_MAX;
    if (!text)
        return FANIN_SUCCESS;
    context->longest_bounced = strtoull(text, &rest, 10);
    if (*text >= '0' && *text <= '9' && !*rest)
        return FANIN_SUCCESS;
    return fanin_complain("FANIN_STAGING is '%.100s', not a number of bytes; set it to a number, or unset it", text);
}

enum fanin_status fanin_attach(struct fanin_context *context, struct fanin_attach_reply *limits)
{
    enum fanin_status status;

    fanin_forget_complaint();
    if (context->region)
        return fanin_complain("the context is attached already");
    if (read_staging_limit(context) != FANIN_SUCCESS)
        return FANIN_INVALID_REQUEST;
    status = context->access->attach(context);
    *limits = context->limits;
    return status;
}

const struct fanin_attach_reply *fanin_limits(const struct fanin_context *context)
{
    return &context->limits;
}

uint32_t fanin_device_version(const struct fanin_context *context)
{
    return __atomic_load_n(&context->device_version, __ATOMIC_RELAXED);
}

void fanin_disconnect(struct fanin_context *context)
{
    context->access->close(context);
    if (context->region)
        munmap(context->region, context->limits.region_bytes);
    if (context->socket >= 0)
        close(context->socket);
    free(context);
}

enum fanin_status fanin_read_status(struct fanin_context *context, char *json, size_t capacity, size_t *length)
{
    struct fanin_message message = {.type = FANIN_MSG_STATUS};
    struct control_request request = {.capacity = sizeof message + capacity};
    enum fanin_status status;

    request.reply = calloc(1, request.capacity);
    if (!request.reply)
        return FANIN_NO_RESOURCES;
    status = fanin_control_call(context, &request, &message, sizeof message, -1);
    if (status == FANIN_SUCCESS) {
        *length = request.length - sizeof message;
        if (*length > capacity)
            status = FANIN_NO_RESOURCES;
        else
            memcpy(json, (char *)request.reply + sizeof message, *length);
    }
    free(request.reply);
    return status;
}
