"""The host interface for cffi and numpy, read from `abi.h`."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS, Operation

HEADER_PATH = Path(__file__).with_name("abi.h")


def declarations() -> str:
    """`abi.h` without what cffi's parser refuses: include guard and includes."""
    text = re.sub(r"/\*.*?\*/", "", HEADER_PATH.read_text(), flags=re.S)
    lines = [line for line in text.splitlines() if not re.match(r"#(ifndef|endif|include|define\s+\w+\s*$)", line)]
    return "\n".join(lines)


ffi = cffi.FFI()
ffi.cdef(declarations())


def constant(name: str) -> int:
    """Value of a `#define` of `abi.h`."""
    match = re.search(rf"#define\s+{name}\s+(\w+)", HEADER_PATH.read_text())
    if match is None:
        raise KeyError(name)
    return int(match.group(1), 0)


def dtype(struct: str) -> np.dtype:
    """numpy dtype of `struct <struct>`, with the C compiler's offsets and size."""
    return _dtype_of(ffi.typeof(f"struct {struct}"))


def _dtype_of(ctype) -> np.dtype:
    if ctype.kind == "array":
        return np.dtype((_dtype_of(ctype.item), (ctype.length,)))
    if ctype.kind == "primitive":
        return np.dtype(ctype.cname.removesuffix("_t"))
    names, fields = zip(*ctype.fields, strict=True)
    return np.dtype(
        {
            "names": names,
            "formats": [_dtype_of(field.type) for field in fields],
            "offsets": [field.offset for field in fields],
            "itemsize": ffi.sizeof(ctype),
        }
    )


def enumeration(name: str, prefix: str) -> Any:  # its members are known at run time only
    """The C enum `name` as an IntEnum; `prefix` is cut from its members."""
    values = sorted(ffi.typeof(f"enum {name}").relements.items(), key=lambda item: item[1])
    members = {key.removeprefix(prefix): value for key, value in values}
    return enum.IntEnum(name, members, module=__name__)


def _codes(name: str, rows: Iterable[Operation | DataType]) -> Any:
    """The codes of a table of ours as an IntEnum; `c_tables` writes them into `abi.h`."""
    return enum.IntEnum(name, {"NONE": 0} | {row.name.upper(): row.code for row in rows}, module=__name__)


Status = enumeration("fanin_status", "FANIN_")
Op = _codes("Op", OPERATIONS)
DType = _codes("DType", DATATYPES)
ContributorClass = enumeration("fanin_class", "FANIN_CLASS_")
Route = enumeration("fanin_route", "FANIN_ROUTE_")
WqeOpcode = enumeration("fanin_wqe_opcode", "FANIN_WQE_")
WqeFlag = enumeration("fanin_wqe_flags", "FANIN_WQE_")
JobFlag = enumeration("fanin_job_flags", "FANIN_JOB_")
Access = enumeration("fanin_access", "FANIN_ACCESS_")
MessageType = enumeration("fanin_message_type", "FANIN_MSG_")
CompletionKind = enumeration("fanin_completion_kind", "FANIN_COMPLETION_")
Service = enumeration("fanin_service", "FANIN_SERVICE_")
TapFlag = enumeration("fanin_tap_flags", "FANIN_TAP_")

ADDRESS = dtype("fanin_address")
WQE = dtype("fanin_wqe")
CQE = dtype("fanin_cqe")
SGE = dtype("fanin_sge")
SEND_WQE = dtype("fanin_send_wqe")
RECEIVE_WQE = dtype("fanin_receive_wqe")
WC = dtype("fanin_wc")
ARRIVAL = dtype("fanin_arrival")
RING = dtype("fanin_ring")
DOORBELL = dtype("fanin_doorbell")
MESSAGE = dtype("fanin_message")
TAP = dtype("fanin_tap")
ATTACH_REPLY = dtype("fanin_attach_reply")
ENDPOINT = dtype("fanin_endpoint")
ATTACH_RDMA = dtype("fanin_attach_rdma")
ATTACH_RDMA_REPLY = dtype("fanin_attach_rdma_reply")
MIRROR = dtype("fanin_mirror")
REGISTER = dtype("fanin_register")
QUEUE = dtype("fanin_queue")
ORDINARY_QP = dtype("fanin_ordinary_qp")
SHARED_QUEUE = dtype("fanin_shared_queue")
QP_ATTRIBUTES = dtype("fanin_qp_attributes")
JOIN = dtype("fanin_join")
JOIN_REPLY = dtype("fanin_join_reply")

SQ_DEPTH = constant("FANIN_SQ_DEPTH")
CQ_DEPTH = constant("FANIN_CQ_DEPTH")
ORDINARY_DEPTH = constant("FANIN_ORDINARY_DEPTH")
SHARED_DEPTH = constant("FANIN_SHARED_DEPTH")
MAX_SGE = constant("FANIN_MAX_SGE")
MAX_INLINE_DATA = constant("FANIN_MAX_INLINE_DATA")
ARRIVAL_UNIT = constant("FANIN_ARRIVAL_UNIT")
ARRIVAL_UNITS = constant("FANIN_ARRIVAL_UNITS")
MAX_ARRIVAL = constant("FANIN_MAX_ARRIVAL")
NO_ARRIVAL = constant("FANIN_NO_ARRIVAL")
MAX_ADDRESSES = constant("FANIN_MAX_ADDRESSES")
MAX_INLINE = constant("FANIN_MAX_INLINE")
MIN_WQE_CHUNK = constant("FANIN_MIN_WQE_CHUNK")
MAX_CHILDREN = constant("FANIN_MAX_CHILDREN")
MAX_HOPS = constant("FANIN_MAX_HOPS")
MID_BITS = constant("FANIN_MID_BITS")
LOCAL_CHUNK = constant("FANIN_LOCAL_CHUNK")
LONG_BYTES = constant("FANIN_LONG_BYTES")
TOKEN_BYTES = constant("FANIN_TOKEN_BYTES")
LKEY_PROCESS = constant("FANIN_LKEY_PROCESS")
ABI_VERSION = constant("FANIN_ABI_VERSION")
RDMA_VERSION = constant("FANIN_RDMA_VERSION")
MARKER = constant("FANIN_MARKER")
