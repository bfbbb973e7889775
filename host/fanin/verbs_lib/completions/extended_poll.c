#include "completions/completions.h"
#include <errno.h>

static const struct ibv_wc *current(const struct ibv_cq_ex *cq)
{
    return &((const struct our_cq *)cq)->current;
}

static int next_poll(struct ibv_cq_ex *cq)
{
    struct our_cq *ours = (struct our_cq *)cq;
    int count = our_poll_cq(&ours->base.cq, 1, &ours->current);

    if (count <= 0)
        return count ? errno : ENOENT;
    cq->status = ours->current.status;
    cq->wr_id = ours->current.wr_id;
    return 0;
}

static int start_poll(struct ibv_cq_ex *cq, const void *attr)
{
    struct our_cq *ours = (struct our_cq *)cq;
    int error;

    if (attr && *(const uint32_t *)attr)
        return EINVAL;
    pthread_mutex_lock(&ours->poll_lock);
    error = next_poll(cq);
    if (error)
        pthread_mutex_unlock(&ours->poll_lock);
    return error;
}

static void end_poll(struct ibv_cq_ex *cq)
{
    pthread_mutex_unlock(&((struct our_cq *)cq)->poll_lock);
}

#define READ(type, name, member)                         \
    static type read_##name(struct ibv_cq_ex *cq)         \
    {                                                     \
        return (type)current(cq)->member;                 \
    }
READ(int, opcode, opcode)
READ(uint32_t, vendor_err, vendor_err)
READ(uint32_t, byte_len, byte_len)
READ(uint32_t, imm_data, imm_data)
READ(uint32_t, qp_num, qp_num)
READ(uint32_t, src_qp, src_qp)
READ(unsigned int, wc_flags, wc_flags)
READ(uint32_t, slid, slid)
READ(uint8_t, sl, sl)
READ(uint8_t, dlid_path_bits, dlid_path_bits)

void our_offer_extended_poll(struct ibv_cq_ex *cq)
{
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_byte_len = read_byte_len;
    cq->read_imm_data = read_imm_data;
    cq->read_qp_num = read_qp_num;
    cq->read_src_qp = read_src_qp;
    cq->read_wc_flags = read_wc_flags;
    cq->read_slid = read_slid;
    cq->read_sl = read_sl;
    cq->read_dlid_path_bits = read_dlid_path_bits;
}
