/* Requests about queues: creating, destroying, joining and leaving jobs. */
#include "device/access.h"
#include <stdlib.h>

static enum fanin_status ask(struct fanin_context *context, enum fanin_message_type type, struct fanin_queue *message)
{
    return fanin_exchange(context, (uint16_t)type, &message->head, sizeof *message, -1);
}

enum fanin_status fanin_create_cq(struct fanin_context *context, uint32_t *cq)
{
    struct fanin_queue message = {0};
    enum fanin_status status = ask(context, FANIN_MSG_CREATE_CQ, &message);

    if (status != FANIN_SUCCESS)
        return status;
    context->access->begin_cq(context, message.cq);
    *cq = message.cq;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_destroy_cq(struct fanin_context *context, uint32_t cq)
{
    return ask(context, FANIN_MSG_DESTROY_CQ, &(struct fanin_queue){.cq = cq});
}

enum fanin_status fanin_create_qp(struct fanin_context *context, uint32_t cq, uint32_t *qp)
{
    struct fanin_queue message = {.cq = cq};
    enum fanin_status status = ask(context, FANIN_MSG_CREATE_QP, &message);

    if (status != FANIN_SUCCESS)
        return status;
    context->access->begin_qp(context, message.qp);
    *qp = message.qp;
    return FANIN_SUCCESS;
}

/* Over RDMA results may come after the reply; record 0108 (docs/decisions) says how markers order the two. */
enum fanin_status fanin_await_results(struct fanin_context *context, uint32_t timeout_ms)
{
    return context->access->await_results(context, timeout_ms);
}

enum fanin_status fanin_destroy_qp(struct fanin_context *context, uint32_t qp)
{
    enum fanin_status status = ask(context, FANIN_MSG_DESTROY_QP, &(struct fanin_queue){.qp = qp});

    return status == FANIN_SUCCESS ? fanin_await_results(context, fanin_request_timeout_ms(context)) : status;
}

/* A JOIN or LEAVE, and its reply, which may come late. */
struct fanin_membership_request {
    struct control_request control;
    struct fanin_join_reply reply;
};

/* `capacity`: bytes of the reply to keep. */
static enum fanin_status start_membership(struct fanin_context *context, struct fanin_message *message, size_t size,
                                          size_t capacity, struct fanin_membership_request **started)
{
    struct fanin_membership_request *request = calloc(1, sizeof *request);
    enum fanin_status status;

    if (!request)
        return FANIN_NO_RESOURCES;
    request->control.reply = &request->reply;
    request->control.capacity = capacity;
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
    return start_membership(context, &message.head, sizeof message, sizeof(struct fanin_join_reply), request);
}

/* Keeps only the head of the reply, which has no lease. */
enum fanin_status fanin_leave_qp(struct fanin_context *context, uint32_t qp, struct fanin_membership_request **request)
{
    struct fanin_queue message = {.head = {.type = FANIN_MSG_LEAVE}, .qp = qp};

    return start_membership(context, &message.head, sizeof message, sizeof message.head, request);
}

enum fanin_status fanin_await_membership(struct fanin_membership_request *request, struct fanin_join_reply *reply,
                                         uint32_t timeout_ms)
{
    struct fanin_context *context = request->control.context;
    uint64_t deadline = fanin_now_ms() + timeout_ms, now;
    enum fanin_status status = fanin_control_wait(&request->control, timeout_ms);

    pthread_mutex_lock(&context->request_lock); /* a later reply may overwrite it */
    *reply = request->reply;
    pthread_mutex_unlock(&context->request_lock);
    now = fanin_now_ms();
    if (status == FANIN_SUCCESS && reply->head.type == FANIN_MSG_LEAVE)
        status = fanin_await_results(context, deadline > now ? (uint32_t)(deadline - now) : 0);
    return status;
}

void fanin_forget_membership(struct fanin_membership_request *request)
{
    fanin_control_end(&request->control);
    free(request);
}
