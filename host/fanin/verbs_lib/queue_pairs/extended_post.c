#include "queue_pairs/queue_pairs.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

struct our_batch {
    pthread_mutex_t lock;     /* from ibv_wr_start to complete or abort */
    int error;                /* of a request; 0: none */
    uint32_t count;
    struct fanin_send_wqe wqes[OUR_QUEUE_DEPTH];
};

static struct our_batch *batch_of(struct ibv_qp_ex *qp)
{
    return ((struct our_qp *)qp)->batch;
}

/* The request under construction, or one that is never posted. */
static struct fanin_send_wqe *last(struct our_batch *batch)
{
    return &batch->wqes[batch->count ? batch->count - 1 : 0];
}

static struct fanin_send_wqe *begin(struct ibv_qp_ex *qp, uint8_t opcode)
{
    struct our_batch *batch = batch_of(qp);
    const unsigned int known = FANIN_SEND_FENCE | FANIN_SEND_SIGNALED | FANIN_SEND_SOLICITED;

    if (batch->count == OUR_QUEUE_DEPTH)
        batch->error = ENOMEM;
    else
        batch->count++;
    if (qp->wr_flags & ~known)
        batch->error = EINVAL;
    *last(batch) = (struct fanin_send_wqe){
        .wr_id = qp->wr_id, .opcode = opcode, .flags = (uint8_t)(qp->wr_flags & known)};
    return last(batch);
}

static struct fanin_send_wqe *begin_remote(struct ibv_qp_ex *qp, uint8_t opcode, uint32_t rkey, uint64_t address)
{
    struct fanin_send_wqe *wqe = begin(qp, opcode);

    wqe->rkey = rkey;
    wqe->remote_address = address;
    return wqe;
}

static void compare_and_swap(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap)
{
    struct fanin_send_wqe *wqe = begin_remote(qp, FANIN_SEND_ATOMIC_CMP_AND_SWP, rkey, address);

    wqe->compare_add = compare;
    wqe->swap = swap;
}

static void fetch_and_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, uint64_t add)
{
    begin_remote(qp, FANIN_SEND_ATOMIC_FETCH_AND_ADD, rkey, address)->compare_add = add;
}

static void read_remote(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address)
{
    begin_remote(qp, FANIN_SEND_RDMA_READ, rkey, address);
}

static void write_remote(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address)
{
    begin_remote(qp, FANIN_SEND_RDMA_WRITE, rkey, address);
}

static void write_immediate(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, uint32_t immediate)
{
    begin_remote(qp, FANIN_SEND_RDMA_WRITE_WITH_IMM, rkey, address)->immediate = ntohl(immediate);
}

static void send_plain(struct ibv_qp_ex *qp)
{
    begin(qp, FANIN_SEND_SEND);
}

static void send_immediate(struct ibv_qp_ex *qp, uint32_t immediate)
{
    begin(qp, FANIN_SEND_SEND_WITH_IMM)->immediate = ntohl(immediate);
}

static void send_invalidate(struct ibv_qp_ex *qp, uint32_t rkey)
{
    begin(qp, FANIN_SEND_SEND_WITH_INV)->immediate = rkey;
}

static void set_receiver(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct fanin_send_wqe *wqe = last(batch_of(qp));

    wqe->destination = ((const struct our_ah *)ah)->ipv4;
    wqe->remote_qpn = qpn;
    wqe->remote_qkey = qkey;
}

static void set_pieces(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
    struct fanin_send_wqe *wqe = last(batch_of(qp));

    if (count > FANIN_MAX_SGE) {
        batch_of(qp)->error = EINVAL;
        return;
    }
    for (size_t i = 0; i < count; i++)
        wqe->sge[i] = (struct fanin_sge){.address = list[i].addr, .length = list[i].length, .lkey = list[i].lkey};
    wqe->sge_count = (uint8_t)count;
}

static void set_piece(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t address, uint32_t length)
{
    set_pieces(qp, 1, &(struct ibv_sge){.addr = address, .length = length, .lkey = lkey});
}

static void set_inline_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *list)
{
    struct fanin_send_wqe *wqe = last(batch_of(qp));

    wqe->flags |= FANIN_SEND_INLINE;
    wqe->inline_length = 0;
    for (size_t i = 0; i < count; i++)
        if (!our_append_inline(wqe, list[i].addr, list[i].length))
            batch_of(qp)->error = EINVAL;
}

static void set_inline(struct ibv_qp_ex *qp, void *address, size_t length)
{
    set_inline_list(qp, 1, &(struct ibv_data_buf){.addr = address, .length = length});
}

static void start(struct ibv_qp_ex *qp)
{
    struct our_batch *batch = batch_of(qp);

    pthread_mutex_lock(&batch->lock);
    batch->count = 0;
    batch->error = 0;
}

static void abort_batch(struct ibv_qp_ex *qp)
{
    pthread_mutex_unlock(&batch_of(qp)->lock);
}

static int complete(struct ibv_qp_ex *qp)
{
    struct our_batch *batch = batch_of(qp);
    int error = batch->error;

    if (!error)
        error = our_post_wqes((struct our_qp *)qp, batch->wqes, batch->count);
    pthread_mutex_unlock(&batch->lock);
    return error;
}

int our_offer_extended_post(struct our_qp *qp)
{
    struct ibv_qp_ex *ex = &qp->base;

    qp->batch = malloc(sizeof *qp->batch); /* need not be zero */
    if (!qp->batch)
        return 0;
    pthread_mutex_init(&qp->batch->lock, NULL);
    ex->wr_atomic_cmp_swp = compare_and_swap;
    ex->wr_atomic_fetch_add = fetch_and_add;
    ex->wr_rdma_read = read_remote;
    ex->wr_rdma_write = write_remote;
    ex->wr_rdma_write_imm = write_immediate;
    ex->wr_send = send_plain;
    ex->wr_send_imm = send_immediate;
    ex->wr_send_inv = send_invalidate;
    ex->wr_set_ud_addr = set_receiver;
    ex->wr_set_inline_data = set_inline;
    ex->wr_set_inline_data_list = set_inline_list;
    ex->wr_set_sge = set_piece;
    ex->wr_set_sge_list = set_pieces;
    ex->wr_start = start;
    ex->wr_complete = complete;
    ex->wr_abort = abort_batch;
    return 1;
}

void our_end_extended_post(struct our_qp *qp)
{
    if (!qp->batch)
        return;
    pthread_mutex_destroy(&qp->batch->lock);
    free(qp->batch);
}
