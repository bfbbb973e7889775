/* Events of a completion channel: exactly one for each request, for a completion that is neither polled nor told of.
 * Needs fanin0 and fanin1. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>

static struct end sender, receiver;

static int has_event(int fd, int milliseconds)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    return poll(&ready, 1, milliseconds);
}

static void send_with(unsigned int flags)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | flags}, *bad;

    post_receive(&receiver, 1);
    CHECK(!ibv_post_send(sender.qp, &wr, &bad));
    CHECK(next_completion(&sender).status == IBV_WC_SUCCESS);
}

static void send_one(void)
{
    send_with(0);
}

static void take_event(void)
{
    struct ibv_cq *cq;
    void *context;

    CHECK(has_event(receiver.channel->fd, 20000)); /* the channel is non-blocking */
    CHECK(!ibv_get_cq_event(receiver.channel, &cq, &context));
    CHECK(cq == receiver.cq && context == &receiver);
    ibv_ack_cq_events(cq, 1);
}

static void open_both(void)
{
    struct ibv_qp_init_attr init;

    open_end(&sender, "fanin0");
    open_end(&receiver, "fanin1");
    init = wanted(&sender, IBV_QPT_RC);
    CHECK((sender.qp = ibv_create_qp(sender.pd, &init)));
    init = wanted(&receiver, IBV_QPT_RC);
    CHECK((receiver.qp = ibv_create_qp(receiver.pd, &init)));
    connect_to(&sender, &receiver);
    connect_to(&receiver, &sender);
}

/* Events for solicited messages and errors only, unless the program has asked for all before. */
static void ask_for_solicited(void)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

    CHECK(!ibv_req_notify_cq(receiver.cq, 1));
    send_one();
    CHECK(!has_event(receiver.channel->fd, 100));
    send_with(IBV_SEND_SOLICITED);
    take_event();
    for (int i = 0; i < 2; i++)
        next_completion(&receiver);
    CHECK(!ibv_req_notify_cq(receiver.cq, 0) && !ibv_req_notify_cq(receiver.cq, 1));
    send_one();
    take_event();
    next_completion(&receiver);
    CHECK(!ibv_req_notify_cq(receiver.cq, 1));
    post_receive(&receiver, 1);
    CHECK(!ibv_modify_qp(receiver.qp, &error, IBV_QP_STATE));
    take_event();
    CHECK(next_completion(&receiver).status == IBV_WC_WR_FLUSH_ERR);
    CHECK(!has_event(receiver.channel->fd, 100));
}

int main(void)
{
    struct ibv_async_event event;

    open_both();
    send_one();
    CHECK(!has_event(receiver.channel->fd, 100)); /* not asked for */
    CHECK(!ibv_req_notify_cq(receiver.cq, 0));
    take_event(); /* of an earlier completion: UCX asks after its last poll, and waits */
    next_completion(&receiver);
    CHECK(!ibv_req_notify_cq(receiver.cq, 0));
    CHECK(!has_event(receiver.channel->fd, 100)); /* all are polled */
    send_one();
    CHECK(has_event(receiver.channel->fd, 20000));
    take_event();
    CHECK(!ibv_req_notify_cq(receiver.cq, 0));
    CHECK(!has_event(receiver.channel->fd, 100)); /* perftest asks before it polls */
    send_one();
    take_event();
    send_one();
    CHECK(!has_event(receiver.channel->fd, 100)); /* one request, one event */
    for (int i = 0; i < 3; i++)
        next_completion(&receiver);

    CHECK(!ibv_req_notify_cq(receiver.cq, 0));
    send_one();
    next_completion(&receiver);
    CHECK(!ibv_req_notify_cq(receiver.cq, 0)); /* the first event is due by now, even if it comes late */
    send_one();
    take_event();
    take_event();
    CHECK(!has_event(receiver.channel->fd, 100));
    next_completion(&receiver);

    CHECK(!fcntl(receiver.channel->fd, F_SETFL, O_NONBLOCK));
    CHECK(ibv_get_cq_event(receiver.channel, &(struct ibv_cq *){NULL}, &(void *){NULL}) == -1 && errno == EAGAIN);
    CHECK(!has_event(receiver.context->async_fd, 0));
    CHECK(!fcntl(receiver.context->async_fd, F_SETFL, O_NONBLOCK));
    CHECK(ibv_get_async_event(receiver.context, &event) == -1 && errno == EAGAIN);

    CHECK(!ibv_req_notify_cq(receiver.cq, 0));
    send_one();
    CHECK(has_event(receiver.channel->fd, 20000));
    take_event();
    next_completion(&receiver);
    ask_for_solicited();
    CHECK(!ibv_req_notify_cq(receiver.cq, 0));
    CHECK(ibv_close_device(receiver.context) == EBUSY); /* the library still uses the queue */
    CHECK(!ibv_destroy_qp(receiver.qp) && !ibv_destroy_cq(receiver.cq));
    CHECK(!has_event(receiver.channel->fd, 0));
    CHECK(!ibv_destroy_comp_channel(receiver.channel));
    close_end(&sender);
    return 0;
}
