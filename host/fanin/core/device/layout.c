#include "device/layout.h"

int fanin_rings_fit(const struct fanin_attach_reply *limits)
{
    uint64_t sq_bytes = sizeof(struct fanin_ring) + FANIN_SQ_DEPTH * sizeof(struct fanin_wqe);
    uint64_t cq_bytes = sizeof(struct fanin_ring) + FANIN_CQ_DEPTH * sizeof(struct fanin_cqe);
    uint64_t sq_end = limits->sq_offset + (uint64_t)limits->sq_stride * limits->max_qp;
    uint64_t aq_bytes = sizeof(struct fanin_ring) + FANIN_ARRIVAL_UNITS * FANIN_ARRIVAL_UNIT;
    uint64_t cq_end = limits->cq_offset + (uint64_t)limits->cq_stride * limits->max_cq;
    uint64_t send_bytes = sizeof(struct fanin_ring) + FANIN_ORDINARY_DEPTH * sizeof(struct fanin_send_wqe);
    uint64_t receive_bytes = sizeof(struct fanin_ring) + FANIN_ORDINARY_DEPTH * sizeof(struct fanin_receive_wqe);
    uint64_t oq_end = limits->oq_offset + (uint64_t)limits->oq_stride * limits->max_ordinary_qp;
    uint64_t shared_bytes = sizeof(struct fanin_ring) + FANIN_SHARED_DEPTH * sizeof(struct fanin_receive_wqe);
    uint64_t srq_end = limits->srq_offset + (uint64_t)limits->srq_stride * limits->max_shared_queues;
    uint64_t aq_end = limits->aq_offset + (uint64_t)limits->aq_stride * limits->max_qp;

    return limits->sq_stride >= sq_bytes && limits->cq_stride >= cq_bytes && limits->aq_stride >= aq_bytes &&
           limits->oq_receive >= send_bytes && limits->oq_stride >= limits->oq_receive + receive_bytes &&
           oq_end <= limits->region_bytes && sq_end <= limits->region_bytes && cq_end <= limits->region_bytes &&
           aq_end <= limits->region_bytes && limits->srq_stride >= shared_bytes &&
           srq_end <= limits->region_bytes;
}
