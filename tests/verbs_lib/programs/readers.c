/* A thread reads the events of a channel while completion queues come and go: it gets each event of a living queue, and
 * none of a destroyed one. Needs fanin0. */
#include "check.h"
#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 80, YIELDS = 50 };

struct round {
    int is_there;
    uint64_t told;
};

static struct end end;
static struct round rounds[ROUNDS];
static int total;

static void *read_events(void *unused)
{
    struct ibv_cq *cq;
    struct round *round;
    void *context;

    do {
        CHECK(!ibv_get_cq_event(end.channel, &cq, &context));
        round = context;
        for (int i = 0; i < YIELDS; i++)
            sched_yield(); /* the queue may be about to end; it waits for the acknowledgement */
        CHECK(__atomic_load_n(&round->is_there, __ATOMIC_SEQ_CST) && cq->cq_context == round);
        __atomic_add_fetch(&round->told, 1, __ATOMIC_SEQ_CST);
        ibv_ack_cq_events(cq, 1);
        __atomic_add_fetch(&total, 1, __ATOMIC_SEQ_CST);
    } while (round != &rounds[ROUNDS - 1]);
    return unused;
}

static void send_one(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

    post_receive(&end, 1);
    CHECK(!ibv_post_send(end.qp, &wr, &bad));
    for (int i = 0; i < 2; i++)
        CHECK(next_completion(&end).status == IBV_WC_SUCCESS);
}

/* A queue that asks for events of one message, and ends when the event may be under way. */
static void play(struct round *round, int is_last)
{
    struct ibv_qp_init_attr init;

    round->is_there = 1;
    CHECK((end.cq = ibv_create_cq(end.context, DEPTH, round, end.channel, 0)));
    init = wanted(&end, IBV_QPT_RC);
    CHECK((end.qp = ibv_create_qp(end.pd, &init)));
    connect_to(&end, &end);
    CHECK(!ibv_req_notify_cq(end.cq, 0));
    send_one();
    CHECK(!ibv_req_notify_cq(end.cq, 0)); /* the first event comes now at the latest */
    while (is_last && !__atomic_load_n(&round->told, __ATOMIC_SEQ_CST))
        sched_yield();
    CHECK(!ibv_destroy_qp(end.qp) && !ibv_destroy_cq(end.cq));
    __atomic_store_n(&round->is_there, 0, __ATOMIC_SEQ_CST);
    CHECK(round->told <= 1);
}

int main(void)
{
    pthread_t reader;

    open_end(&end, "fanin0");
    CHECK(!ibv_destroy_cq(end.cq));
    CHECK(!pthread_create(&reader, NULL, read_events, NULL));
    for (int i = 0; i < ROUNDS; i++)
        play(&rounds[i], i == ROUNDS - 1);
    CHECK(!pthread_join(reader, NULL));
    CHECK(total > 0 && rounds[ROUNDS - 1].told == 1);
    CHECK(!ibv_destroy_comp_channel(end.channel));
    CHECK(!ibv_dereg_mr(end.mr) && !ibv_dealloc_pd(end.pd) && !ibv_close_device(end.context));
    free(end.memory);
    return 0;
}
