/* Making and freeing queues, joining and leaving jobs: requests about a queue. */
#include "context.h"
#include <stdlib.h>
#include <string.h>

enum fanin_status fanin_create_cq(struct fanin_context *context, uint32_t *cq)
{
    struct fanin_queue message = {0};
    enum fanin_status status = fanin_exchange(context, FANIN_MSG_CREATE_CQ, &message.head, sizeof message, -1);

    if (status == FANIN_SUCCESS)
        *cq = message.cq;
    return status;
}

enum fanin_status fanin_destroy_cq(struct fanin_context *context, uint32_t cq)
{
    struct fanin_queue message = {.cq = cq};

    return fanin_exchange(context, FANIN_MSG_DESTROY_CQ, &message.head, sizeof message, -1);
}

enum fanin_status fanin_create_qp(struct fanin_context *context, uint32_t cq, uint32_t *qp)
{
    struct fanin_queue message = {.cq = cq};
    enum fanin_status status = fanin_exchange(context, FANIN_MSG_CREATE_QP, &message.head, sizeof message, -1);

    if (status == FANIN_SUCCESS)
        *qp = message.qp;
    return status;
}

enum fanin_status fanin_destroy_qp(struct fanin_context *context, uint32_t qp)
{
    struct fanin_queue message = {.qp = qp};

    return fanin_exchange(context, FANIN_MSG_DESTROY_QP, &message.head, sizeof message, -1);
}

static enum fanin_status start_late(struct fanin_context *context, struct fanin_message *message, size_t size,
                                    struct fanin_request **started)
{
    struct fanin_request *request = calloc(1, sizeof *request);
    enum fanin_status status;

    if (!request)
        return FANIN_NO_RESOURCES;
    request->reply = &request->late;
    request->capacity = sizeof request->late;
    status = fanin_request_start(context, request, message, size, -1);
    if (status == FANIN_SUCCESS)
        *started = request;
    else
        free(request);
    return status;
}

enum fanin_status fanin_join(struct fanin_context *context, const struct fanin_join *join,
                             struct fanin_request **request)
{
    struct fanin_join message = *join;

    message.head = (struct fanin_message){.type = FANIN_MSG_JOIN};
    return start_late(context, &message.head, sizeof message, request);
}

enum fanin_status fanin_leave(struct fanin_context *context, uint32_t qp, struct fanin_request **request)
{
    struct fanin_queue message = {.head = {.type = FANIN_MSG_LEAVE}, .qp = qp};

    return start_late(context, &message.head, sizeof message, request);
}

enum fanin_status fanin_await(struct fanin_request *request, struct fanin_join_reply *reply, uint32_t timeout_ms)
{
    enum fanin_status status = fanin_request_wait(request, timeout_ms);

    /* LEAVE has a shorter reply, whose tail says nothing about a lease. */
    if (request->type == FANIN_MSG_JOIN)
        *reply = request->late;
    else
        memset(reply, 0, sizeof *reply);
    return status;
}

void fanin_forget(struct fanin_request *request)
{
    fanin_request_end(request);
    free(request);
}
