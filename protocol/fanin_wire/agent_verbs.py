"""Requests to the agent about ordinary RDMA traffic: queue pairs, each with its own memory (docs/conformance.md).

Names are those of verbs: operations as in IBV_WR_..., rights as in IBV_ACCESS_..., statuses as in IBV_WC_....
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from fanin_wire.agent_request import Number24, Number32, Number64, Queue, Request, Seconds

MAX_MEMORY = 1 << 18  # bytes of a queue pair
REMOTE_RIGHTS = ("REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC")

Place = Annotated[int, Meta(ge=0, le=MAX_MEMORY)]  # bytes from the start of the memory


class CreateQp(Request, tag="create_qp"):
    """Make a queue pair with its own completion queue and zeroed memory, in place of an earlier one with this number.
    Answer: `qpn`; `address` and `rkey` of the memory, which is registered with all rights."""

    qp: Queue
    service: str = "RC"
    memory: Annotated[int, Meta(ge=64, le=MAX_MEMORY)] = 1 << 16


class ConnectQp(Request, tag="connect_qp"):
    """Bring a queue pair to RTS. Answer: empty.

    address, qpn: of the other side, not for UD. mtu: in bytes. rights: of the other side through this queue pair.
    timeout: 4.096 us * 2^timeout; 0: none. retries, rnr_retries: 7 of the latter: no limit. rnr_timer: code of the time
    in its RNR NAKs. reads: READs and atomics in flight, of each side. qkey: for UD.
    """

    qp: Queue
    address: str = ""
    qpn: Number24 = 0
    send_psn: Number24 = 0
    receive_psn: Number24 = 0
    mtu: Number32 = 256
    rights: tuple[str, ...] = REMOTE_RIGHTS
    timeout: Annotated[int, Meta(ge=0, le=31)] = 0
    retries: Annotated[int, Meta(ge=0, le=7)] = 7
    rnr_retries: Annotated[int, Meta(ge=0, le=7)] = 7
    rnr_timer: Annotated[int, Meta(ge=0, le=31)] = 1
    reads: Annotated[int, Meta(ge=0, le=16)] = 4
    qkey: Number32 = 0


class PostSend(Request, tag="post_send"):
    """Post a request to send. Answer: empty.

    operation: SEND, RDMA_READ, .... place, length: own memory. remote, rkey: memory of the other side. address, qpn,
    qkey: destination of a datagram.
    """

    qp: Queue
    wr: Number64 = 0
    operation: str = "SEND"
    place: Place = 0
    length: Number32 = 0
    signaled: bool = True
    solicited: bool = False
    fence: bool = False
    immediate: Number32 = 0
    remote: Number64 = 0
    rkey: Number32 = 0
    compare_add: Number64 = 0
    swap: Number64 = 0
    address: str = ""
    qpn: Number24 = 0
    qkey: Number32 = 0


class PostRecv(Request, tag="post_recv"):
    """Post a receive request. writable false: the device can not write the memory. Answer: empty."""

    qp: Queue
    wr: Number64 = 0
    place: Place = 0
    length: Number32 = 0
    writable: bool = True


class PollCq(Request, tag="poll_cq"):
    """The next completion. Answer: `status`, `wr`, `operation`, `byte_length`; `immediate`, or null; `source_qpn` of a
    datagram. status "": none came within `seconds`."""

    qp: Queue
    seconds: Seconds = 0.0


class RegMr(Request, tag="reg_mr"):
    """Register a part of the memory again, with these rights for the other side. Answer: `rkey`."""

    qp: Queue
    place: Place = 0
    length: Place = 0
    rights: tuple[str, ...] = REMOTE_RIGHTS


class WriteMr(Request, tag="write_mr"):
    """Store bytes, in hexadecimal, into the memory. Answer: empty."""

    qp: Queue
    place: Place = 0
    data: str = ""


class ReadMr(Request, tag="read_mr"):
    """Answer: `data`, bytes of the memory in hexadecimal."""

    qp: Queue
    place: Place = 0
    length: Place = 0


class QueryQp(Request, tag="query_qp"):
    """Answer: `state`: RTS, SQE, ERR, ...."""

    qp: Queue


class DestroyQp(Request, tag="destroy_qp"):
    """Destroy a queue pair and its memory, if it exists. Answer: empty."""

    qp: Queue
