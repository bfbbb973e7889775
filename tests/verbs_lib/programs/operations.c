/* Every operation, posted in both forms and polled in both forms, with its data and its completion. Needs fanin0 and
 * fanin1. */
#include "check.h"

enum { SIZE = 3000, IMMEDIATE = 0x12345678, KEY = 0x1234 };

static struct end one, other;
static struct ibv_cq_ex *polled; /* of `other` */

struct operation {
    enum ibv_wr_opcode opcode;
    enum ibv_wc_opcode completion, received; /* received IBV_WC_SEND: nothing */
    unsigned int flags;
    uint32_t size;
};

static const struct operation operations[] = {
    {IBV_WR_SEND, IBV_WC_SEND, IBV_WC_RECV, 0, SIZE},
    {IBV_WR_SEND, IBV_WC_SEND, IBV_WC_RECV, IBV_SEND_INLINE, 48},
    {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, IBV_WC_RECV, IBV_SEND_SOLICITED, SIZE},
    {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND, 0, SIZE},
    {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_SEND_INLINE, 64},
    {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, IBV_WC_RECV_RDMA_WITH_IMM, 0, SIZE},
    {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, IBV_WC_SEND, IBV_SEND_FENCE, SIZE},
    {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, IBV_WC_SEND, 0, 8},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, IBV_WC_SEND, 0, 8},
};

static int has_immediate(const struct operation *operation)
{
    return operation->opcode == IBV_WR_SEND_WITH_IMM || operation->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void post_list(const struct operation *operation)
{
    struct ibv_sge pieces[2] = {{(uintptr_t)one.memory, operation->size / 2, one.mr->lkey},
                                {(uintptr_t)one.memory + operation->size / 2, operation->size - operation->size / 2,
                                 one.mr->lkey}};
    struct ibv_send_wr wr = {.wr_id = 99, .sg_list = pieces, .num_sge = 2, .opcode = operation->opcode,
                             .send_flags = operation->flags | IBV_SEND_SIGNALED}, *bad;

    if (has_immediate(operation))
        wr.imm_data = htobe32(IMMEDIATE);
    if (operation->size == 8) {
        wr.wr.atomic.remote_addr = (uintptr_t)other.memory;
        wr.wr.atomic.rkey = other.mr->rkey;
        wr.wr.atomic.compare_add = 5;
        wr.wr.atomic.swap = 50;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)other.memory;
        wr.wr.rdma.rkey = other.mr->rkey;
    }
    CHECK(!ibv_post_send(one.qp, &wr, &bad));
}

static void set_data(struct ibv_qp_ex *qp, const struct operation *operation)
{
    struct ibv_data_buf buffers[2] = {{one.memory, 8}, {one.memory + 8, operation->size - 8}};
    struct ibv_sge piece = {(uintptr_t)one.memory, operation->size, one.mr->lkey};

    if (operation->flags & IBV_SEND_INLINE && operation->opcode == IBV_WR_SEND)
        ibv_wr_set_inline_data(qp, one.memory, operation->size);
    else if (operation->flags & IBV_SEND_INLINE)
        ibv_wr_set_inline_data_list(qp, 2, buffers);
    else if (has_immediate(operation))
        ibv_wr_set_sge_list(qp, 1, &piece);
    else
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
}

static void build(const struct operation *operation)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(one.qp);
    uint64_t address = (uintptr_t)other.memory;
    uint32_t key = other.mr->rkey;

    CHECK(qp);
    ibv_wr_start(qp);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    qp->wr_id = 99;
    qp->wr_flags = IBV_SEND_SIGNALED | (operation->flags & ~IBV_SEND_INLINE);
    switch (operation->opcode) {
    case IBV_WR_SEND: ibv_wr_send(qp); break;
    case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(qp, htobe32(IMMEDIATE)); break;
    case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qp, key, address); break;
    case IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_rdma_write_imm(qp, key, address, htobe32(IMMEDIATE)); break;
    case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qp, key, address); break;
    case IBV_WR_ATOMIC_CMP_AND_SWP: ibv_wr_atomic_cmp_swp(qp, key, address, 5, 50); break;
    default: ibv_wr_atomic_fetch_add(qp, key, address, 5);
    }
    set_data(qp, operation);
    CHECK(!ibv_wr_complete(qp));
}

static void expect_received(const struct operation *operation)
{
    struct ibv_poll_cq_attr attr = {0};
    int empty;

    while ((empty = ibv_start_poll(polled, &attr)))
        CHECK(empty == ENOENT);
    CHECK(polled->wr_id == 7 && polled->status == IBV_WC_SUCCESS);
    CHECK(ibv_wc_read_opcode(polled) == operation->received);
    CHECK(ibv_wc_read_byte_len(polled) == operation->size);
    CHECK(ibv_wc_read_qp_num(polled) == other.qp->qp_num);
    CHECK(!(ibv_wc_read_wc_flags(polled) & IBV_WC_WITH_IMM) == !has_immediate(operation));
    if (has_immediate(operation))
        CHECK(ibv_wc_read_imm_data(polled) == htobe32(IMMEDIATE));
    CHECK(ibv_next_poll(polled) == ENOENT);
    ibv_end_poll(polled);
}

static void expect_data(const struct operation *operation)
{
    uint64_t word;

    if (operation->size != 8) {
        CHECK(!memcmp(one.memory, other.memory, operation->size));
        return;
    }
    CHECK(!memcmp(one.memory, &(uint64_t){5}, 8)); /* the former value */
    memcpy(&word, other.memory, 8);
    CHECK(word == (operation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 50 : 10));
}

static void fill(char *memory, unsigned int seed)
{
    for (int i = 0; i < SIZE; i++)
        memory[i] = (char)(rand_r(&seed) >> 3);
}

static void run(const struct operation *operation, void (*post)(const struct operation *))
{
    struct ibv_wc wc;

    fill(one.memory, (unsigned int)rand());
    fill(other.memory, (unsigned int)rand());
    if (operation->size == 8)
        memcpy(other.memory, &(uint64_t){5}, 8);
    if (operation->received != IBV_WC_SEND)
        post_receive(&other, 7);
    post(operation);
    wc = next_completion(&one);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 99 && wc.opcode == operation->completion);
    CHECK(wc.qp_num == one.qp->qp_num);
    if (operation->received != IBV_WC_SEND)
        expect_received(operation);
    expect_data(operation);
}

static void open_both(void)
{
    struct ibv_cq_init_attr_ex cq = {.cqe = DEPTH, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_qp_init_attr init;
    struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD |
                                     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .cap = {10, 10, 2, 2, 64},
                                     .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ};

    open_end(&one, "fanin0");
    open_end(&other, "fanin1");
    ex.send_cq = ex.recv_cq = one.cq;
    ex.pd = one.pd;
    CHECK((one.qp = ibv_create_qp_ex(one.context, &ex)));
    CHECK(!ibv_destroy_cq(other.cq));
    CHECK((polled = ibv_create_cq_ex(other.context, &cq)));
    other.cq = ibv_cq_ex_to_cq(polled);
    init = wanted(&other, IBV_QPT_RC);
    CHECK((other.qp = ibv_create_qp(other.pd, &init)));
    CHECK(!ibv_qp_to_qp_ex(other.qp));
    connect_to(&one, &other);
    connect_to(&other, &one);
}

static void query(void)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    CHECK(!ibv_query_qp(one.qp, &attr, IBV_QP_STATE, &init));
    CHECK(attr.qp_state == IBV_QPS_RTS && attr.path_mtu == IBV_MTU_1024 && attr.dest_qp_num == other.qp->qp_num);
    CHECK(attr.timeout == 14 && attr.max_rd_atomic == 4 && attr.qp_access_flags == ALL);
    CHECK(!memcmp(&attr.ah_attr.grh.dgid, &other.gid, sizeof other.gid));
    CHECK(init.send_cq == one.cq && init.qp_type == IBV_QPT_RC && init.cap.max_send_wr >= 10);
}

/* A datagram, and one back to the address in its header. */
static void datagrams(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = KEY};
    struct end *ends[2] = {&one, &other};
    struct ibv_ah_attr path = {.is_global = 1, .port_num = 1, .grh = {.dgid = other.gid}};
    struct ibv_sge piece = {(uintptr_t)one.memory, 100, one.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    struct ibv_qp *before[2] = {one.qp, other.qp};
    struct ibv_ah *there, *back;
    struct ibv_wc wc;

    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr init = wanted(ends[i], IBV_QPT_UD);
        CHECK((ends[i]->qp = ibv_create_qp(ends[i]->pd, &init)));
        attr.qp_state = IBV_QPS_INIT;
        CHECK(!ibv_modify_qp(ends[i]->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
        attr.qp_state = IBV_QPS_RTR;
        CHECK(!ibv_modify_qp(ends[i]->qp, &attr, IBV_QP_STATE));
        attr.qp_state = IBV_QPS_RTS;
        CHECK(!ibv_modify_qp(ends[i]->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
        post_receive(ends[i], 7);
    }
    CHECK((there = ibv_create_ah(one.pd, &path)));
    fill(one.memory, 3);
    wr.wr.ud.ah = there;
    wr.wr.ud.remote_qpn = other.qp->qp_num;
    wr.wr.ud.remote_qkey = KEY;
    CHECK(!ibv_post_send(one.qp, &wr, &bad));
    CHECK(next_completion(&one).status == IBV_WC_SUCCESS);
    wc = next_completion(&other);
    CHECK(wc.byte_len == 140 && wc.src_qp == one.qp->qp_num && wc.wc_flags & IBV_WC_GRH);
    CHECK(!memcmp(one.memory, other.memory + 40, 100));
    CHECK((back = ibv_create_ah_from_wc(other.pd, &wc, (struct ibv_grh *)other.memory, 1)));
    wr.wr.ud.ah = back;
    wr.wr.ud.remote_qpn = wc.src_qp;
    piece = (struct ibv_sge){(uintptr_t)other.memory, 60, other.mr->lkey};
    CHECK(!ibv_post_send(other.qp, &wr, &bad));
    CHECK(next_completion(&other).status == IBV_WC_SUCCESS);
    CHECK(next_completion(&one).byte_len == 100);
    CHECK(!ibv_destroy_ah(there) && !ibv_destroy_ah(back));
    for (int i = 0; i < 2; i++) {
        CHECK(!ibv_destroy_qp(ends[i]->qp));
        ends[i]->qp = before[i];
    }
}

int main(void)
{
    open_both();
    query();
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        run(&operations[i], post_list);
        run(&operations[i], build);
    }
    datagrams();
    CHECK(!ibv_destroy_comp_channel(other.channel));
    CHECK((other.channel = ibv_create_comp_channel(other.context)));
    close_end(&one);
    close_end(&other);
    return 0;
}
