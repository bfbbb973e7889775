"""The codes of ordinary RDMA traffic at the host interface, equal to those of `infiniband/verbs.h`, so that programs
and the verbs library pass them on. Names lack the prefix of verbs: IBV_WC_LOC_LEN_ERR is
`CompletionStatus.LOC_LEN_ERR`.
"""

from __future__ import annotations

import enum


class QueuePairState(enum.IntEnum):
    """enum ibv_qp_state."""

    RESET = 0
    INIT = 1
    RTR = 2  # ready to receive
    RTS = 3  # ready to send
    SQD = 4  # send queue drained: no request is begun
    SQE = 5  # send queue in error: of UC and UD, which still receive
    ERR = 6


class Attribute(enum.IntFlag):
    """enum ibv_qp_attr_mask: the attributes that a modification gives."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    EN_SQD_ASYNC_NOTIFY = 1 << 2
    ACCESS_FLAGS = 1 << 3
    PKEY_INDEX = 1 << 4
    PORT = 1 << 5
    QKEY = 1 << 6
    AV = 1 << 7
    PATH_MTU = 1 << 8
    TIMEOUT = 1 << 9
    RETRY_CNT = 1 << 10
    RNR_RETRY = 1 << 11
    RQ_PSN = 1 << 12
    MAX_QP_RD_ATOMIC = 1 << 13
    ALT_PATH = 1 << 14
    MIN_RNR_TIMER = 1 << 15
    SQ_PSN = 1 << 16
    MAX_DEST_RD_ATOMIC = 1 << 17
    PATH_MIG_STATE = 1 << 18
    CAP = 1 << 19
    DEST_QPN = 1 << 20


class Access(enum.IntFlag):
    """enum ibv_access_flags, and one of ours."""

    LOCAL_WRITE = 1 << 0
    REMOTE_WRITE = 1 << 1
    REMOTE_READ = 1 << 2
    REMOTE_ATOMIC = 1 << 3
    REMOTE_INVALIDATE = 1 << 30  # a SEND with invalidate may name the region; verbs has memory windows for this


class RequestOpcode(enum.IntEnum):
    """enum ibv_wr_opcode."""

    RDMA_WRITE = 0
    RDMA_WRITE_WITH_IMM = 1
    SEND = 2
    SEND_WITH_IMM = 3
    RDMA_READ = 4
    ATOMIC_CMP_AND_SWP = 5
    ATOMIC_FETCH_AND_ADD = 6
    SEND_WITH_INV = 9


class SendFlag(enum.IntFlag):
    """enum ibv_send_flags."""

    FENCE = 1 << 0  # begins when all earlier reads and atomics are complete
    SIGNALED = 1 << 1
    SOLICITED = 1 << 2  # the receiver's completion is an event for a CQ that waits for solicited ones only
    INLINE = 1 << 3


class CompletionStatus(enum.IntEnum):
    """enum ibv_wc_status, without those that a device never gives."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13


class CompletionOpcode(enum.IntEnum):
    """enum ibv_wc_opcode."""

    SEND = 0
    RDMA_WRITE = 1
    RDMA_READ = 2
    COMP_SWAP = 3
    FETCH_ADD = 4
    RECV = 128
    RECV_RDMA_WITH_IMM = 129


class CompletionFlag(enum.IntFlag):
    """enum ibv_wc_flags."""

    GRH = 1 << 0  # the buffer's first 40 bytes are for the network header
    WITH_IMM = 1 << 1
    WITH_INV = 1 << 3


MAX_RD_ATOMIC = 16  # reads and atomics in flight, and answered, of a queue pair; a power of two
