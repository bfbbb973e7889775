"""Tensors as memory of the driver, and the operations of torch as those of the devices."""

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
BY_PARTS = ("sum", "mean")  # of complex numbers: each part for itself


class Reduction(NamedTuple):
    """A reduction as the driver takes it. datatype: what numpy's type does not say."""

    op: str
    datatype: str | None = None


def reduction(op: Any, dtype: torch.dtype) -> Reduction:
    """What `op` means for elements of `dtype`. NotSupported where it means nothing."""
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
    """Whether its elements lie one after the other, as they are meant."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def in_order(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy whose elements lie one after the other."""
    require_plain(tensor)
    return tensor if is_memory(tensor) else tensor.detach().resolve_conj().resolve_neg().contiguous()


class _Memory:
    """Of a tensor, as numpy takes it. `Tensor.numpy()` would mark the storage as one that nobody may resize, and refuse
    tensors of one element with some strides."""

    def __init__(self, tensor: torch.Tensor, typestr: str) -> None:
        self.storage = tensor.untyped_storage()  # lives as long as the array, whatever the tensor gets in its place
        count = tensor.numel() * tensor.element_size() // np.dtype(typestr).itemsize
        address = (tensor.data_ptr(), False)
        self.__array_interface__ = {"version": 3, "typestr": typestr, "shape": (count,), "data": address}


def _array(tensor: torch.Tensor, typestr: str) -> np.ndarray:
    if tensor.numel() and not tensor.data_ptr():  # it stands for another, as results of functional collectives do
        return tensor.detach().reshape(-1).view(torch.uint8).numpy().view(typestr)
    return np.asarray(_Memory(tensor, typestr))


def _typestr(dtype: torch.dtype) -> str:
    return TYPES[PARTS.get(dtype, dtype)].numpy.str


def as_numbers(tensor: torch.Tensor) -> np.ndarray:
    """A flat array over the memory of a tensor, of the type in which the devices compute: bf16 as uint16, complex
    numbers as pairs. The elements lie one after the other: `in_order`."""
    return _array(tensor, _typestr(tensor.dtype))


def as_elements(tensor: torch.Tensor) -> np.ndarray:
    """As `as_numbers`, to move them: tensors of types in which no device computes are bytes. Ranks that mean different
    types are told so, since the devices compare them."""
    return _array(tensor, _typestr(tensor.dtype) if tensor.dtype in TYPES else "|u1")


def as_bytes(tensor: torch.Tensor) -> np.ndarray:
    """A flat array of bytes over the memory of a tensor, of whatever type, whose elements lie one after the other."""
    return _array(tensor, "|u1")
