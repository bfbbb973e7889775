#define _GNU_SOURCE
#include "rdma/queue_pair.h"
#include <arpa/inet.h>
#include <sched.h>

enum { SIGNAL_EVERY = 32 };
#define A_READ (1ull << 32) /* in the wr_id of a request */

void fanin_rdma_fail(struct rdma_queue_pair *pair)
{
    __atomic_store_n(&pair->broken, 1, __ATOMIC_RELEASE);
}

int fanin_rdma_is_broken(const struct rdma_queue_pair *pair)
{
    return (int)__atomic_load_n(&pair->broken, __ATOMIC_ACQUIRE);
}

/* Take completions. Each includes the unsignaled requests before it. */
static int reap(struct rdma_queue_pair *pair)
{
    struct ibv_wc completions[RDMA_REAPED];
    int found = pair->device->ops.poll_cq(pair->sends, RDMA_REAPED, completions);

    if (found < 0)
        fanin_rdma_fail(pair);
    for (int i = 0; i < found; i++) {
        if (completions[i].status)
            fanin_rdma_fail(pair);
        pair->posted -= (uint32_t)completions[i].wr_id;
        pair->reading -= completions[i].wr_id & A_READ ? 1 : 0;
    }
    return found;
}

/* Never endless: if the other side has gone, the queue pair fails within its time-out. */
static void make_room(struct rdma_queue_pair *pair)
{
    while (!fanin_rdma_is_broken(pair) && pair->posted >= RDMA_SEND_DEPTH)
        if (!reap(pair))
            sched_yield();
}

enum fanin_status fanin_rdma_post(struct rdma_queue_pair *pair, const struct rdma_request *request)
{
    struct ibv_sge piece = {(uintptr_t)request->local, request->length, request->lkey};
    struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = request->length != 0, .opcode = request->opcode,
                             .imm_data = htonl(request->immediate)}, *bad;

    make_room(pair);
    if (fanin_rdma_is_broken(pair))
        return FANIN_DEVICE_LOST;
    wr.wr.rdma.remote_addr = request->address;
    wr.wr.rdma.rkey = request->rkey;
    if (request->opcode != FANIN_SEND_RDMA_READ && request->length && request->length <= pair->inline_bytes)
        wr.send_flags |= FANIN_SEND_INLINE;
    wr.wr_id = ++pair->unsignaled;
    if (request->opcode == FANIN_SEND_RDMA_READ) {
        wr.wr_id |= A_READ;
        pair->reading++;
    }
    if (pair->unsignaled >= SIGNAL_EVERY || request->opcode == FANIN_SEND_RDMA_READ) {
        wr.send_flags |= FANIN_SEND_SIGNALED;
        pair->unsignaled = 0;
    }
    if (pair->device->ops.post_send(pair->qp, &wr, &bad)) {
        fanin_rdma_fail(pair);
        return FANIN_DEVICE_LOST;
    }
    pair->posted++;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_rdma_await_reads(struct rdma_queue_pair *pair)
{
    while (!fanin_rdma_is_broken(pair) && pair->reading)
        if (!reap(pair))
            sched_yield();
    return fanin_rdma_is_broken(pair) ? FANIN_DEVICE_LOST : FANIN_SUCCESS;
}

int fanin_rdma_take(struct rdma_queue_pair *pair, uint32_t immediates[RDMA_REAPED])
{
    struct ibv_wc completions[RDMA_REAPED];
    struct ibv_recv_wr buffer = {0}, *bad;
    int found;

    if (fanin_rdma_is_broken(pair))
        return 0;
    found = pair->device->ops.poll_cq(pair->receives, RDMA_REAPED, completions);
    if (found < 0)
        fanin_rdma_fail(pair);
    for (int i = 0; i < found; i++) {
        if (completions[i].status || pair->device->ops.post_recv(pair->qp, &buffer, &bad)) {
            fanin_rdma_fail(pair);
            return i;
        }
        immediates[i] = ntohl(completions[i].imm_data);
    }
    return found < 0 ? 0 : found;
}

void fanin_rdma_ask_for_event(struct rdma_queue_pair *pair)
{
    pair->device->ops.req_notify_cq(pair->receives, 0);
}

void fanin_rdma_take_events(struct rdma_queue_pair *pair)
{
    struct ibv_cq *queue;
    void *about;

    while (pair->library->get_cq_event(pair->channel, &queue, &about) == 0)
        pair->library->ack_cq_events(queue, 1);
}
