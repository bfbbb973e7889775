/* The binary interface of libibverbs.so.1: layouts and codes that inline functions of infiniband/verbs.h (rdma-core 44)
 * read. Structures of the extended interface only grow, and have a length, so programs of other versions read a part of
 * them. Written here so that the build needs no header of libibverbs; tests/verbs_lib compares the two. Members that
 * the device lacks have no names. */
#ifndef FANIN_IBV_H
#define FANIN_IBV_H
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef void (*ibv_nothing)(void); /* a function that this device lacks: NULL */

/* ---- Devices ---- */

union ibv_gid {
    uint8_t raw[16];
    struct {
        uint64_t subnet_prefix, interface_id; /* big-endian */
    } global;
};

enum ibv_gid_type { IBV_GID_TYPE_ROCE_V2 = 2 };
enum ibv_gid_type_sysfs { IBV_GID_TYPE_SYSFS_ROCE_V2 = 1 };

struct ibv_gid_entry {
    union ibv_gid gid;
    uint32_t gid_index, port_num, gid_type, ndev_ifindex;
};

enum ibv_node_type { IBV_NODE_CA = 1 };
enum ibv_transport_type { IBV_TRANSPORT_IB = 0 };

struct ibv_device {
    ibv_nothing ops[2];       /* never called */
    enum ibv_node_type node_type;
    enum ibv_transport_type transport_type;
    char name[64], dev_name[64], dev_path[256], ibdev_path[256];
};

enum ibv_atomic_cap { IBV_ATOMIC_HCA = 1 };

struct ibv_device_attr {
    char fw_ver[64];
    uint64_t node_guid, sys_image_guid; /* big-endian */
    uint64_t max_mr_size, page_size_cap;
    uint32_t vendor_id, vendor_part_id, hw_ver;
    int max_qp, max_qp_wr;
    unsigned int device_cap_flags;
    int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
    int max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom;
    enum ibv_atomic_cap atomic_cap;
    int max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp;
    int max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
    int max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
    uint16_t max_pkeys;
    uint8_t local_ca_ack_delay, phys_port_cnt;
};

struct ibv_device_attr_ex {
    struct ibv_device_attr orig_attr;
    uint32_t comp_mask;
    uint64_t extensions[19];  /* none */
    uint32_t xrc_odp_caps, phys_port_cnt_ex;
};

enum ibv_mtu { IBV_MTU_256 = 1, IBV_MTU_4096 = 5 };
enum ibv_port_state { IBV_PORT_ACTIVE = 4 };
enum ibv_link_layer { IBV_LINK_LAYER_ETHERNET = 2 };
enum ibv_port_cap_flags { IBV_PORT_IP_BASED_GIDS = 1 << 26 };

struct ibv_port_attr {
    enum ibv_port_state state;
    enum ibv_mtu max_mtu, active_mtu;
    int gid_tbl_len;
    uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
    uint16_t pkey_tbl_len, lid, sm_lid;
    uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state;
    uint8_t link_layer, flags;
    uint16_t port_cap_flags2; /* not in the structure of the symbol ibv_query_port */
};

enum ibv_event_type {
    IBV_EVENT_CQ_ERR = 0,
    IBV_EVENT_QP_FATAL = 1,
    IBV_EVENT_COMM_EST = 4,
    IBV_EVENT_DEVICE_FATAL = 8
};

struct ibv_async_event {
    void *element;
    int event_type;
};

/* ---- Memory and addresses ---- */

struct ibv_context;

struct ibv_pd {
    struct ibv_context *context;
    uint32_t handle;
};

enum ibv_access_flags {
    IBV_ACCESS_LOCAL_WRITE = 1,
    IBV_ACCESS_REMOTE_WRITE = 2,
    IBV_ACCESS_REMOTE_READ = 4,
    IBV_ACCESS_REMOTE_ATOMIC = 8,
    IBV_ACCESS_OPTIONAL_RANGE = 0x3ff00000 /* flags that a device may ignore */
};

struct ibv_mr {
    struct ibv_context *context;
    struct ibv_pd *pd;
    void *addr;
    size_t length;
    uint32_t handle, lkey, rkey;
};

enum ibv_rereg_mr_err_code { IBV_REREG_MR_ERR_INPUT = -1 }; /* the region is unchanged */

struct ibv_global_route {
    union ibv_gid dgid;
    uint32_t flow_label;
    uint8_t sgid_index, hop_limit, traffic_class;
};

struct ibv_grh {
    uint32_t version_tclass_flow;
    uint16_t paylen;
    uint8_t next_hdr, hop_limit;
    union ibv_gid sgid, dgid;
};

struct ibv_ah_attr {
    struct ibv_global_route grh;
    uint16_t dlid;
    uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};

struct ibv_ah {
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t handle;
};

/* ---- Completions ---- */

enum ibv_wc_status {
    IBV_WC_SUCCESS = 0,
    IBV_WC_LOC_QP_OP_ERR = 2,
    IBV_WC_LOC_PROT_ERR = 4,
    IBV_WC_WR_FLUSH_ERR = 5,
    IBV_WC_REM_INV_REQ_ERR = 9,
    IBV_WC_RETRY_EXC_ERR = 12,
    IBV_WC_REM_ABORT_ERR = 16,
    IBV_WC_RESP_TIMEOUT_ERR = 20,
    IBV_WC_GENERAL_ERR = 21
};

enum ibv_wc_opcode { IBV_WC_DRIVER1 = 135, IBV_WC_DRIVER2 = 136 };

enum ibv_wc_flags { IBV_WC_GRH = 1, IBV_WC_WITH_IMM = 2, IBV_WC_WITH_INV = 8 };

struct ibv_wc {
    uint64_t wr_id;
    int status, opcode;       /* as in abi.h, or above */
    uint32_t vendor_err, byte_len;
    uint32_t imm_data;        /* big-endian; WITH_INV: the key in host order */
    uint32_t qp_num, src_qp;
    unsigned int wc_flags;
    uint16_t pkey_index, slid;
    uint8_t sl, dlid_path_bits;
};

struct ibv_comp_channel {
    struct ibv_context *context;
    int fd, refcnt;
};

struct ibv_cq {
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    void *cq_context;
    uint32_t handle;
    int cqe;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t comp_events_completed, async_events_completed;
};

struct ibv_cq_ex {            /* begins as a struct ibv_cq */
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    void *cq_context;
    uint32_t handle;
    int cqe;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t comp_events_completed, async_events_completed;
    uint32_t comp_mask;
    int status;
    uint64_t wr_id;
    int (*start_poll)(struct ibv_cq_ex *cq, const void *attr);
    int (*next_poll)(struct ibv_cq_ex *cq);
    void (*end_poll)(struct ibv_cq_ex *cq);
    int (*read_opcode)(struct ibv_cq_ex *cq);
    uint32_t (*read_vendor_err)(struct ibv_cq_ex *cq);
    uint32_t (*read_byte_len)(struct ibv_cq_ex *cq);
    uint32_t (*read_imm_data)(struct ibv_cq_ex *cq);
    uint32_t (*read_qp_num)(struct ibv_cq_ex *cq);
    uint32_t (*read_src_qp)(struct ibv_cq_ex *cq);
    unsigned int (*read_wc_flags)(struct ibv_cq_ex *cq);
    uint32_t (*read_slid)(struct ibv_cq_ex *cq);
    uint8_t (*read_sl)(struct ibv_cq_ex *cq);
    uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *cq);
    ibv_nothing read_completion_ts, read_cvlan, read_flow_tag, read_tm_info, read_completion_wallclock_ns;
};

enum ibv_create_cq_wc_flags { IBV_WC_STANDARD_FLAGS = 0x7f }; /* fields of the read_ functions up to dlid_path_bits */

enum ibv_cq_init_attr_mask { IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 };
enum ibv_create_cq_attr_flags { IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 };

struct ibv_cq_init_attr_ex {
    uint32_t cqe;
    void *cq_context;
    struct ibv_comp_channel *channel;
    uint32_t comp_vector;
    uint64_t wc_flags;
    uint32_t comp_mask, flags;
    struct ibv_pd *parent_domain;
};

/* ---- Shared receive queues ---- */

enum ibv_srq_attr_mask { IBV_SRQ_MAX_WR = 1, IBV_SRQ_LIMIT = 2 };

struct ibv_srq_attr {
    uint32_t max_wr, max_sge, srq_limit;
};

struct ibv_srq_init_attr {
    void *srq_context;
    struct ibv_srq_attr attr;
};

struct ibv_srq {
    struct ibv_context *context;
    void *srq_context;
    struct ibv_pd *pd;
    uint32_t handle;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
};

/* ---- Queue pairs ---- */

struct ibv_qp_cap {
    uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct ibv_qp_init_attr {
    void *qp_context;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp_cap cap;
    int qp_type;              /* as in fanin's abi.h */
    int sq_sig_all;
};

enum ibv_qp_init_attr_mask {
    IBV_QP_INIT_ATTR_PD = 1,
    IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6
};
/* RDMA_WRITE to ATOMIC_FETCH_AND_ADD, SEND_WITH_INV */
enum ibv_qp_create_send_ops_flags { IBV_QP_EX_WITH_ALL_HERE = 0x7f | 1 << 9 };

struct ibv_qp_init_attr_ex {  /* begins as a struct ibv_qp_init_attr */
    void *qp_context;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp_cap cap;
    int qp_type;
    int sq_sig_all;
    uint32_t comp_mask;
    struct ibv_pd *pd;
    void *xrcd;
    uint32_t create_flags;
    uint16_t max_tso_header;
    void *rwq_ind_tbl;
    struct {
        uint8_t function, key_len, *key;
        uint64_t fields_mask;
    } rx_hash_conf;
    uint32_t source_qpn;
    uint64_t send_ops_flags;
};

struct ibv_qp_attr {
    int qp_state, cur_qp_state; /* as in fanin's abi.h */
    enum ibv_mtu path_mtu;
    int path_mig_state;
    uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
    unsigned int qp_access_flags;
    struct ibv_qp_cap cap;
    struct ibv_ah_attr ah_attr, alt_ah_attr;
    uint16_t pkey_index, alt_pkey_index;
    uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout;
    uint8_t retry_cnt, rnr_retry, alt_port_num, alt_timeout;
    uint32_t rate_limit;
};

struct ibv_sge {
    uint64_t addr;
    uint32_t length, lkey;
};

struct ibv_data_buf {
    void *addr;
    size_t length;
};

struct ibv_send_wr {
    uint64_t wr_id;
    struct ibv_send_wr *next;
    struct ibv_sge *sg_list;
    int num_sge;
    int opcode;               /* as in abi.h */
    unsigned int send_flags; /* as in abi.h */
    uint32_t imm_data;        /* big-endian; SEND_WITH_INV: the key in host order */
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma;
        struct {
            uint64_t remote_addr, compare_add, swap;
            uint32_t rkey;
        } atomic;
        struct {
            struct ibv_ah *ah;
            uint32_t remote_qpn, remote_qkey;
        } ud;
    } wr;
    uint32_t remote_srqn;
    uint64_t bind_mw_or_tso[6];
};

struct ibv_recv_wr {
    uint64_t wr_id;
    struct ibv_recv_wr *next;
    struct ibv_sge *sg_list;
    int num_sge;
};

struct ibv_qp {
    struct ibv_context *context;
    void *qp_context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    uint32_t handle, qp_num;
    int state, qp_type;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
};

struct ibv_qp_ex {
    struct ibv_qp qp_base;
    uint64_t comp_mask, wr_id;
    unsigned int wr_flags;
    void (*wr_atomic_cmp_swp)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap);
    void (*wr_atomic_fetch_add)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, uint64_t add);
    ibv_nothing wr_bind_mw, wr_local_inv;
    void (*wr_rdma_read)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address);
    void (*wr_rdma_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address);
    void (*wr_rdma_write_imm)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, uint32_t immediate);
    void (*wr_send)(struct ibv_qp_ex *qp);
    void (*wr_send_imm)(struct ibv_qp_ex *qp, uint32_t immediate);
    void (*wr_send_inv)(struct ibv_qp_ex *qp, uint32_t rkey);
    ibv_nothing wr_send_tso;
    void (*wr_set_ud_addr)(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
    ibv_nothing wr_set_xrc_srqn;
    void (*wr_set_inline_data)(struct ibv_qp_ex *qp, void *address, size_t length);
    void (*wr_set_inline_data_list)(struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *list);
    void (*wr_set_sge)(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t address, uint32_t length);
    void (*wr_set_sge_list)(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list);
    void (*wr_start)(struct ibv_qp_ex *qp);
    int (*wr_complete)(struct ibv_qp_ex *qp);
    void (*wr_abort)(struct ibv_qp_ex *qp);
    ibv_nothing wr_atomic_write;
};

/* ---- Contexts ---- */

struct ibv_context_ops {
    ibv_nothing compat_before_windows[7], alloc_mw, bind_mw, dealloc_mw, compat_create_cq;
    int (*poll_cq)(struct ibv_cq *cq, int capacity, struct ibv_wc *wc);
    int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
    ibv_nothing compat_before_srq[7];
    int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
    ibv_nothing compat_of_qp[4];
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
    ibv_nothing compat_after[5];
};

struct ibv_context {
    struct ibv_device *device;
    struct ibv_context_ops ops;
    int cmd_fd, async_fd, num_comp_vectors;
    pthread_mutex_t mutex;
    void *abi_compat;         /* IBV_EXTENDED: inside a struct verbs_context */
};

#define IBV_EXTENDED ((void *)UINTPTR_MAX)

struct verbs_context {        /* grows at its beginning, so members are found from `context` */
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size);
    ibv_nothing advise_mr_to_query_rt_values[24];
    struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *init);
    void *priv;               /* libibverbs's */
    int (*query_device_ex)(struct ibv_context *context, const void *input, struct ibv_device_attr_ex *attr,
                           size_t size);
    ibv_nothing flows_and_open_qp[5];
    struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *init);
    ibv_nothing get_srq_num_to_close_xrcd[4];
    uint64_t placeholder;
    size_t sz;
    struct ibv_context context;
};

#endif
