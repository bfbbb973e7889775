/* States and attributes of queue pairs; the host interface has the same masks and states as verbs. */
#include "abi/next.h"
#include "device/device.h"
#include "queue_pairs/queue_pairs.h"
#include <errno.h>

#define MAX_PSN 0xffffffu

#define NUMBERS(X)                                        \
    X(CUR_STATE, cur_state, cur_qp_state)                 \
    X(ACCESS_FLAGS, access, qp_access_flags)              \
    X(PKEY_INDEX, pkey_index, pkey_index)                 \
    X(PORT, port, port_num)                               \
    X(QKEY, qkey, qkey)                                   \
    X(TIMEOUT, timeout, timeout)                          \
    X(RETRY_CNT, retry_count, retry_cnt)                  \
    X(RNR_RETRY, rnr_retry, rnr_retry)                    \
    X(RQ_PSN, receive_psn, rq_psn)                        \
    X(MAX_QP_RD_ATOMIC, most_reads, max_rd_atomic)        \
    X(MIN_RNR_TIMER, rnr_timer, min_rnr_timer)            \
    X(SQ_PSN, send_psn, sq_psn)                           \
    X(MAX_DEST_RD_ATOMIC, most_responses, max_dest_rd_atomic) \
    X(DEST_QPN, remote_qpn, dest_qp_num)

static uint32_t bytes_of(enum ibv_mtu code)
{
    return code >= IBV_MTU_256 && code <= IBV_MTU_4096 ? 128u << code : 0;
}

static enum ibv_mtu code_of(uint32_t bytes)
{
    int code = IBV_MTU_256;

    while (code < IBV_MTU_4096 && 128u << code < bytes)
        code++;
    return (enum ibv_mtu)code;
}

static uint32_t destination_of(const struct ibv_ah_attr *attr)
{
    return attr->is_global && attr->grh.sgid_index == 0 ? our_ipv4_of(&attr->grh.dgid) : 0;
}

static struct ibv_ah_attr path_to(uint32_t ipv4)
{
    return (struct ibv_ah_attr){.grh = {.dgid = our_gid_of(ipv4), .hop_limit = 64}, .is_global = 1,
                                .port_num = OUR_PORT};
}

/* Threads that poll read the state, to see whether a completion establishes a connection. */
static void note_state(struct our_qp *qp, int state, int is_new)
{
    pthread_mutex_t *lock = &our_context(qp->base.qp_base.context)->owners_lock;

    pthread_mutex_lock(lock);
    qp->base.qp_base.state = state;
    if (is_new && state == FANIN_QP_RESET) { /* starts afresh */
        __atomic_store_n(&qp->receives, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&qp->established.is_told, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&qp->failed.is_told, 0, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(lock);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct fanin_qp_attributes change;
    int error;

    if (!our_context_is(qp->context))
        return NEXT(ibv_modify_qp, "IBVERBS_1.1")(qp, attr, mask);
    change = (struct fanin_qp_attributes){
        .mask = (uint32_t)mask,
        .state = (uint32_t)(mask & FANIN_ATTR_STATE ? attr->qp_state : qp->state),
#define X(bit, member, name) .member = (uint32_t)attr->name,
        NUMBERS(X)
#undef X
        .path_mtu = bytes_of(attr->path_mtu),
    };
    change.send_psn &= MAX_PSN; /* as RDMA NICs do: programs give random numbers of 32 bits */
    change.receive_psn &= MAX_PSN;
    change.access &= ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE;
    if (mask & FANIN_ATTR_AV && !(change.destination = destination_of(&attr->ah_attr)))
        return EINVAL;
    if (our_is_inherited(qp->context))
        return EIO;
    error = our_errno(fanin_modify_ordinary_qp(our_fanin(qp->context), our_qp(qp)->number, &change));
    if (!error && mask & FANIN_ATTR_STATE)
        note_state(our_qp(qp), attr->qp_state, 1);
    return error;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    struct fanin_qp_attributes found;
    int error;

    if (!our_context_is(qp->context))
        return NEXT(ibv_query_qp, "IBVERBS_1.1")(qp, attr, mask, init);
    if (our_is_inherited(qp->context))
        return EIO;
    error = our_errno(fanin_query_ordinary_qp(our_fanin(qp->context), our_qp(qp)->number, &found));
    if (error)
        return error;
    note_state(our_qp(qp), (int)found.state, 0);
    *init = (struct ibv_qp_init_attr){
        .qp_context = qp->qp_context, .send_cq = qp->send_cq, .recv_cq = qp->recv_cq, .srq = qp->srq,
        .qp_type = qp->qp_type, .sq_sig_all = our_qp(qp)->all_signaled, .cap = our_capacities};
    *attr = (struct ibv_qp_attr){
#define X(bit, member, name) .name = (__typeof__(attr->name))found.member,
        NUMBERS(X)
#undef X
        .path_mtu = code_of(found.path_mtu),
        .cap = our_capacities,
        .ah_attr = path_to(found.destination),
    };
    attr->qp_state = attr->cur_qp_state = (int)found.state;
    attr->port_num = OUR_PORT;
    return 0;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, int opcode, uint32_t flags)
{
    if (!our_context_is(qp->context))
        return NEXT(ibv_query_qp_data_in_order, "IBVERBS_1.14")(qp, opcode, flags);
    return 0;
}
