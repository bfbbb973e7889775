/* The interface between host driver and device: the memory that both map, and the messages between them.
 *
 * The only definition: the driver includes it, and fanin_wire.abi makes the device's numpy dtypes from it, by cffi.
 * Little-endian, natural alignment, no implicit padding. */
#ifndef FANIN_ABI_H
#define FANIN_ABI_H
#include <stdint.h>

#define FANIN_ABI_VERSION 8
#define FANIN_SQ_DEPTH 256        /* WQEs of one send queue */
#define FANIN_CQ_DEPTH 2048       /* CQEs of one completion queue */
#define FANIN_ARRIVAL_UNIT 64     /* bytes: an entry of an arrival ring takes whole units */
#define FANIN_ARRIVAL_UNITS 2048  /* of one arrival ring */
#define FANIN_MAX_ARRIVAL 16384   /* bytes: the longest message in an arrival ring, within one node */
#define FANIN_MAX_INLINE 16       /* bytes of data that a WQE can carry */
#define FANIN_MAX_ADDRESSES 64    /* ranks that one WQE can post for: all of a node */
#define FANIN_MIN_WQE_CHUNK 8     /* bytes: the shortest chunk of a WQE */
#define FANIN_MAX_CHILDREN 64     /* bits of a bitmap: ranks of a node, devices below a device, nodes of a ring */
#define FANIN_MID_BITS 16         /* of a message number: its count; the upper bits have the digest of `mid` */
#define FANIN_MAX_HOPS 8          /* levels of switches above a node */
#define FANIN_LOCAL_CHUNK 16384   /* bytes: the longest chunk of a job within one node */
#define FANIN_LONG_BYTES 4194304  /* from this length on results have left the caches when a message is complete */
#define FANIN_NO_ARRIVAL 0xffffffff /* as a length: the rest of the ring is unused */
#define FANIN_ORDINARY_DEPTH 1024 /* work requests in a send or receive ring of ordinary traffic */
#define FANIN_SHARED_DEPTH 4096   /* work requests in the ring of a shared receive queue */
#define FANIN_MAX_SGE 8           /* pieces of memory of a work request of ordinary traffic */
#define FANIN_MAX_INLINE_DATA 128 /* bytes of inline data of a work request of ordinary traffic */
#define FANIN_TOKEN_BYTES 32      /* of the token by which a client over RDMA proves its rights */
#define FANIN_RDMA_VERSION 2      /* of the protocol between a client over RDMA and its device; 1: no markers */
#define FANIN_MARKER 0xffffffff   /* immediate data of an empty message: all earlier writes have arrived */
#define FANIN_LKEY_PROCESS 0xffffffff /* the ordinary memory of the client's process */

enum fanin_status {
    FANIN_SUCCESS = 0,
    FANIN_PENDING = 1,
    FANIN_BUFFER_ERROR = 2,
    FANIN_LOCAL_PROTECTION_ERROR = 3,
    FANIN_PEER_LOST = 4,
    FANIN_TIMEOUT = 5,
    FANIN_OP_MISMATCH = 6,
    FANIN_NOT_CONFIGURED = 7,
    FANIN_JID_IN_USE = 8,
    FANIN_NO_RESOURCES = 9,
    FANIN_ABORTED = 10,
    FANIN_FLUSHED = 11,
    FANIN_NOT_SUPPORTED = 12,
    FANIN_INVALID_REQUEST = 13,
    FANIN_VERSION_MISMATCH = 14,
    FANIN_DEVICE_LOST = 15,
    FANIN_QUEUE_FULL = 16,
    FANIN_NO_DEVICE = 17,
    FANIN_PERMISSION_DENIED = 18,
    FANIN_MEMBERS_MISMATCH = 19,
    FANIN_CQ_OVERRUN = 20,
    FANIN_TOO_FEW_LANES = 21,
    FANIN_DRAINING = 22,
    FANIN_PATH_MTU = 23
};

/* tables, written by `make tables` */
enum fanin_op {
    FANIN_OP_NONE = 0,
    FANIN_OP_SUM = 1,
    FANIN_OP_MIN = 2,
    FANIN_OP_MAX = 3,
    FANIN_OP_MEAN = 4,
    FANIN_OP_PROD = 5,
    FANIN_OP_LAND = 6,
    FANIN_OP_LOR = 7,
    FANIN_OP_LXOR = 8,
    FANIN_OP_BAND = 9,
    FANIN_OP_BOR = 10,
    FANIN_OP_BXOR = 11,
    FANIN_OP_MINLOC = 12,
    FANIN_OP_MAXLOC = 13
};

/* With their names in numpy. A pair is the value and the index of MINLOC and MAXLOC, a C struct as MPI has it. */
enum fanin_dtype {
    FANIN_DTYPE_NONE = 0,
    FANIN_DTYPE_F32 = 1,          /* float32 */
    FANIN_DTYPE_F64 = 2,          /* float64 */
    FANIN_DTYPE_I32 = 3,          /* int32 */
    FANIN_DTYPE_I64 = 4,          /* int64 */
    FANIN_DTYPE_I8 = 5,           /* int8 */
    FANIN_DTYPE_I16 = 6,          /* int16 */
    FANIN_DTYPE_U8 = 7,           /* uint8 */
    FANIN_DTYPE_U16 = 8,          /* uint16 */
    FANIN_DTYPE_U32 = 9,          /* uint32 */
    FANIN_DTYPE_U64 = 10,         /* uint64 */
    FANIN_DTYPE_F16 = 11,         /* float16 */
    FANIN_DTYPE_BF16 = 12,        /* bfloat16 */
    FANIN_DTYPE_BOOL = 13,        /* bool */
    FANIN_DTYPE_C64 = 14,         /* complex64 */
    FANIN_DTYPE_C128 = 15,        /* complex128 */
    FANIN_DTYPE_F32_I32 = 16,     /* float32 and int32 */
    FANIN_DTYPE_F64_I32 = 17,     /* float64 and int32 */
    FANIN_DTYPE_I16_I32 = 18,     /* int16 and int32 */
    FANIN_DTYPE_I32_I32 = 19,     /* int32 and int32 */
    FANIN_DTYPE_I64_I32 = 20      /* int64 and int32 */
};
/* end of tables */

/* The ranks that bring data for a position; the owner of a ONE position is part of the WR. */
enum fanin_class { FANIN_CLASS_NONE = 0, FANIN_CLASS_ONE = 1, FANIN_CLASS_ALL = 2 };

/* The path of a job through the fabric. */
enum fanin_route { FANIN_ROUTE_LOCAL = 0, FANIN_ROUTE_TREE = 1, FANIN_ROUTE_RING = 2 };

enum fanin_wqe_opcode {
    FANIN_WQE_COLLECTIVE = 1,
    FANIN_WQE_QUERY = 2       /* asks for the progress of message `mid`; answered at once, takes no position */
};

enum fanin_wqe_flags {
    FANIN_WQE_SIGNALED = 1,
    FANIN_WQE_ADDRESS_LIST = 2, /* address.source points to the list, in the region of source_lkey */
    FANIN_WQE_INLINE = 4,       /* the data are in the WQE, from address.source on: at most FANIN_MAX_INLINE bytes */
    FANIN_WQE_FENCE = 8,        /* starts when all earlier requests of the queue pair are complete */
    FANIN_WQE_LONG = 16         /* the whole result exceeds the caches: the device may write past them */
};

/* How the devices of a job compute (JOIN, CONFIG). */
enum fanin_job_flags {
    FANIN_JOB_WIDE = 1,               /* partials of small floats travel as f32 */
    FANIN_JOB_REPRODUCIBLE_RUN = 2,   /* fold in ascending bit order */
    FANIN_JOB_REPRODUCIBLE_SHAPE = 4, /* the same, and a ring that starts at node 0 */
    FANIN_JOB_FIXED_START = 8         /* this ring starts all segments at node 0; set for each device, not the job */
};

/* Access rights of a region. ORDINARY: ordinary traffic of its protection domain may read it, and, by the other rights,
 * do more; without ORDINARY the region is for collectives only. The first four are those of enum ibv_access_flags, also
 * for queue pairs. */
enum fanin_access {
    FANIN_ACCESS_WRITE = 1,
    FANIN_ACCESS_REMOTE_WRITE = 2,
    FANIN_ACCESS_REMOTE_READ = 4,
    FANIN_ACCESS_REMOTE_ATOMIC = 8,
    FANIN_ACCESS_READ = 1 << 28,
    FANIN_ACCESS_ORDINARY = 1 << 29,
    FANIN_ACCESS_REMOTE_INVALIDATE = 1 << 30 /* a SEND with invalidate may revoke the remote key */
};

/* The data that a rank brings and wants (client's virtual addresses): of the blocks of a message a range each, without
 * gaps in its memory. No blocks: it brings (wants) nothing. */
struct fanin_address {
    uint64_t destination;     /* of block destination_first */
    uint32_t destination_first;
    uint32_t destination_blocks;
    uint32_t source_first;
    uint32_t source_blocks;
    uint64_t source;          /* of block source_first */
};

/* Work queue entry, 128 bytes. */
struct fanin_wqe {
    uint8_t opcode;           /* enum fanin_wqe_opcode */
    uint8_t op;               /* enum fanin_op */
    uint8_t dtype;            /* enum fanin_dtype */
    uint8_t contributors;     /* enum fanin_class */
    uint16_t flags;           /* enum fanin_wqe_flags */
    uint8_t route;            /* enum fanin_route; must be the job's */
    uint8_t address_count;    /* ranks posted for: bits of the rank bitmap */
    uint64_t wr_id;           /* returned in the CQE */
    uint32_t jid;             /* job id */
    uint32_t mid;             /* message number within the job: equal on all ranks, otherwise OP_MISMATCH. The upper
                               * half is for a digest of arguments that devices do not compare, such as a root */
    uint32_t sid;             /* sequence number in the message of the first segment that this WQE posts */
    uint32_t seg;             /* its slot, relative to the lease: its position mod slots */
    uint64_t node_bitmap;     /* nodes that take part, up to 64 */
    uint64_t rank_bitmap;     /* ranks of this node that this WQE posts for */
    uint64_t length;          /* bytes of the message: all its blocks */
    uint64_t block;           /* bytes of a block; the last may be shorter. No segment crosses the end of a block */
    uint32_t chunk;           /* bytes of a segment's payload: a power of two up to the lease's, equal on all ranks */
    uint32_t segments;        /* positions that this WQE takes, one for each segment from sid on */
    uint32_t source_lkey;
    uint32_t destination_lkey;
    uint32_t deadline_ms;     /* 0: none */
    uint32_t reserved;
    struct fanin_address address;
    uint64_t inline_tail;     /* INLINE: the second half of the data */
};

/* Completion queue entry, 64 bytes. */
struct fanin_cqe {
    uint64_t wr_id;
    uint64_t byte_length;     /* bytes of the message that are complete */
    uint64_t missing;         /* TIMEOUT, PEER_LOST, QUERY: bitmap of the missing members */
    uint32_t qp;
    uint32_t jid;
    uint32_t mid;
    uint8_t status;           /* enum fanin_status */
    uint8_t opcode;           /* of the WQE */
    uint8_t missing_kind;     /* 0: ranks of this node; k: children of the k-th device above (ring, 1: nodes) */
    uint8_t kind;             /* enum fanin_completion_kind: COLLECTIVE */
    uint32_t positions;       /* positions that are complete */
    uint32_t lost_device;     /* IPv4 address, host order. PEER_LOST: of the silent or restarted device; PATH_MTU: of
                               * the other end of the path. 0: a process, several devices, or unknown */
    uint64_t reserved64[2];
};

/* ---- Ordinary traffic: RC, UC and UD, beside the offload. Codes are those of infiniband/verbs.h. ---- */

/* A completion ring has entries of both kinds, with `kind` at the same offset. */
enum fanin_completion_kind { FANIN_COMPLETION_COLLECTIVE = 0, FANIN_COMPLETION_ORDINARY = 1 };

enum fanin_service { FANIN_SERVICE_RC = 2, FANIN_SERVICE_UC = 3, FANIN_SERVICE_UD = 4 };

enum fanin_qp_state {
    FANIN_QP_RESET = 0,
    FANIN_QP_INIT = 1,
    FANIN_QP_RTR = 2,         /* ready to receive */
    FANIN_QP_RTS = 3,         /* ready to send */
    FANIN_QP_SQD = 4,         /* begins no send request */
    FANIN_QP_SQE = 5,         /* UC, UD: the send queue has failed */
    FANIN_QP_ERR = 6
};

enum fanin_send_opcode {
    FANIN_SEND_RDMA_WRITE = 0,
    FANIN_SEND_RDMA_WRITE_WITH_IMM = 1,
    FANIN_SEND_SEND = 2,
    FANIN_SEND_SEND_WITH_IMM = 3,
    FANIN_SEND_RDMA_READ = 4,
    FANIN_SEND_ATOMIC_CMP_AND_SWP = 5,
    FANIN_SEND_ATOMIC_FETCH_AND_ADD = 6,
    FANIN_SEND_SEND_WITH_INV = 9
};

enum fanin_send_flags {
    FANIN_SEND_FENCE = 1,     /* begins when all earlier reads and atomics are complete */
    FANIN_SEND_SIGNALED = 2,
    FANIN_SEND_SOLICITED = 4,
    FANIN_SEND_INLINE = 8
};

/* Attributes in a modification of a queue pair: enum ibv_qp_attr_mask. */
enum fanin_qp_attribute {
    FANIN_ATTR_STATE = 1,
    FANIN_ATTR_CUR_STATE = 2,
    FANIN_ATTR_EN_SQD_ASYNC_NOTIFY = 4,
    FANIN_ATTR_ACCESS_FLAGS = 8,
    FANIN_ATTR_PKEY_INDEX = 16,
    FANIN_ATTR_PORT = 32,
    FANIN_ATTR_QKEY = 64,
    FANIN_ATTR_AV = 128,
    FANIN_ATTR_PATH_MTU = 256,
    FANIN_ATTR_TIMEOUT = 512,
    FANIN_ATTR_RETRY_CNT = 1024,
    FANIN_ATTR_RNR_RETRY = 2048,
    FANIN_ATTR_RQ_PSN = 4096,
    FANIN_ATTR_MAX_QP_RD_ATOMIC = 8192,
    FANIN_ATTR_ALT_PATH = 16384,
    FANIN_ATTR_MIN_RNR_TIMER = 32768,
    FANIN_ATTR_SQ_PSN = 65536,
    FANIN_ATTR_MAX_DEST_RD_ATOMIC = 131072,
    FANIN_ATTR_PATH_MIG_STATE = 262144,
    FANIN_ATTR_CAP = 524288,
    FANIN_ATTR_DEST_QPN = 1048576
};

/* Of a completion: enum ibv_wc_status, ibv_wc_opcode and ibv_wc_flags, as far as the device has them. */
enum fanin_wc_status {
    FANIN_WC_SUCCESS = 0,
    FANIN_WC_LOC_LEN_ERR = 1,
    FANIN_WC_LOC_QP_OP_ERR = 2,
    FANIN_WC_LOC_PROT_ERR = 4,
    FANIN_WC_WR_FLUSH_ERR = 5,
    FANIN_WC_REM_INV_REQ_ERR = 9,
    FANIN_WC_REM_ACCESS_ERR = 10,
    FANIN_WC_REM_OP_ERR = 11,
    FANIN_WC_RETRY_EXC_ERR = 12,
    FANIN_WC_RNR_RETRY_EXC_ERR = 13
};

enum fanin_wc_opcode {
    FANIN_WC_SEND = 0,
    FANIN_WC_RDMA_WRITE = 1,
    FANIN_WC_RDMA_READ = 2,
    FANIN_WC_COMP_SWAP = 3,
    FANIN_WC_FETCH_ADD = 4,
    FANIN_WC_RECV = 128,
    FANIN_WC_RECV_RDMA_WITH_IMM = 129
};

enum fanin_wc_flags {
    FANIN_WC_GRH = 1,
    FANIN_WC_WITH_IMM = 2,
    FANIN_WC_WITH_INV = 8
};

struct fanin_sge {
    uint64_t address;         /* client's virtual address */
    uint32_t length;
    uint32_t lkey;
};

/* Work request to send, 192 bytes. */
struct fanin_send_wqe {
    uint64_t wr_id;
    uint8_t opcode;           /* enum fanin_send_opcode */
    uint8_t flags;            /* enum fanin_send_flags */
    uint8_t sge_count;
    uint8_t reserved;
    uint32_t immediate;       /* SEND_WITH_INV: the remote key; else immediate data, host order */
    uint64_t remote_address;  /* WRITE, READ, atomics */
    uint32_t rkey;
    uint32_t inline_length;   /* INLINE: bytes of data in place of the pieces */
    uint64_t compare_add;     /* atomics: the operand of compare or add */
    uint64_t swap;
    uint32_t destination;     /* UD: IPv4 address, host order */
    uint32_t remote_qpn;      /* UD */
    uint32_t remote_qkey;     /* UD; with the highest bit set: the queue pair's own key */
    uint32_t reserved4;
    struct fanin_sge sge[8];
};

/* Work request to receive, 144 bytes. */
struct fanin_receive_wqe {
    uint64_t wr_id;
    uint32_t sge_count;
    uint32_t reserved;
    struct fanin_sge sge[8];
};

/* Completion of ordinary traffic, 64 bytes. */
struct fanin_wc {
    uint64_t wr_id;
    uint32_t byte_length;
    uint32_t immediate;       /* immediate data, host order, or the key that was invalidated */
    uint32_t source_qpn;      /* of a datagram */
    uint32_t source;          /* of a datagram: IPv4 address of its sender, host order */
    uint32_t qpn;
    uint32_t unsolicited;     /* 1: not of a solicited message */
    uint32_t reserved;
    uint8_t status;           /* enum fanin_wc_status */
    uint8_t opcode;           /* enum fanin_wc_opcode */
    uint8_t flags;            /* enum fanin_wc_flags */
    uint8_t kind;             /* enum fanin_completion_kind: ORDINARY */
    uint64_t reserved64[3];
};

/* ---- */

/* A short message of class ONE whose data have come before this rank has posted its request. A rank that finds it
 * copies the data, which follow, and posts a request that wants nothing. Otherwise, or if the ring is full, the data
 * come in the usual way. An entry takes whole units, and never wraps around the end of its ring. */
struct fanin_arrival {
    uint32_t jid;
    uint32_t mid;             /* as in the WQE of the rank that brings the data */
    uint32_t length;          /* bytes; FANIN_NO_ARRIVAL: continue at the first unit */
    uint8_t dtype;            /* enum fanin_dtype */
    uint8_t reserved[3];
};

/* Head of a ring in shared memory; the entries follow it. Counters are free-running: entry = counter mod depth. */
struct fanin_ring {
    uint32_t producer;        /* stored with release by the side that fills the ring */
    uint32_t consumer_seen;   /* copy for the side that fills the ring, which reads `consumer` only if this leaves no
                               * room */
    uint32_t reserved_producer[14];
    uint32_t consumer;        /* stored with release by the side that empties it */
    uint32_t reserved_consumer[15];
    uint32_t waiting;         /* completion ring: a host thread sleeps on `producer` (futex) */
    uint32_t overrun;         /* completion ring: the device had no room for a completion */
    uint32_t wake_at;         /* completion ring: wake the thread when `producer` has reached this */
    uint32_t reserved_waiting[13];
};

/* First page of the shared control region. */
struct fanin_doorbell {
    uint32_t device_sleeping; /* 1: write 1 to the eventfd after storing a send ring's producer */
    uint32_t device_gone;     /* 1: the device has detached this client */
    uint32_t beat;            /* changes while the device runs, at the latest after a write to the eventfd */
    uint32_t detection_ms;    /* a woken device without a beat for this time is lost; 0: never */
    uint32_t reserved[12];
};

/* Messages on the UNIX socket (SOCK_SEQPACKET): each request has a reply with the same tag, late for JOIN and LEAVE. On
 * the TCP connection of a client over RDMA each message follows its length, 4 bytes. */
enum fanin_message_type {
    FANIN_MSG_ATTACH = 1,     /* request + fd of /proc/self/mem (optional); reply + fds of control region and eventfd */
    FANIN_MSG_REGISTER = 2,   /* request + fd of a memfd sealed against shrinking; ORDINARY without fd: any memory */
    FANIN_MSG_DEREGISTER = 3,
    FANIN_MSG_CREATE_CQ = 4,
    FANIN_MSG_CREATE_QP = 5,
    FANIN_MSG_JOIN = 6,
    FANIN_MSG_LEAVE = 7,
    FANIN_MSG_STATUS = 8,     /* reply: this head, then UTF-8 JSON */
    FANIN_MSG_DESTROY_QP = 9,
    FANIN_MSG_DESTROY_CQ = 10,
    FANIN_MSG_PROFILE = 11,   /* as STATUS; the device profiles itself until the connection ends */
    FANIN_MSG_CREATE_ORDINARY_QP = 12,
    FANIN_MSG_DESTROY_ORDINARY_QP = 13,
    FANIN_MSG_MODIFY_ORDINARY_QP = 14,
    FANIN_MSG_QUERY_ORDINARY_QP = 15,
    FANIN_MSG_CREATE_SHARED_QUEUE = 16,
    FANIN_MSG_DESTROY_SHARED_QUEUE = 17,
    FANIN_MSG_ATTACH_RDMA = 18, /* the first message of a client over RDMA */
    FANIN_MSG_MIRROR = 19,    /* its second: the place of its copy of the control region */
    FANIN_MSG_TAP = 20        /* reply: this head, then UTF-8 JSON + fd of the rings; ends with the connection */
};

enum fanin_tap_flags {
    FANIN_TAP_PACKETS = 1,    /* received and sent by the lanes */
    FANIN_TAP_SEGMENTS = 2,   /* the events of each segment */
    FANIN_TAP_ONE_JOB = 4     /* of the job `jid` only */
};

struct fanin_message {
    uint16_t version;         /* FANIN_ABI_VERSION */
    uint16_t type;            /* enum fanin_message_type */
    uint32_t tag;             /* chosen by the client, returned in the reply */
    uint32_t status;          /* reply: enum fanin_status */
    uint32_t markers;         /* reply, over RDMA: markers posted. DESTROY_QP, LEAVE: all results precede them */
};

struct fanin_tap {            /* fanin_wire/tap.py has the layout of the rings */
    struct fanin_message head;
    uint32_t flags;           /* enum fanin_tap_flags, or-ed */
    uint32_t jid;
    uint32_t kinds;           /* of packets, by bits: opcode - 0xC0 of the offload; bit 16: all other packets */
    uint32_t units;           /* of one ring: a power of two */
};

struct fanin_attach_reply {
    struct fanin_message head;
    uint64_t region_bytes;    /* size of the control region */
    uint32_t sq_offset;       /* of send ring 0 in the control region */
    uint32_t sq_stride;
    uint32_t cq_offset;
    uint32_t cq_stride;
    uint32_t max_qp;          /* of this client */
    uint32_t max_cq;
    uint32_t max_chunk;       /* bytes: the largest payload of a segment, after the path MTU */
    uint32_t slots;           /* seg buffers of the device */
    uint32_t address;         /* IPv4 of the device, host order; 0: none */
    uint32_t aq_offset;       /* of the arrival ring of queue pair 0 */
    uint32_t aq_stride;
    uint32_t oq_offset;       /* of the send ring of ordinary queue pair 0 */
    uint32_t oq_stride;
    uint32_t oq_receive;      /* from a send ring of ordinary traffic to the receive ring of its queue pair */
    uint32_t max_ordinary_qp; /* of this client; 0: the device has no ordinary traffic */
    uint32_t path_mtu;        /* bytes: the largest path MTU that the port carries */
    uint32_t srq_offset;      /* of the receive ring of shared receive queue 0 */
    uint32_t srq_stride;
    uint32_t max_shared_queues; /* of this client */
    uint32_t mtu;             /* bytes: the largest IP packet that the device sends */
};

/* A queue pair of a verbs device, for the other side to connect to. */
struct fanin_endpoint {
    uint8_t gid[16];
    uint32_t qpn;
    uint32_t psn;             /* of its first packet */
    uint32_t path_mtu;        /* bytes: the largest that its port carries */
    uint16_t reads_asked;     /* READs that it can have in flight */
    uint16_t reads_answered;  /* READs that it can answer at once. Each side has as many in flight as it can ask and
                               * the other can answer, at least one */
};

struct fanin_attach_rdma {    /* request */
    struct fanin_message head;
    uint8_t token[FANIN_TOKEN_BYTES]; /* from the token file */
    struct fanin_endpoint endpoint;
    uint32_t version;         /* FANIN_RDMA_VERSION. In version 1 the message ends here */
    uint32_t reserved;
};

struct fanin_attach_rdma_reply {
    struct fanin_attach_reply attached;
    struct fanin_endpoint endpoint;
    uint64_t region;          /* address of the control region in the device */
    uint32_t rkey;            /* its remote key */
    uint32_t detection_ms;    /* as in the doorbell page */
};

struct fanin_mirror {         /* request and reply */
    struct fanin_message head;
    uint64_t region;          /* address of the client's copy of the control region */
    uint32_t rkey;            /* its remote key */
    uint32_t reserved;
};

struct fanin_register {       /* request and reply */
    struct fanin_message head;
    uint64_t address;         /* client's virtual address of the region */
    uint64_t length;
    uint64_t offset;          /* of the region in the memfd */
    uint32_t access;          /* enum fanin_access, or-ed */
    uint32_t lkey;            /* reply; of ORDINARY memory also the remote key. Request, over RDMA: the remote key */
    uint32_t domain;          /* ORDINARY: protection domain, a number from 0 to 65535 that the client chooses */
    uint32_t reserved;
};

struct fanin_queue {          /* CREATE_CQ, CREATE_QP, DESTROY_*, LEAVE: request and reply */
    struct fanin_message head;
    uint32_t cq;              /* index of the completion ring */
    uint32_t qp;              /* index of the send ring */
};

struct fanin_ordinary_qp {    /* CREATE_ORDINARY_QP, DESTROY_ORDINARY_QP: request and reply */
    struct fanin_message head;
    uint32_t qp;              /* index of its rings */
    uint32_t qpn;             /* reply: its number on the wire */
    uint32_t service;         /* enum fanin_service */
    uint32_t domain;          /* protection domain, as in REGISTER */
    uint32_t send_cq;         /* indices of completion rings */
    uint32_t receive_cq;
    uint32_t all_signaled;    /* 1: every send request has a completion */
    uint32_t shared_queue;    /* 1 + index of its shared receive queue; 0: none */
};

struct fanin_shared_queue {   /* CREATE_SHARED_QUEUE, DESTROY_SHARED_QUEUE: request and reply */
    struct fanin_message head;
    uint32_t shared_queue;    /* index of its ring */
    uint32_t domain;          /* protection domain of its queue pairs, as in REGISTER */
};

struct fanin_qp_attributes {  /* MODIFY_ORDINARY_QP: request and reply; QUERY_ORDINARY_QP: reply */
    struct fanin_message head;
    uint32_t qp;
    uint32_t mask;            /* enum fanin_qp_attribute: members given beside `state` */
    uint32_t state;           /* enum fanin_qp_state */
    uint32_t cur_state;
    uint32_t access;          /* enum fanin_access: rights of the other side */
    uint32_t qkey;
    uint32_t destination;     /* IPv4 of the other side, host order (AV) */
    uint32_t remote_qpn;
    uint32_t path_mtu;        /* bytes */
    uint32_t receive_psn;
    uint32_t send_psn;
    uint32_t most_reads;      /* MAX_QP_RD_ATOMIC */
    uint32_t most_responses;  /* MAX_DEST_RD_ATOMIC */
    uint32_t rnr_timer;       /* MIN_RNR_TIMER */
    uint32_t timeout;         /* 4.096 us x 2^timeout; 0: none */
    uint32_t retry_count;
    uint32_t rnr_retry;
    uint32_t pkey_index;
    uint32_t port;
    uint32_t reserved;
};

/* One level above a node: the device, the bit of the lower device at it, and all bits it waits for. */
struct fanin_hop {
    uint32_t address;         /* IPv4, host order */
    uint32_t bit;
    uint64_t mask;
};

struct fanin_join {           /* request */
    struct fanin_message head;
    uint32_t qp;
    uint32_t jid;
    uint32_t key;
    uint32_t route;           /* enum fanin_route */
    uint64_t rank_bitmap;     /* ranks that this queue pair posts for */
    uint64_t rank_mask;       /* all ranks of this node in the job */
    uint64_t digest[2];       /* over ordered members, route and parameters */
    uint32_t slots;           /* offered lease: a power of two */
    uint32_t chunk;           /* bytes of payload of a segment: a power of two */
    uint32_t node_index;      /* ring: this node's position */
    uint32_t node_count;      /* nodes of the ring, or else of the job */
    uint32_t next_address;    /* ring: IPv4 of the next node, host order */
    uint32_t previous_address;
    uint32_t hop_count;       /* levels of switches above this node (ring: above its last node) */
    uint32_t flags;           /* enum fanin_job_flags, or-ed */
    struct fanin_hop hop[8];
};

struct fanin_join_reply {
    struct fanin_message head;
    uint32_t slots;           /* granted; NO_RESOURCES: would fit; VERSION_MISMATCH: the other device's version, or 0;
                               * PEER_LOST: the lost device, as in the CQE */
    uint32_t window;          /* positions in flight */
    uint32_t chunk;
    uint32_t missing_kind;    /* as in the CQE */
    uint64_t missing;
};

#endif
