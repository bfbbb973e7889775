/* Asynchronous events: a connection is established, a completion queue overruns and its queue pair fails, a device is
 * lost. Needs fanin0. "lost" as argument, or "two threads": prints "waiting", and expects that the device ends. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

enum { TOO_MANY = 10000 };    /* requests: more than a queue pair and a completion queue hold together */

static struct end end;
static pthread_barrier_t both_woken;
static sem_t is_waiting, is_asking, may_go_on;
static __thread int is_waiter, is_asker; /* what this thread still has to do in `poll` */

/* Replaces libc's, also for the library: the threads of a test meet here. */
int poll(struct pollfd *descriptors, nfds_t count, int milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    int found;

    if (is_waiter && milliseconds > 0)
        sem_post(&is_waiting);
    if (is_asker && milliseconds > 0) { /* for the device's answer */
        is_asker = 0;
        sem_post(&is_asking);
        sem_wait(&may_go_on);
    }
    found = ppoll(descriptors, count, milliseconds < 0 ? NULL : &time, NULL);
    if (is_waiter && milliseconds > 0 && found > 0) {
        is_waiter = 0;
        pthread_barrier_wait(&both_woken);
    }
    return found;
}

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

static struct ibv_qp *new_queue_pair_on(struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = wanted(&end, IBV_QPT_RC);
    struct ibv_qp *made;

    init.send_cq = init.recv_cq = cq;
    made = ibv_create_qp(end.pd, &init);

    CHECK(made);
    return made;
}

static struct ibv_qp *new_queue_pair(void)
{
    return new_queue_pair_on(end.cq);
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

/* A queue pair receives before it may send; the completion is in `end.cq`. */
static void send_before_established(struct ibv_qp *sender, struct ibv_qp *receiver)
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
}

static void establish(struct ibv_qp *sender, struct ibv_qp *receiver)
{
    send_before_established(sender, receiver);
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
    CHECK(!has_event()); /* reported once */
    ibv_ack_async_event(&event);
    CHECK(!ibv_destroy_qp(sender) && !ibv_destroy_qp(receiver));

    sender = new_queue_pair();
    receiver = new_queue_pair();
    establish(sender, receiver);
    CHECK(has_event());
    CHECK(!ibv_destroy_qp(sender) && !ibv_destroy_qp(receiver));
    CHECK(!has_event()); /* gone with its queue pair */
}

static void overflow(void)
{
    connect_to(&end, &end);
    for (uint64_t id = 0; id < TOO_MANY; id++)
        post_write(id);
}

static void find_overrun(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int count;

    do
        count = ibv_poll_cq(cq, 1, &wc);
    while (count >= 0);
    CHECK(errno == EIO);
}

static void overrun(void)
{
    struct ibv_async_event event;

    end.qp = new_queue_pair();
    overflow();
    find_overrun(end.cq);
    event = next_event(IBV_EVENT_CQ_ERR);
    CHECK(event.element.cq == end.cq);
    ibv_ack_async_event(&event);
    event = next_event(IBV_EVENT_QP_FATAL);
    CHECK(event.element.qp == end.qp);
    ibv_ack_async_event(&event);
    CHECK(!has_event());
}

static void *ask_for_failed(void *cq)
{
    is_asker = 1;
    find_overrun(cq);
    CHECK(!is_asker);
    return NULL;
}

/* While the library asks the device for a state, other threads poll. */
static void overrun_beside(void)
{
    struct ibv_cq *cq = ibv_create_cq(end.context, DEPTH, NULL, NULL, 0);
    struct ibv_qp *sender = new_queue_pair(), *receiver = new_queue_pair(), *failed;
    struct ibv_async_event event;
    pthread_t asker;

    CHECK(cq);
    send_before_established(sender, receiver);
    failed = end.qp = new_queue_pair_on(cq);
    overflow();
    CHECK(!pthread_create(&asker, NULL, ask_for_failed, cq));
    CHECK(!sem_wait(&is_asking));
    for (int i = 0; i < 4; i++)
        CHECK(next_completion(&end).status == IBV_WC_SUCCESS);
    CHECK(!sem_post(&may_go_on));
    CHECK(!pthread_join(asker, NULL));
    event = next_event(IBV_EVENT_CQ_ERR);
    ibv_ack_async_event(&event);
    event = next_event(IBV_EVENT_COMM_EST);
    ibv_ack_async_event(&event);
    event = next_event(IBV_EVENT_QP_FATAL);
    CHECK(event.element.qp == failed);
    ibv_ack_async_event(&event);
    CHECK(!ibv_destroy_qp(failed) && !ibv_destroy_cq(cq));
    CHECK(!ibv_destroy_qp(sender) && !ibv_destroy_qp(receiver));
}

static void *wait_for_event(void *place)
{
    struct ibv_async_event *event = place;

    is_waiter = 1;
    CHECK(!ibv_get_async_event(end.context, event));
    ibv_ack_async_event(event);
    return NULL;
}

/* Both wake for one event: one gets it, and the other still notices the loss of the device. */
static void two_threads(void)
{
    struct ibv_async_event events[2];
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&threads[i], NULL, wait_for_event, &events[i]));
    for (int i = 0; i < 2; i++)
        CHECK(!sem_wait(&is_waiting));
    end.qp = new_queue_pair();
    establish(new_queue_pair(), end.qp);
    puts("waiting");
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_join(threads[i], NULL));
    CHECK(events[0].event_type != events[1].event_type);
    for (int i = 0; i < 2; i++)
        CHECK(events[i].event_type == IBV_EVENT_COMM_EST || events[i].event_type == IBV_EVENT_DEVICE_FATAL);
    CHECK(!has_event());
    exit(0);
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
    CHECK(!sem_init(&is_waiting, 0, 0) && !sem_init(&is_asking, 0, 0) && !sem_init(&may_go_on, 0, 0));
    CHECK(!pthread_barrier_init(&both_woken, NULL, 2));
    open_end(&end, "fanin0");
    if (count == 2 && !strcmp(arguments[1], "lost")) {
        lost();
    } else if (count == 2) {
        two_threads();
    } else {
        established();
        overrun_beside();
        overrun();
    }
    close_end(&end);
    return 0;
}
