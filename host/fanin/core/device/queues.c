/* Making and freeing queues, joining and leaving jobs: requests about a queue. */
#include "device/connection.h"
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

/* A JOIN or LEAVE: its reply comes late, and is kept with the request. */
struct fanin_membership_request {
    struct control_request control;
    struct fanin_join_reply reply;
};

static enum fanin_status start_membership(struct fanin_context *context, struct fanin_message *message, size_t size,
                                          struct fanin_membership_request **started)
{
    struct fanin_membership_request *request = calloc(1, sizeof *request);
    enum fanin_status status;

    if (!request)
        return FANIN_NO_RESOURCES;
    request->control.reply = &request->reply;
    request->control.capacity = sizeof request->reply;
    status = fanin_control_start(context, &request->control, message, size, -1);
    if (status == FANIN_SUCCESS)
        *started = request;
    else
        free(request);
    return status;
}

enum fanin_status fanin_join_qp(struct fanin_context *context, const struct fanin_join *join,
                                struct fanin_membership_request **request)
{
    struct fanin_join message = *join;

    message.head = (struct fanin_message){.type = FANIN_MSG_JOIN};
    return start_membership(context, &message.head, sizeof message, request);
}

enum fanin_status fanin_leave_qp(struct fanin_context *context, uint32_t qp, struct fanin_membership_request **request)
{
    struct fanin_queue message = {.head = {.type = FANIN_MSG_LEAVE}, .qp = qp};

    return start_membership(context, &message.head, sizeof message, request);
}

enum fanin_status fanin_await_membership(struct fanin_membership_request *request, struct fanin_join_reply *reply,
                                         uint32_t timeout_ms)
{
    enum fanin_status status = fanin_control_wait(&request->control, timeout_ms);

    /* LEAVE has a shorter reply, whose tail says nothing about a lease. */
    if (request->control.type == FANIN_MSG_JOIN)
        *reply = request->reply;
    else
        memset(reply, 0, sizeof *reply);
    return status;
}

void fanin_forget_membership(struct fanin_membership_request *request)
{
    fanin_control_end(&request->control);
    free(request);
}
