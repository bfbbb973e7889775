"""Tensors as memory of the driver, torch's operations as those of the devices, and the sum of sparse tensors.

Devices bring all elements of sparse tensors to every rank, and the host adds them. Ranks have different numbers of
elements, so two collectives follow each other, and the call waits for the first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.distributed import ReduceOp

from fanin.errors import InvalidRequest, NotSupported
from fanin_wire.datatypes import DATATYPES
from fanin_wire.operations import OPERATIONS, operation_by_name

NAMES = {getattr(ReduceOp, entry.torch): entry.name.lower() for entry in OPERATIONS if entry.torch}
# What each operation of torch means for booleans, as NCCL has it.
OF_BOOLEANS = {"sum": "lor", "max": "lor", "bor": "lor", "prod": "land", "min": "land", "band": "land", "bxor": "lxor"}
TYPES = {dtype: entry for entry in DATATYPES if (dtype := getattr(torch, entry.numpy_name, None))}
PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
BY_PARTS = ("sum", "mean")  # of complex numbers: computed on each part


# Operations


class Reduction(NamedTuple):
    """A reduction as the driver takes it. datatype: where numpy's type does not name it."""

    op: str
    datatype: str | None = None


def reduction(op: Any, dtype: torch.dtype) -> Reduction:
    """torch's `op` on elements of `dtype`. NotSupported if it has no meaning."""
    name = NAMES.get(op.op if isinstance(op, ReduceOp) else op)
    if name is None:
        raise NotSupported(
            f"operation {op} of torch is not supported", remedy=f"Use one of {', '.join(NAMES.values())}."
        )
    if dtype is torch.bool and name in OF_BOOLEANS:
        return Reduction(OF_BOOLEANS[name])
    if dtype.is_complex and name in BY_PARTS:
        return Reduction(name)
    entry = TYPES.get(dtype)
    if entry and not dtype.is_complex and operation_by_name(name).takes(entry):
        return Reduction(name, entry.name if entry.alias else None)
    raise NotSupported(f"{name} of {dtype}", remedy="Convert the tensor, or use an operation that its type has.")


# Memory


def require_plain(tensor: torch.Tensor) -> None:
    """InvalidRequest unless the tensor is dense memory of the CPU."""
    if tensor.device.type != "cpu":
        raise InvalidRequest(
            f"tensors on device {tensor.device} are not supported",
            remedy="Give tensors of the CPU; other devices need another back-end.",
        )
    if tensor.layout is not torch.strided:
        raise InvalidRequest(
            f"tensors of layout {tensor.layout} are not supported", remedy="Give dense tensors: tensor.to_dense()."
        )


def is_memory(tensor: torch.Tensor) -> bool:
    """Whether the elements lie in order, not conjugated or negated."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def in_order(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy whose elements lie in order."""
    require_plain(tensor)
    return tensor if is_memory(tensor) else tensor.detach().resolve_conj().resolve_neg().contiguous()


def as_numbers(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's elements, in order and flat, in the type that devices compute: bf16 as uint16, complex as pairs."""
    return _array(tensor, _typestr(tensor.dtype))


def as_elements(tensor: torch.Tensor) -> np.ndarray:
    """As `as_numbers`, to move them: types that no device computes are bytes. Devices compare the ranks' types."""
    return _array(tensor, _typestr(tensor.dtype) if tensor.dtype in TYPES else "|u1")


def as_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of a tensor whose elements lie in order."""
    return _array(tensor, "|u1")


class _Memory:
    """A tensor's memory, for numpy. `Tensor.numpy()` would forbid the storage to be resized, and refuses tensors of one
    element with some strides."""

    def __init__(self, tensor: torch.Tensor, typestr: str) -> None:
        self.storage = tensor.untyped_storage()  # lives as long as the array, even if the tensor gets another
        count = tensor.numel() * tensor.element_size() // np.dtype(typestr).itemsize
        address = (tensor.data_ptr(), False)
        self.__array_interface__ = {"version": 3, "typestr": typestr, "shape": (count,), "data": address}


def _array(tensor: torch.Tensor, typestr: str) -> np.ndarray:
    if tensor.numel() and not tensor.data_ptr():  # it stands for another, as do results of functional collectives
        return tensor.detach().reshape(-1).view(torch.uint8).numpy().view(typestr)
    return np.asarray(_Memory(tensor, typestr))


def _typestr(dtype: torch.dtype) -> str:
    return TYPES[PARTS.get(dtype, dtype)].numpy.str


# Sparse tensors


def allreduce_sparse(communicator: Any, tensor: torch.Tensor, seconds: float) -> None:
    """Set `tensor` to the sum of all ranks' tensors, of one shape, each with its own elements."""
    mine = tensor.detach().coalesce()
    indices, values = mine.indices().contiguous(), mine.values().contiguous()
    about = np.array([indices.shape[0], indices.shape[1], *tensor.shape], np.int64)
    rows = communicator.allgather(about, timeout=seconds)
    if np.any(rows[:, 0] != rows[0, 0]) or np.any(rows[:, 2:] != rows[0, 2:]):
        raise InvalidRequest(
            f"an allreduce of sparse tensors of other shapes than {tuple(tensor.shape)} with {indices.shape[0]} sparse "
            "dimensions",
            remedy="Give tensors of one shape on all ranks.",
        )
    counts = [int(count) for count in rows[:, 1]]
    found = sum(counts)
    parts = _gather_rows(communicator, indices.t().contiguous(), counts, seconds).view(found, indices.shape[0])
    numbers = _gather_rows(communicator, values, counts, seconds).view(found, *values.shape[1:])
    with torch.no_grad():  # a copy into tensor.detach() would not change `tensor`
        tensor.copy_(torch.sparse_coo_tensor(parts.t(), numbers, tensor.shape).coalesce())


def _gather_rows(communicator: Any, rows: torch.Tensor, counts: list[int], seconds: float) -> torch.Tensor:
    """The rows of all ranks, one after the other, flat."""
    width = rows[:1].numel() if rows.shape[0] else int(np.prod(rows.shape[1:]))
    whole = torch.empty(sum(counts) * width, dtype=rows.dtype)
    sizes = [count * width * rows.element_size() for count in counts]
    communicator.allgatherv(as_bytes(rows), as_bytes(whole), sizes, timeout=seconds)
    return whole
