/* Two threads poll one queue: each completion is seen once, and complete. Needs fanin0 and fanin1. */
#include "check.h"
#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 20, MESSAGES = 200 };

static struct end sender, receiver;
static struct ibv_cq_ex *polled;
static int seen[MESSAGES], total;

static void note(void)
{
    uint64_t id = polled->wr_id;

    sched_yield(); /* lets the other thread poll */
    CHECK(polled->wr_id == id && polled->status == IBV_WC_SUCCESS);
    CHECK(ibv_wc_read_opcode(polled) == IBV_WC_SEND && id < MESSAGES);
    __atomic_add_fetch(&seen[id], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&total, 1, __ATOMIC_RELAXED);
}

static void *poll_queue(void *unused)
{
    struct ibv_poll_cq_attr attr = {0};
    int empty;

    while (__atomic_load_n(&total, __ATOMIC_RELAXED) < MESSAGES) {
        empty = ibv_start_poll(polled, &attr);
        CHECK(!empty || empty == ENOENT);
        if (empty)
            continue;
        do
            note();
        while (!ibv_next_poll(polled));
        ibv_end_poll(polled);
    }
    return unused;
}

static void play(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    pthread_t threads[2];

    total = 0;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < MESSAGES; i++)
        post_receive(&receiver, (uint64_t)i);
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&threads[i], NULL, poll_queue, NULL));
    for (wr.wr_id = 0; wr.wr_id < MESSAGES; wr.wr_id++)
        CHECK(!ibv_post_send(sender.qp, &wr, &bad));
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_join(threads[i], NULL));
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(seen[i] == 1);
        CHECK(next_completion(&receiver).status == IBV_WC_SUCCESS);
    }
}

int main(void)
{
    struct ibv_cq_init_attr_ex queue = {.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_qp_init_attr init;

    open_end(&sender, "fanin0");
    open_end(&receiver, "fanin1");
    CHECK(!ibv_destroy_cq(sender.cq));
    CHECK((polled = ibv_create_cq_ex(sender.context, &queue)));
    sender.cq = ibv_cq_ex_to_cq(polled);
    init = wanted(&sender, IBV_QPT_RC);
    CHECK((sender.qp = ibv_create_qp(sender.pd, &init)));
    init = wanted(&receiver, IBV_QPT_RC);
    CHECK((receiver.qp = ibv_create_qp(receiver.pd, &init)));
    connect_to(&sender, &receiver);
    connect_to(&receiver, &sender);
    for (int round = 0; round < ROUNDS; round++)
        play();
    close_end(&sender);
    close_end(&receiver);
    return 0;
}
