/* Everything that a device lacks or must refuse has the errno of verbs. Needs fanin0. */
#include "check.h"
#include <net/if.h>

static void device(const struct end *end)
{
    struct ibv_port_attr port;
    union ibv_gid gid;
    struct ibv_gid_entry entry;
    struct ibv_device_attr_ex attr;
    uint16_t pkey;

    REFUSES_NULL(ibv_import_device(end->context->cmd_fd), EOPNOTSUPP);
    REFUSES(ibv_query_port(end->context, 2, &port), EINVAL);
    REFUSES(ibv_query_gid(end->context, 1, 1, &gid), -1);
    REFUSES(ibv_query_gid_ex(end->context, 1, 1, &entry, 0), ENODATA);
    REFUSES(ibv_query_pkey(end->context, 1, 1, &pkey), -1);
    REFUSES(ibv_get_pkey_index(end->context, 1, htobe16(0x1234)), -1);
    CHECK(ibv_get_pkey_index(end->context, 1, htobe16(0xffff)) == 0);
    CHECK(!ibv_query_gid_ex(end->context, 1, 0, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2);
    CHECK(entry.ndev_ifindex == if_nametoindex("lo")); /* the interface with the address */
    CHECK(!ibv_query_device_ex(end->context, NULL, &attr) && attr.orig_attr.phys_port_cnt == 1);
    CHECK(attr.orig_attr.node_guid == ibv_get_device_guid(end->context->device));
}

static void memory(const struct end *end)
{
    REFUSES_NULL(ibv_alloc_mw(end->pd, IBV_MW_TYPE_1), EOPNOTSUPP);
    REFUSES_NULL(ibv_reg_mr(end->pd, end->memory, MEMORY, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
    REFUSES_NULL(ibv_reg_mr(end->pd, end->memory, MEMORY, IBV_ACCESS_REMOTE_WRITE), EINVAL);
    REFUSES_NULL(ibv_reg_mr(end->pd, end->memory, 0, 0), EINVAL);
    REFUSES_NULL(ibv_reg_mr_iova(end->pd, end->memory, MEMORY, 0, 0), EOPNOTSUPP);
    REFUSES_NULL(ibv_reg_dmabuf_mr(end->pd, 0, MEMORY, 0, 0, 0), EOPNOTSUPP);
    REFUSES_NULL(ibv_alloc_dm(end->context, &(struct ibv_alloc_dm_attr){.length = 64}), EOPNOTSUPP);
    CHECK(ibv_rereg_mr(end->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
    REFUSES(ibv_dealloc_pd(end->pd), EBUSY);
    struct ibv_mr *relaxed = ibv_reg_mr(end->pd, end->memory, MEMORY, IBV_ACCESS_RELAXED_ORDERING);
    CHECK(relaxed && !ibv_dereg_mr(relaxed));
}

static void completions(const struct end *end)
{
    struct ibv_cq_init_attr_ex stamped = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_cq *quiet = ibv_create_cq(end->context, 1, NULL, NULL, 0);

    REFUSES_NULL(ibv_create_cq(end->context, 0, NULL, NULL, 0), EINVAL);
    REFUSES_NULL(ibv_create_cq(end->context, 1 << 20, NULL, NULL, 0), EINVAL);
    REFUSES_NULL(ibv_create_cq(end->context, 1, NULL, NULL, 1), EINVAL);
    REFUSES_NULL(ibv_create_cq_ex(end->context, &stamped), EOPNOTSUPP);
    REFUSES(ibv_resize_cq(quiet, 1 << 20), EINVAL);
    REFUSES(ibv_req_notify_cq(quiet, 0), EINVAL);
    REFUSES(ibv_destroy_cq(end->cq), EBUSY);
    REFUSES(ibv_destroy_comp_channel(end->channel), EBUSY);
    CHECK(!ibv_destroy_cq(quiet));
}

static void addresses(const struct end *end)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = end->gid}};
    struct ibv_ah *ah = ibv_create_ah(end->pd, &attr);

    CHECK(ah && !ibv_destroy_ah(ah));
    attr.is_global = 0;
    REFUSES_NULL(ibv_create_ah(end->pd, &attr), EINVAL);
    attr.is_global = 1;
    attr.grh.dgid.raw[12] = 224;
    REFUSES_NULL(ibv_create_ah(end->pd, &attr), EINVAL); /* multicast */
    attr.grh.dgid.raw[0] = 0xfe;
    REFUSES_NULL(ibv_create_ah(end->pd, &attr), EINVAL); /* not an IPv4 address */
}

static void queue_pairs(const struct end *end)
{
    struct ibv_qp_init_attr init = wanted(end, IBV_QPT_RAW_PACKET);
    struct ibv_xrcd_init_attr xrcd = {.comp_mask = 0};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    struct ibv_sge piece = {.addr = (uintptr_t)end->memory, .length = 1, .lkey = end->mr->lkey};
    struct ibv_send_wr second = {.sg_list = &piece, .num_sge = 9, .opcode = IBV_WR_SEND}, *bad = NULL;
    struct ibv_recv_wr receive = {.sg_list = &piece, .num_sge = 1}, *bad_receive = NULL;
    struct ibv_ece ece;

    REFUSES_NULL(ibv_create_qp(end->pd, &init), EOPNOTSUPP);
    init = wanted(end, IBV_QPT_RC);
    init.cap.max_send_wr = 100000;
    REFUSES_NULL(ibv_create_qp(end->pd, &init), EINVAL);
    REFUSES_NULL(ibv_open_xrcd(end->context, &xrcd), EOPNOTSUPP);
    REFUSES(ibv_attach_mcast(end->qp, &end->gid, 0), EOPNOTSUPP);
    REFUSES(ibv_query_ece(end->qp, &ece), EOPNOTSUPP);
    REFUSES(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE), EINVAL);
    CHECK(end->qp->state == IBV_QPS_RESET);
    REFUSES(ibv_post_send(end->qp, &second, &bad), EINVAL);
    CHECK(bad == &second);
    REFUSES(ibv_post_recv(end->qp, &receive, &bad_receive), EINVAL); /* in RESET */
    CHECK(bad_receive == &receive);
}

static void shared_queues(const struct end *end)
{
    struct ibv_srq_init_attr init = {.srq_context = &init, .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 5}};
    struct ibv_srq_init_attr_ex extended = {.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, .pd = end->pd,
                                            .srq_type = IBV_SRQT_BASIC, .attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_srq_attr attr = {.max_wr = 7, .max_sge = 7, .srq_limit = 7};
    struct ibv_qp_init_attr of_qp = wanted(end, IBV_QPT_RC), queried;
    struct ibv_sge piece = {.addr = (uintptr_t)end->memory, .length = 1, .lkey = end->mr->lkey};
    struct ibv_recv_wr second = {.sg_list = &piece, .num_sge = 9};
    struct ibv_recv_wr first = {.next = &second, .sg_list = &piece, .num_sge = 1}, *bad = NULL;
    struct ibv_qp_attr state = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_pd *other = ibv_alloc_pd(end->context);
    struct ibv_device_attr device;
    struct ibv_srq *srq, *of_type;
    struct ibv_qp *qp;

    CHECK(!ibv_query_device(end->context, &device) && device.max_srq > 0);
    init.attr.max_wr = (uint32_t)device.max_srq_wr + 1;
    REFUSES_NULL(ibv_create_srq(end->pd, &init), EINVAL);
    init.attr.max_wr = (uint32_t)device.max_srq_wr;
    init.attr.max_sge = (uint32_t)device.max_srq_sge + 1;
    REFUSES_NULL(ibv_create_srq(end->pd, &init), EINVAL);
    init.attr.max_sge = 1;
    CHECK((srq = ibv_create_srq(end->pd, &init)));
    CHECK(srq->srq_context == &init && srq->pd == end->pd && srq->context == end->context);
    CHECK((int)init.attr.max_wr == device.max_srq_wr && (int)init.attr.max_sge == device.max_srq_sge);
    CHECK((of_type = ibv_create_srq_ex(end->context, &extended)) && !ibv_destroy_srq(of_type));
    extended.srq_type = IBV_SRQT_TM;
    REFUSES_NULL(ibv_create_srq_ex(end->context, &extended), EOPNOTSUPP);
    CHECK(!ibv_query_srq(srq, &attr));
    CHECK((int)attr.max_wr == device.max_srq_wr && (int)attr.max_sge == device.max_srq_sge && attr.srq_limit == 0);
    CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT)); /* of 0: none */
    attr.srq_limit = 1;
    REFUSES(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EOPNOTSUPP);
    REFUSES(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
    REFUSES(ibv_modify_srq(srq, &attr, 4), EINVAL);
    REFUSES(ibv_post_srq_recv(srq, &first, &bad), EINVAL);
    CHECK(bad == &second);

    of_qp.srq = srq;
    of_qp.cap.max_recv_wr = 1 << 20; /* ignored with a shared queue */
    REFUSES_NULL(ibv_create_qp(other, &of_qp), EINVAL);
    CHECK((qp = ibv_create_qp(end->pd, &of_qp)) && qp->srq == srq);
    CHECK(!ibv_query_qp(qp, &state, IBV_QP_STATE, &queried) && queried.srq == srq);
    state = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
    CHECK(!ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    first.next = NULL;
    REFUSES(ibv_post_recv(qp, &first, &bad), EINVAL);
    REFUSES(ibv_destroy_srq(srq), EBUSY);
    CHECK(!ibv_destroy_qp(qp));
    CHECK(!ibv_destroy_srq(srq));
    CHECK(!ibv_dealloc_pd(other));
}

/* All objects must be of one context. Queues of two contexts may have the same number. */
static void two_contexts(const struct end *end)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_qp_init_attr of_qp = wanted(end, IBV_QPT_RC);
    struct end other;

    open_end(&other, "fanin0");
    REFUSES_NULL(ibv_create_cq(end->context, 1, NULL, other.channel, 0), EINVAL);
    of_qp.send_cq = other.cq;
    REFUSES_NULL(ibv_create_qp(end->pd, &of_qp), EINVAL);
    of_qp.send_cq = end->cq;
    of_qp.recv_cq = other.cq;
    REFUSES_NULL(ibv_create_qp(end->pd, &of_qp), EINVAL);
    of_qp.recv_cq = end->cq;
    CHECK((of_qp.srq = ibv_create_srq(other.pd, &init)));
    REFUSES_NULL(ibv_create_qp(end->pd, &of_qp), EINVAL);
    CHECK(!ibv_destroy_srq(of_qp.srq));
    of_qp = wanted(&other, IBV_QPT_RC);
    CHECK((other.qp = ibv_create_qp(other.pd, &of_qp)));
    close_end(&other);
}

/* The requests of a list before the bad one are posted. */
static void lists(struct end *end)
{
    struct ibv_sge piece = {.addr = (uintptr_t)end->memory, .length = 1, .lkey = end->mr->lkey};
    struct ibv_send_wr wrs[3] = {{.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                                  .send_flags = IBV_SEND_SIGNALED, .wr_id = 1,
                                  .wr.rdma = {(uintptr_t)end->memory, end->mr->rkey}}}, *bad = NULL;

    wrs[1] = wrs[2] = wrs[0];
    wrs[0].next = &wrs[1];
    wrs[1].next = &wrs[2];
    wrs[1].opcode = IBV_WR_BIND_MW;
    connect_to(end, end);
    REFUSES(ibv_post_send(end->qp, wrs, &bad), EINVAL);
    CHECK(bad == &wrs[1]);
    CHECK(next_completion(end).wr_id == 1);
}

/* Packet sequence numbers have 24 bits, as with RDMA NICs. */
static void sequence_numbers(const struct end *end)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    struct ibv_qp_init_attr init;

    CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE));
    connect_from(end, end, 0xab000007);
    CHECK(!ibv_query_qp(end->qp, &attr, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init));
    CHECK(attr.sq_psn == 7 && attr.rq_psn == 7);
}

/* As many receive requests as the limit, and one more after the poll of a completion. */
static void full_queue(struct end *end)
{
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad_send;
    struct ibv_sge piece = {.addr = (uintptr_t)end->memory, .length = 1, .lkey = end->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;
    struct ibv_device_attr attr;
    int posted = 0, error;

    CHECK(!ibv_query_device(end->context, &attr));
    while (!(error = ibv_post_recv(end->qp, &wr, &bad)))
        posted++;
    CHECK(error == ENOMEM);
    CHECK(posted == attr.max_qp_wr);
    CHECK(!ibv_post_send(end->qp, &send, &bad_send));
    for (int i = 0; i < 2; i++) { /* in any order */
        CHECK(ibv_post_recv(end->qp, &wr, &bad) == ENOMEM);
        if (next_completion(end).opcode == IBV_WC_RECV)
            break;
    }
    CHECK(!ibv_post_recv(end->qp, &wr, &bad));
    CHECK(ibv_post_recv(end->qp, &wr, &bad) == ENOMEM);
}

int main(void)
{
    struct ibv_qp_init_attr init;
    struct end end;

    open_end(&end, "fanin0");
    init = wanted(&end, IBV_QPT_RC);
    CHECK((end.qp = ibv_create_qp(end.pd, &init)));
    CHECK(init.cap.max_send_wr >= 10 && init.cap.max_inline_data >= 64);
    device(&end);
    memory(&end);
    completions(&end);
    addresses(&end);
    queue_pairs(&end);
    shared_queues(&end);
    two_contexts(&end);
    lists(&end);
    sequence_numbers(&end);
    full_queue(&end);
    close_end(&end);
    return 0;
}
