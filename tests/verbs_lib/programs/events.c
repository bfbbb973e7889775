/* Events of a completion channel: one for the next completion after each request, and none else. Needs fanin0 and
 * fanin1. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>

static struct end sender, receiver;

static int has_event(int fd, int milliseconds)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    return poll(&ready, 1, milliseconds);
}

static void send_one(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

    post_receive(&receiver, 1);
    CHECK(!ibv_post_send(sender.qp, &wr, &bad));
    CHECK(next_completion(&sender).status == IBV_WC_SUCCESS);
}

static void take_event(void)
{
    struct ibv_cq *cq;
    void *context;

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

int main(void)
{
    struct ibv_async_event event;

    open_both();
    send_one();
    CHECK(!has_event(receiver.channel->fd, 100)); /* nobody has asked */
    CHECK(!ibv_req_notify_cq(receiver.cq, 0));
    CHECK(!has_event(receiver.channel->fd, 100)); /* the completion that is there came before */
    send_one();
    CHECK(has_event(receiver.channel->fd, 2000));
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
    CHECK(has_event(receiver.channel->fd, 2000)); /* an event that nobody reads goes with its queue */
    CHECK(!ibv_req_notify_cq(receiver.cq, 0));
    CHECK(ibv_close_device(receiver.context) == EBUSY); /* the library still looks at the queue */
    CHECK(!ibv_destroy_qp(receiver.qp) && !ibv_destroy_cq(receiver.cq));
    CHECK(!has_event(receiver.channel->fd, 0));
    CHECK(!ibv_destroy_comp_channel(receiver.channel));
    close_end(&sender);
    return 0;
}
