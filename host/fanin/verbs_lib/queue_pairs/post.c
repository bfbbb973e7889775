#include "device/device.h"
#include "queue_pairs/queue_pairs.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

enum {
    FLAGS = FANIN_SEND_FENCE | FANIN_SEND_SIGNALED | FANIN_SEND_SOLICITED | FANIN_SEND_INLINE,
    AT_ONCE = 16              /* requests per doorbell */
};

int our_post_wqes(struct our_qp *qp, const struct fanin_send_wqe *wqes, uint32_t count)
{
    struct ibv_context *context = qp->base.qp_base.context;

    if (our_is_inherited(context))
        return EIO;
    return our_outcome(context, fanin_post_sends(our_fanin(context), qp->number, wqes, count));
}

int our_append_inline(struct fanin_send_wqe *wqe, const void *data, size_t length)
{
    if (length > FANIN_MAX_INLINE_DATA - wqe->inline_length)
        return 0;
    memcpy((char *)wqe->sge + wqe->inline_length, data, length);
    wqe->inline_length += (uint32_t)length;
    return 1;
}

static void copy_pieces(struct fanin_sge *to, const struct ibv_sge *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = (struct fanin_sge){.address = from[i].addr, .length = from[i].length, .lkey = from[i].lkey};
}

static int gather(const struct ibv_send_wr *wr, struct fanin_send_wqe *wqe)
{
    if (wr->num_sge < 0 || wr->num_sge > FANIN_MAX_SGE)
        return 0;
    if (!(wr->send_flags & FANIN_SEND_INLINE)) {
        copy_pieces(wqe->sge, wr->sg_list, wr->num_sge);
        wqe->sge_count = (uint8_t)wr->num_sge;
        return 1;
    }
    for (int i = 0; i < wr->num_sge; i++)
        if (!our_append_inline(wqe, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length))
            return 0;
    return 1;
}

/* The remote side of a request; 0: the operation is not supported. */
static int address(const struct ibv_send_wr *wr, int service, struct fanin_send_wqe *wqe)
{
    switch (wr->opcode) {
    case FANIN_SEND_RDMA_WRITE:
    case FANIN_SEND_RDMA_WRITE_WITH_IMM:
    case FANIN_SEND_RDMA_READ:
        wqe->remote_address = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
        return 1;
    case FANIN_SEND_ATOMIC_CMP_AND_SWP:
    case FANIN_SEND_ATOMIC_FETCH_AND_ADD:
        wqe->remote_address = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        wqe->compare_add = wr->wr.atomic.compare_add;
        wqe->swap = wr->wr.atomic.swap;
        return 1;
    case FANIN_SEND_SEND:
    case FANIN_SEND_SEND_WITH_IMM:
    case FANIN_SEND_SEND_WITH_INV:
        if (service != FANIN_SERVICE_UD)
            return 1;
        if (!wr->wr.ud.ah)
            return 0;
        wqe->destination = ((const struct our_ah *)wr->wr.ud.ah)->ipv4;
        wqe->remote_qpn = wr->wr.ud.remote_qpn;
        wqe->remote_qkey = wr->wr.ud.remote_qkey;
        return 1;
    default:
        return 0;
    }
}

/* Returns 0 for a wrong request. */
static int convert(const struct ibv_send_wr *wr, int service, struct fanin_send_wqe *wqe)
{
    *wqe = (struct fanin_send_wqe){.wr_id = wr->wr_id, .opcode = (uint8_t)wr->opcode,
                                   .flags = (uint8_t)(wr->send_flags & FLAGS)};
    if (wr->send_flags & ~(unsigned int)FLAGS || !address(wr, service, wqe) || !gather(wr, wqe))
        return 0;
    wqe->immediate = wr->opcode == FANIN_SEND_SEND_WITH_INV ? wr->imm_data : ntohl(wr->imm_data);
    return 1;
}

/* Post requests with one doorbell, up to the first refused one; `posted`: their number. */
static int post_some(struct our_qp *qp, const struct fanin_send_wqe *wqes, uint32_t count, uint32_t *posted)
{
    int error = our_post_wqes(qp, wqes, count);

    *posted = error ? 0 : count;
    if (!error || count == 1)
        return error;
    while (*posted < count && !(error = our_post_wqes(qp, &wqes[*posted], 1)))
        ++*posted;
    return error;
}

int our_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fanin_send_wqe wqes[AT_ONCE];
    uint32_t count, posted;
    int error = 0, is_right;

    while (wr && !error) {
        const struct ibv_send_wr *next = wr;

        is_right = 1;
        for (count = 0; next && count < AT_ONCE && (is_right = convert(next, qp->qp_type, &wqes[count])); count++)
            next = next->next;
        error = post_some(our_qp(qp), wqes, count, &posted);
        for (; posted; posted--)
            wr = wr->next;
        if (!error && !is_right)
            error = EINVAL;
    }
    if (error)
        *bad = wr;
    return error;
}

int our_receive_wqe(const struct ibv_recv_wr *wr, struct fanin_receive_wqe *wqe)
{
    *wqe = (struct fanin_receive_wqe){.wr_id = wr->wr_id};
    if (wr->num_sge < 0 || wr->num_sge > FANIN_MAX_SGE)
        return 0;
    wqe->sge_count = (uint32_t)wr->num_sge;
    copy_pieces(wqe->sge, wr->sg_list, wr->num_sge);
    return 1;
}

static int post_one_receive(struct ibv_qp *qp, const struct ibv_recv_wr *wr)
{
    struct our_qp *ours = our_qp(qp);
    struct fanin_receive_wqe wqe;
    int error = 0;

    if (our_is_inherited(qp->context))
        return EIO;
    if (!our_receive_wqe(wr, &wqe))
        return EINVAL;
    /* The ring alone would take more, since the device empties it early. */
    if (__atomic_add_fetch(&ours->receives, 1, __ATOMIC_RELAXED) > OUR_QUEUE_DEPTH)
        error = ENOMEM;
    if (!error)
        error = our_outcome(qp->context, fanin_post_receive(our_fanin(qp->context), ours->number, &wqe));
    if (error)
        __atomic_sub_fetch(&ours->receives, 1, __ATOMIC_RELAXED);
    return error;
}

int our_post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int error = 0;

    for (; wr && !error; wr = wr->next)
        if ((error = post_one_receive(qp, wr)))
            *bad = wr;
    return error;
}
