/* Checks, and two connected queue pairs, for the programs of this folder. */
#ifndef CHECK_H
#define CHECK_H
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                   \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);              \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)
/* A call that returns a pointer, or an error number. */
#define REFUSES_NULL(call, number) CHECK((errno = 0, (call) == NULL) && errno == (number))
#define REFUSES(call, number) CHECK((call) == (number))

enum { MEMORY = 1 << 16, DEPTH = 100, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
       IBV_ACCESS_REMOTE_ATOMIC };

/* One end of a connection. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    union ibv_gid gid;
    char *memory;
};

static inline struct ibv_context *open_device(const char *name)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;

    alarm(30); /* bounds every wait */
    CHECK(devices);
    for (int i = 0; devices[i]; i++)
        if (!strcmp(ibv_get_device_name(devices[i]), name))
            context = ibv_open_device(devices[i]);
    ibv_free_device_list(devices);
    CHECK(context);
    return context;
}

/* Without the queue pair. */
static inline void open_end(struct end *end, const char *device)
{
    end->context = open_device(device);
    CHECK((end->pd = ibv_alloc_pd(end->context)));
    CHECK((end->channel = ibv_create_comp_channel(end->context)));
    CHECK((end->cq = ibv_create_cq(end->context, DEPTH, end, end->channel, 0)));
    CHECK((end->memory = aligned_alloc(4096, MEMORY)));
    memset(end->memory, 0, MEMORY);
    CHECK((end->mr = ibv_reg_mr(end->pd, end->memory, MEMORY, ALL)));
    CHECK(!ibv_query_gid(end->context, 1, 0, &end->gid));
}

static inline void close_end(struct end *end)
{
    CHECK(!ibv_destroy_qp(end->qp));
    CHECK(!ibv_destroy_cq(end->cq));
    CHECK(!ibv_destroy_comp_channel(end->channel));
    CHECK(!ibv_dereg_mr(end->mr));
    CHECK(!ibv_dealloc_pd(end->pd));
    CHECK(!ibv_close_device(end->context));
    free(end->memory);
}

/* Both ends start at the same packet sequence number. */
static inline void connect_from(const struct end *end, const struct end *other, uint32_t psn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

    CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = other->qp->qp_num,
                                .rq_psn = psn, .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = other->gid}}};
    CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
                                .max_rd_atomic = 4};
    CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
    CHECK(end->qp->state == IBV_QPS_RTS);
}

static inline void connect_to(const struct end *end, const struct end *other)
{
    connect_from(end, other, 7);
}

static inline struct ibv_qp_init_attr wanted(const struct end *end, enum ibv_qp_type type)
{
    return (struct ibv_qp_init_attr){.send_cq = end->cq, .recv_cq = end->cq, .qp_type = type,
                                     .cap = {.max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 2,
                                             .max_recv_sge = 2, .max_inline_data = 64}};
}

static inline void post_receive(struct end *end, uint64_t id)
{
    struct ibv_sge piece = {.addr = (uintptr_t)end->memory, .length = MEMORY, .lkey = end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &piece, .num_sge = 1}, *bad;

    CHECK(!ibv_post_recv(end->qp, &wr, &bad));
}

static inline struct ibv_wc next_completion(struct end *end)
{
    struct ibv_wc wc;
    int count;

    do
        CHECK((count = ibv_poll_cq(end->cq, 1, &wc)) >= 0);
    while (!count);
    return wc;
}

#endif
