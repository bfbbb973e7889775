"""Messages of the control socket: strict reading of requests (a record, Refused or Malformed), and replies."""

import json
from typing import Any

import numpy as np

from fanin_nic.hostif.ports import Refused
from fanin_wire import abi
from fanin_wire.abi import MAX_CHILDREN, MessageType, Route, Status, TapFlag
from fanin_wire.tap import ALL_KINDS, MAX_UNITS, MIN_UNITS

MIN_CHUNK = 256
RECORDS = TapFlag.PACKETS | TapFlag.SEGMENTS
MAX_STATUS_BYTES = 160 * 1024  # a message must fit into the socket's send buffer

REQUESTS = {
    MessageType.ATTACH: abi.MESSAGE,
    MessageType.ATTACH_RDMA: abi.ATTACH_RDMA,
    MessageType.MIRROR: abi.MIRROR,
    MessageType.STATUS: abi.MESSAGE,
    MessageType.PROFILE: abi.MESSAGE,
    MessageType.TAP: abi.TAP,
    MessageType.REGISTER: abi.REGISTER,
    MessageType.DEREGISTER: abi.REGISTER,
    MessageType.CREATE_CQ: abi.QUEUE,
    MessageType.CREATE_QP: abi.QUEUE,
    MessageType.DESTROY_QP: abi.QUEUE,
    MessageType.DESTROY_CQ: abi.QUEUE,
    MessageType.LEAVE: abi.QUEUE,
    MessageType.JOIN: abi.JOIN,
    MessageType.CREATE_ORDINARY_QP: abi.ORDINARY_QP,
    MessageType.DESTROY_ORDINARY_QP: abi.ORDINARY_QP,
    MessageType.MODIFY_ORDINARY_QP: abi.QP_ATTRIBUTES,
    MessageType.QUERY_ORDINARY_QP: abi.QP_ATTRIBUTES,
    MessageType.CREATE_SHARED_QUEUE: abi.SHARED_QUEUE,
    MessageType.DESTROY_SHARED_QUEUE: abi.SHARED_QUEUE,
}


class Malformed(Exception):
    """A message too short for a head, so that no answer is possible."""


def read_head(data: bytes) -> np.void:
    """The head of a message (abi.MESSAGE). Raises Malformed if it is too short."""
    if len(data) < abi.MESSAGE.itemsize:
        raise Malformed(f"{len(data)} bytes")
    return np.frombuffer(data, abi.MESSAGE, count=1)[0]


def read_request(data: bytes) -> np.void:
    """The record of a request. Raises Refused: wrong version, type or size."""
    head = read_head(data)
    if head["version"] != abi.ABI_VERSION:
        raise Refused(Status.VERSION_MISMATCH, f"host interface version {head['version']}")
    dtype = REQUESTS.get(int(head["type"]))
    if dtype is None:
        raise Refused(Status.NOT_SUPPORTED, f"message type {head['type']}")
    if len(data) != dtype.itemsize:
        status = "VERSION_MISMATCH" if dtype == abi.ATTACH_RDMA else "INVALID_REQUEST"  # in version 1 it was shorter
        raise Refused(Status[status], f"{len(data)} bytes instead of {dtype.itemsize}")
    record = np.zeros(1, dtype)
    record.view("u1")[:] = np.frombuffer(data, "u1")
    head_of(record[0])["status"] = Status.SUCCESS  # of the reply, which is made of the request
    return record[0]


def head_of(record: np.void) -> np.void:
    return record if record.dtype == abi.MESSAGE else record["head"]


def refusal(head: np.void, status: int) -> bytes:
    reply = np.zeros(1, abi.MESSAGE)
    reply[0] = (abi.ABI_VERSION, head["type"], head["tag"], status, 0)
    return reply.tobytes()


def status_reply(head: np.void, status: dict[str, Any]) -> bytes:
    """Reply to STATUS. Raises Refused if it is too long for one message."""
    text = json.dumps(status, separators=(",", ":")).encode()
    if len(text) > MAX_STATUS_BYTES:
        raise Refused(Status.NO_RESOURCES, f"a status of {len(text)} bytes")
    return refusal(head, Status.SUCCESS) + text


def check_tap(request: np.void) -> None:
    """Raises Refused if a TAP asks for nothing, for something unknown, or for rings of a wrong size."""
    flags, units = int(request["flags"]), int(request["units"])
    _require(flags & RECORDS != 0 and flags & ~sum(TapFlag) == 0, "what a tap records")
    _require(int(request["kinds"]) & ~ALL_KINDS == 0, "kinds of packets")
    _require(_is_power_of_two(units) and MIN_UNITS <= units <= MAX_UNITS, "units of a ring")


def late_reply(dtype: np.dtype, message_type: str, tag: int, status: int) -> np.ndarray:
    """Record of the answer to a JOIN or LEAVE."""
    reply = np.zeros(1, dtype)
    reply["head"][0] = (abi.ABI_VERSION, MessageType[message_type], tag, status, 0)
    return reply


def join_reply(
    tag: int, status: int, slots: int = 0, window: int = 0, chunk: int = 0, missing: int = 0, missing_kind: int = 0
) -> bytes:
    """Answer to a JOIN; PENDING names missing members, and another answer must follow."""
    reply = late_reply(abi.JOIN_REPLY, "JOIN", tag, status)
    for name, value in (("slots", slots), ("window", window), ("chunk", chunk), ("missing", missing)):
        reply[name] = value
    reply["missing_kind"] = missing_kind
    return reply.tobytes()


def leave_reply(tag: int, status: int) -> bytes:
    """Answer to a LEAVE."""
    return late_reply(abi.QUEUE, "LEAVE", tag, status).tobytes()


def with_markers(reply: bytes, markers: int) -> bytes:
    """A reply over RDMA, which counts when the client has so many markers."""
    patched = np.frombuffer(reply, "u1").copy()
    patched[: abi.MESSAGE.itemsize].view(abi.MESSAGE)["markers"] = markers
    return patched.tobytes()


def check_join(request: np.void, max_chunk: int) -> None:
    """Check a JOIN. Raises Refused if it contradicts itself or does not fit this device."""
    ranks, mask = int(request["rank_bitmap"]), int(request["rank_mask"])
    _require(ranks != 0 and ranks & ~mask == 0, "ranks outside the node's mask")
    _require(_is_power_of_two(int(request["slots"])), "slots must be a power of two")
    chunk = int(request["chunk"])
    _require(_is_power_of_two(chunk) and chunk >= MIN_CHUNK, "chunk must be a power of two from 256 on")
    longest = max(max_chunk, abi.LOCAL_CHUNK) if request["route"] == abi.Route.LOCAL else max_chunk
    if chunk > longest:
        raise Refused(Status.NO_RESOURCES, f"chunk {chunk}, at most {longest}")
    _CHECK_ROUTE.get(int(request["route"]), _unknown_route)(request)


def _check_local(request: np.void) -> None:
    _require(request["node_count"] == 1 and request["hop_count"] == 0, "route local with several nodes or a path")


def _check_tree(request: np.void) -> None:
    _require(request["hop_count"] >= 1, "a tree without a device above")
    _check_path(request)


def _check_path(request: np.void) -> None:
    count = int(request["hop_count"])
    _require(count <= abi.MAX_HOPS, "hop_count")
    for hop in request["hop"][:count]:
        bit, mask = int(hop["bit"]), int(hop["mask"])
        _require(hop["address"] != 0 and bit < MAX_CHILDREN and mask >> bit & 1 == 1, "a hop")


def _check_ring(request: np.void) -> None:
    index, count = int(request["node_index"]), int(request["node_count"])
    _require(1 < count <= MAX_CHILDREN and 0 <= index < count, "node_index or node_count")
    _require(request["next_address"] != 0 and request["previous_address"] != 0, "the neighbours")
    _check_path(request)


def _unknown_route(request: np.void) -> None:
    raise Refused(Status.NOT_SUPPORTED, f"route {request['route']}")


_CHECK_ROUTE = {Route.LOCAL: _check_local, Route.TREE: _check_tree, Route.RING: _check_ring}


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise Refused(Status.INVALID_REQUEST, complaint)
