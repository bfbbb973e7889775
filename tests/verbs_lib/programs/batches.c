/* A queue with room for some requests: of a batch none is posted, of a list as many as fit. Needs fanin0. Prints
 * "ready" and waits for a line; from then until it prints "posted" the device is stopped. */
#include "check.h"

enum { ROOM = 4, FIVE = 5 };

static struct end end;
static int most;

static struct ibv_send_wr write_request(uint64_t id)
{
    return (struct ibv_send_wr){.wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                                .wr.rdma = {(uintptr_t)end.memory, end.mr->rkey}};
}

static void open_all(void)
{
    struct ibv_cq_init_attr_ex queue = {.wc_flags = IBV_WC_STANDARD_FLAGS, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                        .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
    struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC, .cap = {10, 10, 2, 2, 64},
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
    struct ibv_device_attr attr;

    open_end(&end, "fanin0");
    CHECK(!ibv_query_device(end.context, &attr));
    most = attr.max_qp_wr;
    queue.cqe = (uint32_t)most;
    CHECK(!ibv_destroy_cq(end.cq));
    CHECK((end.cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(end.context, &queue))));
    init.pd = end.pd;
    init.send_cq = init.recv_cq = end.cq;
    CHECK((end.qp = ibv_create_qp_ex(end.context, &init)));
    connect_to(&end, &end);
}

static void post_batch(void)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(end.qp);

    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    for (qp->wr_id = 0; qp->wr_id < FIVE; qp->wr_id++)
        ibv_wr_rdma_write(qp, end.mr->rkey, (uintptr_t)end.memory);
    CHECK(ibv_wr_complete(qp) == ENOMEM);
}

static void post_list(void)
{
    struct ibv_send_wr wrs[FIVE], *bad = NULL;

    for (int i = 0; i < FIVE; i++) {
        wrs[i] = write_request((uint64_t)(most - ROOM + i));
        wrs[i].next = i + 1 < FIVE ? &wrs[i + 1] : NULL;
    }
    CHECK(ibv_post_send(end.qp, wrs, &bad) == ENOMEM);
    CHECK(bad == &wrs[ROOM]);
}

int main(void)
{
    struct ibv_wc wc;
    char line[8];

    open_all();
    puts("ready");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    for (uint64_t id = 0; id < (uint64_t)(most - ROOM); id++) {
        struct ibv_send_wr wr = write_request(id), *bad;
        CHECK(!ibv_post_send(end.qp, &wr, &bad));
    }
    post_batch();
    post_list();
    puts("posted");
    fflush(stdout);
    for (uint64_t id = 0; id < (uint64_t)most; id++) {
        wc = next_completion(&end);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == id);
    }
    CHECK(!ibv_poll_cq(end.cq, 1, &wc));
    close_end(&end);
    return 0;
}
