#define _GNU_SOURCE
#include "abi/next.h"
#include "completions/completions.h"
#include "device/device.h"
#include "objects.h"
#include "queue_pairs/queue_pairs.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DESCRIPTOR "fanin-verbs"

static const struct verbs_context model = {
    .query_port = our_query_port,
    .create_cq_ex = our_create_cq_ex,
    .query_device_ex = our_query_device_ex,
    .create_qp_ex = our_create_qp_ex,
    .sz = sizeof(struct verbs_context),
    .context = {.ops = {.poll_cq = our_poll_cq,
                        .req_notify_cq = our_request_event,
                        .post_srq_recv = our_post_shared,
                        .post_send = our_post_send,
                        .post_recv = our_post_receive},
                .cmd_fd = -1,
                .async_fd = -1,
                .num_comp_vectors = 1,
                .abi_compat = IBV_EXTENDED},
};

/* The descriptor for commands is never read; its name identifies it when a program passes it on. */
static int open_descriptors(struct our_context *context)
{
    if (!our_open_events(&context->events))
        return 0;
    context->base.context.async_fd = context->events.fd;
    context->base.context.cmd_fd = memfd_create(DESCRIPTOR, MFD_CLOEXEC);
    if (context->base.context.cmd_fd >= 0)
        return 1;
    our_close_events(&context->events);
    return 0;
}

/* Contexts can not be shared between processes. */
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    static const char target[] = "/memfd:" DESCRIPTOR;
    char link[64], found[sizeof target] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", cmd_fd);
    if (readlink(link, found, sizeof target - 1) < 0 || strcmp(found, target) != 0)
        return NEXT(ibv_import_device, "IBVERBS_1.10")(cmd_fd);
    return our_null(EOPNOTSUPP);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct our_context *context;
    int error;

    if (!our_device_is(device))
        return NEXT(ibv_open_device, "IBVERBS_1.1")(device);
    context = malloc(sizeof *context);
    if (!context)
        return our_null(ENOMEM);
    *context = (struct our_context){.base = model};
    context->base.context.device = device;
    error = our_errno(fanin_open(((struct our_device *)device)->socket, &context->fanin));
    if (!error && fanin_limits(context->fanin)->max_ordinary_qp == 0)
        error = EOPNOTSUPP;
    if (!error && !open_descriptors(context))
        error = errno;
    if (error) {
        fanin_close(context->fanin);
        free(context);
        return our_null(error);
    }
    our_note_address(device, fanin_limits(context->fanin)->address);
    our_own(context);
    pthread_mutex_init(&context->base.context.mutex, NULL);
    pthread_mutex_init(&context->owners_lock, NULL);
    return &context->base.context;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
    if (!our_context_is(context))
        return NEXT(ibv_close_device, "IBVERBS_1.1")(context);
    if (our_is_inherited(context))
        fanin_close_inherited(our_fanin(context));
    else if (our_in_use(&our_context(context)->users))
        return errno = EBUSY; /* programs check either */
    else
        fanin_close(our_fanin(context));
    close(context->cmd_fd);
    our_close_events(&our_context(context)->events);
    pthread_mutex_destroy(&context->mutex);
    pthread_mutex_destroy(&our_context(context)->owners_lock);
    free(our_context(context));
    return 0;
}
