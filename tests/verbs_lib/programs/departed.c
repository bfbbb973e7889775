/* A destroyed or reset queue pair takes its completions along; those of others stay in order. Needs fanin0 and
 * fanin1. */
#include "check.h"

enum { ROUNDS = 5 };

static struct end sender, receiver, others[2]; /* two connections over the same completion queues */

static void connect_both(struct end *from, struct end *to)
{
    struct ibv_qp_init_attr init = wanted(from, IBV_QPT_RC);

    CHECK((from->qp = ibv_create_qp(from->pd, &init)));
    init = wanted(to, IBV_QPT_RC);
    CHECK((to->qp = ibv_create_qp(to->pd, &init)));
    connect_to(from, to);
    connect_to(to, from);
}

/* ROUNDS messages of each connection, in turn, without a poll. */
static void fill_queues(void)
{
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

    for (int i = 0; i < ROUNDS; i++) {
        wr.wr_id = (uint64_t)i;
        post_receive(&receiver, wr.wr_id);
        post_receive(&others[1], wr.wr_id);
        CHECK(!ibv_post_send(sender.qp, &wr, &bad) && !ibv_post_send(others[0].qp, &wr, &bad));
    }
    /* With the last, all are complete. */
    post_receive(&others[1], 1000);
    wr.wr_id = 1000;
    CHECK(!ibv_post_send(others[0].qp, &wr, &bad));
    usleep(300000);
}

static void expect_others(struct end *end, const struct ibv_qp *qp)
{
    struct ibv_wc wc;

    for (int i = 0; i <= ROUNDS; i++) {
        wc = next_completion(end);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == qp->qp_num && wc.wr_id == (i < ROUNDS ? (uint64_t)i : 1000));
    }
    CHECK(ibv_poll_cq(end->cq, 1, &wc) == 0);
}

int main(void)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

    open_end(&sender, "fanin0");
    open_end(&receiver, "fanin1");
    others[0] = sender;
    others[1] = receiver;
    connect_both(&others[0], &others[1]);
    for (int is_reset = 0; is_reset < 2; is_reset++) {
        connect_both(&sender, &receiver);
        fill_queues();
        CHECK(is_reset ? !ibv_modify_qp(receiver.qp, &reset, IBV_QP_STATE) : !ibv_destroy_qp(receiver.qp));
        CHECK(is_reset ? !ibv_modify_qp(sender.qp, &reset, IBV_QP_STATE) : !ibv_destroy_qp(sender.qp));
        expect_others(&receiver, others[1].qp);
        expect_others(&sender, others[0].qp);
    }
    return 0;
}
