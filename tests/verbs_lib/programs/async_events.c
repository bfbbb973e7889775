/* Asynchronous events: a connection is established, a completion queue overruns and its queue pair fails, a device is
 * lost. Needs fanin0. "lost" as argument: prints "waiting", and expects that the device ends. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>

enum { TOO_MANY = 10000 };    /* requests: more than a queue pair and a completion queue hold together */

static struct end end;

static struct ibv_async_event next_event(enum ibv_event_type type)
{
    struct ibv_async_event event;

    CHECK(!ibv_get_async_event(end.context, &event));
    CHECK(event.event_type == type);
    return event;
}

static int has_event(void)
{
    struct pollfd ready = {.fd = end.context->async_fd, .events = POLLIN};

    return poll(&ready, 1, 0);
}

static struct ibv_qp *new_queue_pair(void)
{
    struct ibv_qp_init_attr init = wanted(&end, IBV_QPT_RC);
    struct ibv_qp *made = ibv_create_qp(end.pd, &init);

    CHECK(made);
    return made;
}

static void post_write(uint64_t id)
{
    struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)end.memory, end.mr->rkey}}, *bad;
    int error;

    do
        CHECK(!(error = ibv_post_send(end.qp, &wr, &bad)) || error == ENOMEM);
    while (error);
}

/* A queue pair receives before it may send. */
static void establish(struct ibv_qp *sender, struct ibv_qp *receiver)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    struct end other = end;

    other.qp = receiver;
    end.qp = sender;
    connect_to(&end, &other);
    CHECK(!ibv_modify_qp(receiver, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = sender->qp_num,
                                .rq_psn = 7, .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = end.gid}}};
    CHECK(!ibv_modify_qp(receiver, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    for (int i = 0; i < 2; i++)
        post_receive(&other, 1);
    for (int i = 0; i < 2; i++)
        CHECK(!ibv_post_send(sender, &wr, &bad));
    for (int i = 0; i < 4; i++)
        CHECK(next_completion(&end).status == IBV_WC_SUCCESS);
}

static void established(void)
{
    struct ibv_qp *sender = new_queue_pair(), *receiver = new_queue_pair();
    struct ibv_async_event event;

    establish(sender, receiver);
    event = next_event(IBV_EVENT_COMM_EST);
    CHECK(event.element.qp == receiver);
    CHECK(!has_event()); /* it is told once */
    ibv_ack_async_event(&event);
    CHECK(!ibv_destroy_qp(sender) && !ibv_destroy_qp(receiver));

    sender = new_queue_pair();
    receiver = new_queue_pair();
    establish(sender, receiver);
    CHECK(has_event());
    CHECK(!ibv_destroy_qp(sender) && !ibv_destroy_qp(receiver));
    CHECK(!has_event()); /* it goes with its queue pair */
}

static void overrun(void)
{
    struct ibv_async_event event;
    struct ibv_wc wc;
    int count;

    end.qp = new_queue_pair();
    connect_to(&end, &end);
    for (uint64_t id = 0; id < TOO_MANY; id++)
        post_write(id);
    do
        count = ibv_poll_cq(end.cq, 1, &wc);
    while (count >= 0);
    CHECK(errno == EIO);
    event = next_event(IBV_EVENT_CQ_ERR);
    CHECK(event.element.cq == end.cq);
    ibv_ack_async_event(&event);
    event = next_event(IBV_EVENT_QP_FATAL);
    CHECK(event.element.qp == end.qp);
    ibv_ack_async_event(&event);
    CHECK(!has_event());
}

static void lost(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    struct ibv_async_event event;
    struct ibv_wc wc;

    end.qp = new_queue_pair();
    connect_to(&end, &end);
    puts("waiting");
    fflush(stdout);
    event = next_event(IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
    CHECK(ibv_post_send(end.qp, &wr, &bad) == EIO && bad == &wr);
    CHECK(ibv_poll_cq(end.cq, 1, &wc) == -1 && errno == EIO);
    CHECK(!has_event());
}

int main(int count, char **arguments)
{
    open_end(&end, "fanin0");
    if (count == 2 && !strcmp(arguments[1], "lost")) {
        lost();
    } else {
        established();
        overrun();
    }
    close_end(&end);
    return 0;
}
