/* A forked child frees its parent's objects, without telling the device, and opens its own. Needs fanin0. */
#include "check.h"
#include <sys/wait.h>

static struct end end;
static struct ibv_srq *shared;

static void open_all(void)
{
    struct ibv_srq_init_attr of_shared = {.attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_qp_init_attr init;

    open_end(&end, "fanin0");
    init = wanted(&end, IBV_QPT_RC);
    CHECK((end.qp = ibv_create_qp(end.pd, &init)));
    connect_to(&end, &end);
    CHECK(!ibv_req_notify_cq(end.cq, 0)); /* a thread waits */
    CHECK((shared = ibv_create_srq(end.pd, &of_shared)));
}

static void close_all(void)
{
    CHECK(!ibv_destroy_srq(shared));
    close_end(&end);
}

static void send_one(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    struct ibv_cq *cq;
    void *context;

    post_receive(&end, 1);
    CHECK(!ibv_post_send(end.qp, &wr, &bad));
    for (int i = 0; i < 2; i++)
        CHECK(next_completion(&end).status == IBV_WC_SUCCESS);
    CHECK(!ibv_get_cq_event(end.channel, &cq, &context));
    ibv_ack_cq_events(cq, 1);
}

static void run_child(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive;
    struct ibv_async_event event;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr init = wanted(&end, IBV_QPT_RC);
    struct ibv_srq_init_attr of_shared = {.attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    alarm(30);
    REFUSES(ibv_post_send(end.qp, &wr, &bad), EIO);
    REFUSES(ibv_post_recv(end.qp, &receive, &bad_receive), EIO);
    REFUSES(ibv_post_srq_recv(shared, &receive, &bad_receive), EIO);
    REFUSES(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE), EIO);
    REFUSES(ibv_query_qp(end.qp, &attr, IBV_QP_STATE, &init), EIO);
    REFUSES(ibv_req_notify_cq(end.cq, 0), EIO);
    REFUSES(ibv_resize_cq(end.cq, 1), EIO);
    CHECK(ibv_poll_cq(end.cq, 1, &wc) == -1 && errno == EIO);
    CHECK(ibv_get_cq_event(end.channel, &cq, &context) == -1 && errno == EIO);
    CHECK(ibv_get_async_event(end.context, &event) == -1 && errno == EIO);
    REFUSES_NULL(ibv_create_cq(end.context, 1, NULL, NULL, 0), EIO);
    REFUSES_NULL(ibv_create_qp(end.pd, &init), EIO);
    REFUSES_NULL(ibv_create_srq(end.pd, &of_shared), EIO);
    REFUSES_NULL(ibv_reg_mr(end.pd, end.memory, MEMORY, ALL), EIO);
    close_all();
    open_all();
    send_one();
    close_all();
    exit(0);
}

int main(void)
{
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad;
    int status;
    pid_t child;

    open_all();
    child = fork();
    if (child == 0)
        run_child();
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    send_one(); /* the parent's objects still work */
    CHECK(!ibv_post_srq_recv(shared, &receive, &bad));
    close_all();
    return 0;
}
