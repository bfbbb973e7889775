"""The protocol between the conformance suite and the agent that works the device under test.

A request is a line of JSON, and so is its answer, which the suite awaits before it sends the next request
(docs/conformance.md). Requests about ordinary RDMA traffic use the names of verbs: operations as in IBV_WR_..., rights
as in IBV_ACCESS_..., statuses as in IBV_WC_....
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fanin_wire.abi import ContributorClass, DType, Op, Route, Service
from fanin_wire.verbs import Access, RequestOpcode

VERSION = 1
MAX_LINE = 1 << 20  # bytes of a line, with its end
MAX_WAIT_S = 60.0
MAX_MEMORY = 1 << 18  # bytes of a queue pair
REMOTE_RIGHTS = ("REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC")
Number24 = Annotated[int, Meta(ge=0, lt=1 << 24)]
Number32 = Annotated[int, Meta(ge=0, lt=1 << 32)]
Number64 = Annotated[int, Meta(ge=0)]  # msgspec has no bound of 2^64
Seconds = Annotated[float, Meta(ge=0, le=MAX_WAIT_S)]
Queue = Annotated[int, Meta(ge=0, lt=1 << 16)]
Place = Annotated[int, Meta(ge=0, le=MAX_MEMORY)]  # bytes from the start of the memory
Blocks = tuple[Number32, Number32]  # first, number


class Request(msgspec.Struct, forbid_unknown_fields=True, tag_field="do", kw_only=True):
    """A request of the suite."""


# Requests about collectives


class Hello(Request, tag="hello"):
    """The first request. Answer: `version`, and `address`, the IPv4 address of the device."""

    version: int


class Hop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device above: its address, the bit of the device below it, the mask of all its children."""

    address: str
    bit: Annotated[int, Meta(ge=0, le=63)]
    mask: Number64


class Join(Request, tag="join"):
    """A rank begins to join a job, with a new queue pair numbered `queue`.

    route: LOCAL, TREE or RING. rank: its bit among the ranks of the node; rank_mask: all of them. digest: two halves.
    next, previous: the neighbours in a ring. hops: the devices above, lowest first. flags: those of a CONFIG; 8: ring
    with fixed start.
    """

    queue: Queue
    jid: Number32
    key: Number32
    route: str
    rank: Annotated[int, Meta(ge=0, le=63)] = 0
    rank_mask: Number64 = 1
    slots: Number32 = 8
    chunk: Number32 = 256
    digest: tuple[Number64, Number64] = (1, 2)
    node_index: Number32 = 0
    node_count: Number32 = 1
    next: str = ""
    previous: str = ""
    hops: tuple[Hop, ...] = ()
    flags: Number32 = 0


class Joined(Request, tag="joined"):
    """How far is the join? Answer: `status`; with SUCCESS `slots`, `window`, `chunk`; else who is `missing`. PENDING:
    it is not decided after `seconds`."""

    queue: Queue
    seconds: Seconds = 0.0


class Post(Request, tag="post"):
    """Post a work request. Answer: `mid`, the number of the message.

    contributors: NONE, ONE or ALL. length, block: bytes of the message, and of a block. brings, wants: blocks of this
    rank, [first, number]. data: of the blocks that it brings, in hexadecimal. readable false: the device can not read
    them. agreement: the upper half of the mid.
    """

    queue: Queue
    wr: Number64 = 0
    op: str = "NONE"
    dtype: str = "NONE"
    contributors: str = "ALL"
    length: Number32 = 0
    block: Number32 | None = None
    brings: Blocks = (0, 1)
    wants: Blocks = (0, 1)
    data: str = ""
    readable: bool = True
    deadline_ms: Number32 = 0
    agreement: Annotated[int, Meta(ge=0, lt=1 << 16)] = 0


class Wait(Request, tag="wait"):
    """The next completion of a queue. Answer: `status`, `wr`, `byte_length`, `missing`, `missing_kind`, `lost_device`,
    and `data`, the memory of the wanted blocks. status "": none came within `seconds`."""

    queue: Queue
    seconds: Seconds = 0.0


class Look(Request, tag="look"):
    """Answer, empty, when the device has seen all that was posted to a queue."""

    queue: Queue


class Leave(Request, tag="leave"):
    """A rank leaves its job. Answer: `status`, when the device has taken it, or PENDING after `seconds`."""

    queue: Queue
    seconds: Seconds = 1.0


class Kill(Request, tag="kill"):
    """The process of a rank ends without a word. The number may be opened anew. Answer: empty."""

    queue: Queue


class Close(Request, tag="close"):
    """Free a queue, whatever its state. Answer: empty."""

    queue: Queue


class Counters(Request, tag="counters"):
    """Answer: `counters` of the device, by name."""


# Requests about ordinary RDMA traffic


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


# Lines

OfCollectives = Hello | Join | Joined | Post | Wait | Look | Leave | Kill | Close | Counters
OfVerbs = CreateQp | ConnectQp | PostSend | PostRecv | PollCq | RegMr | WriteMr | ReadMr | QueryQp | DestroyQp
AnyRequest = OfCollectives | OfVerbs
Answer = dict[str, Any]
_decoder = msgspec.json.Decoder(AnyRequest)


class AgentError(Exception):
    """A request that can not be performed. name: WRONG_REQUEST, UNKNOWN_QUEUE, or a status of SPEC.md."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name, self.text = name, text


def read_request(line: bytes) -> AnyRequest:
    """The request of a line; AgentError if it is none."""
    if len(line) > MAX_LINE:
        raise AgentError("WRONG_REQUEST", f"a line has more than {MAX_LINE} bytes")
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError as error:
        raise AgentError("WRONG_REQUEST", str(error)) from None


def write_line(message: Request | Answer) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def answer_of_error(error: AgentError) -> Answer:
    """The answer to a request that failed."""
    return {"error": error.name, "text": error.text}


# Values

_ENUMERATIONS: dict[str, Any] = {"op": Op, "dtype": DType, "contributors": ContributorClass, "route": Route}
_ENUMERATIONS |= {"service": Service, "operation": RequestOpcode, "right": Access}


def code_of(kind: str, name: str) -> int:
    """Code of an op, dtype, contributors, route, service, operation or right. AgentError for an unknown name."""
    try:
        return int(_ENUMERATIONS[kind][name.upper()])
    except KeyError:
        raise AgentError("WRONG_REQUEST", f"{name!r} is no {kind}") from None


def address_of(text: str) -> int:
    """An IPv4 address as a number; 0 for "". AgentError for any other text."""
    try:
        return int(ipaddress.IPv4Address(text)) if text else 0
    except ValueError:
        raise AgentError("WRONG_REQUEST", f"{text!r} is no IPv4 address") from None


def data_of(request: Post) -> bytes:
    """The data of a request. AgentError unless they are hexadecimal and as long as the blocks that it brings."""
    try:
        data = bytes.fromhex(request.data)
    except ValueError:
        raise AgentError("WRONG_REQUEST", "data is not hexadecimal") from None
    wanted = bytes_of(request, request.brings)
    if len(data) != wanted:
        raise AgentError("WRONG_REQUEST", f"data has {len(data)} bytes, and the blocks {wanted}")
    return data


def bytes_of(request: Post, blocks: Blocks) -> int:
    """Bytes of `blocks`; the last block of a message may be shorter."""
    block = request.length if request.block is None else request.block
    first, number = blocks
    return max(0, min((first + number) * block, request.length) - first * block)
