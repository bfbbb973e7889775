"""The record of a lane: all state of its compiled loop, by address or by value."""

import numpy as np

from fanin_nic.engine.records.accessors import U64
from fanin_nic.native.libc import POLLFD
from fanin_nic.native.memory import record_at
from fanin_wire import abi

MAX_NOTICES = 1024
DESCRIPTORS = 6  # polled by a sleeping lane
CLIENT_OF_PROCESS = 1  # `process` of an action minus the number of its client

# The rings of a queue pair of ordinary traffic, by address; 0: none
ORDINARY_RINGS = np.dtype([("send", "u8"), ("receive", "u8")])

LANE = np.dtype(
    [
        ("engine", "u8"),  # address of the arena
        ("port", "u8"),  # address of the PORT record
        ("send_rings", "u8"),  # addresses of the send rings by queue; 0: none
        ("completion_rings", "u8"),  # addresses of the completion rings by queue
        ("arrival_rings", "u8"),  # addresses of the arrival rings by queue; 0: none
        ("memory_fds", "u8"),  # int32 descriptors of process memory by client; -1: none
        ("remotes", "u8"),  # addresses of REMOTE records by client; 0: on this host
        ("staging", "u8"),  # bytes read from process memory, before they are computed
        ("notices", "u8"),  # ACTION records for Python
        ("reads", "u8"),  # ACTION records of DMA reads that wait for room
        ("overrun", "u8"),  # byte by queue: 1: a completion had no room
        ("splitter", "u8"),  # lane 0 of several: address of the SPLITTER; else 0
        ("host_doorbell", "u8"),  # one of several: address of the LANE_DOORBELL of lane 0; else 0
        ("profile", "u8"),  # address of a PROFILE while the device is profiled; else 0
        ("transport", "u8"),  # lane 0 of a NIC: address of the arena of ordinary traffic; else 0
        ("ordinary_rings", "u8"),  # ORDINARY_RINGS by row of the queue pair
        ("shared_rings", "u8"),  # addresses of the rings of shared receive queues by row; 0: none
        ("ordinary_completion_rings", "u8"),  # addresses of the completion rings by number; 0: none
        ("jobs_aborted", "u8"),  # one of several: jobs ended early when `run` last reported it
        ("notice_count", "u4"),
        ("interrupt", "u4"),  # 1: another thread wants `run` to return
        ("queues", "u4"),  # 1 + highest queue in use
        ("first_queue", "u4"),  # its requests are taken first
        ("ordinary_end", "u4"),  # 1 + highest row of a queue pair of ordinary traffic; 0: none
        ("ordinary_first", "u4"),  # its requests are taken first
        ("shared_end", "u4"),  # 1 + highest row of a shared receive queue; 0: none
        ("remote_end", "u4"),  # 1 + highest client over RDMA; 0: none
        ("remote_broken", "u4"),  # 1: the queue pair of one of them has failed
        ("control_fd", "i4"),
        ("receive_fd", "i4"),
        ("group_fd", "i4"),
        ("wake_fd", "i4"),  # readable after a signal
        ("lane_doorbell_fd", "i4"),  # another lane has work for this one
        ("doorbells_fd", "i4"),  # an epoll: a client has posted while this lane slept
        ("doorbell_count", "u4"),
        ("read_count", "u4"),
        ("overruns", "u4"),  # 1: some byte of `overrun` is set
        ("streamed", "u4"),  # 1: results went past the caches since the last fence
        ("doorbells", "u8"),  # addresses of the clients' doorbell pages
        ("next_control", "u8"),  # ns
        ("next_receive", "u8"),  # ns
        ("watch_port_until", "u8"),  # ns until which every turn polls the port
        ("cq_overflows", "u8"),
        ("dma_errors", "u8"),
        # Fair turns: bytes of the port at the last look, and credits; when a kind last had some, in ns
        ("collective_seen", "u8"),
        ("ordinary_seen", "u8"),
        ("collective_credit", "i8"),
        ("ordinary_credit", "i8"),
        ("collective_free", "u8"),
        ("ordinary_free", "u8"),
        ("wqe", abi.WQE),
        ("cqe", abi.CQE),
        ("send_wqe", abi.SEND_WQE),
        ("receive_wqe", abi.RECEIVE_WQE),
        ("wc", abi.WC),
        ("pollfd", POLLFD, (DESCRIPTORS,)),
    ],
    align=True,
)
_RECORDS = ("wqe", "cqe", "send_wqe", "receive_wqe", "wc", "pollfd")
_SCALARS = [name for name in LANE.names or () if name not in _RECORDS]
WQE_SCRATCH = U64(LANE.fields["wqe"][1])  # type: ignore[index]
CQE_SCRATCH = U64(LANE.fields["cqe"][1])  # type: ignore[index]
SEND_WQE_SCRATCH = U64(LANE.fields["send_wqe"][1])  # type: ignore[index]
RECEIVE_WQE_SCRATCH = U64(LANE.fields["receive_wqe"][1])  # type: ignore[index]
WC_SCRATCH = U64(LANE.fields["wc"][1])  # type: ignore[index]
POLLFDS = U64(LANE.fields["pollfd"][1])  # type: ignore[index]
INTERRUPT_FLAG = U64(LANE.fields["interrupt"][1])  # type: ignore[index]

lane_at = record_at(LANE[_SCALARS])
