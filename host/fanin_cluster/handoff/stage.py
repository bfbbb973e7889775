"""`send` and `recv` of tensors, as a pipeline-parallel program calls them at the border of two stages.

A message is a header of fixed length, then the bytes of the tensors, each from a multiple of 64 bytes on. Both are
handed over by `Streams.carry`.

| member of the header, which is JSON padded with zeros | value |
| --- | --- |
| size | bytes of the data |
| tensors | of each, the type of its elements, its shape, and its offset |

The type is that of numpy ("<f4"), or torch's name of it ("torch.bfloat16").
"""

import importlib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanin_cluster.handoff.broadcast import Streams
from fanin_cluster.handoff.channel import HandoffFailed
from fanin_cluster.handoff.plan import HandoffInvalid

HEADER = 4096  # bytes
ALIGNMENT = 64  # bytes
TORCH = "torch."
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Entry:
    """A tensor of a message: where it begins, and what it is."""

    kind: str
    shape: tuple[int, ...]
    offset: int


class Stage:
    """The border of two stages, for one process of either. `capacity`: bytes of the longest message.

    In node 1 every process with a link calls `send`, with the same tensors; in node 2 every process calls `recv`.
    """

    def __init__(self, streams: Streams, capacity: int) -> None:
        self.streams = streams
        self.header = streams.alloc(HEADER)
        self.memory = streams.alloc(max(ALIGNMENT, capacity))

    def send(self, tensors: Any) -> None:
        """Send an array, a tensor of torch, or a list of them. A tensor may be in the memory of a GPU.

        They are copied into registered memory, except one at its start (`buffer`). Returns when node 2 has them.
        Raises HandoffInvalid for other types and for too much data; else as `Streams.carry`.
        """
        given = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
        kinds, parts = zip(*map(bytes_of, given), strict=True) if given else ((), ())
        offsets, size = _layout([part.nbytes for part in parts])
        if size > self.memory.size:
            raise HandoffInvalid(f"{size} bytes, and there is room for {self.memory.size}", "give a larger capacity")
        entries = [[kind, list(each.shape), offset] for kind, each, offset in zip(kinds, given, offsets, strict=True)]
        text = json.dumps({"size": size, "tensors": entries}).encode()
        if len(text) > HEADER:
            raise HandoffInvalid(f"{len(given)} tensors in one message", "send fewer, or join them")
        self.header[:] = 0
        self.header[: len(text)] = np.frombuffer(text, np.uint8)
        for part, offset in zip(parts, offsets, strict=True):
            _put(part, self.memory[offset : offset + part.nbytes])
        self.streams.carry(self.header)
        self.streams.carry(self.memory[:size])

    def recv(self) -> list[Any]:
        """The tensors of the next message: numpy arrays or tensors of torch, as they were sent.

        They are views of registered memory of the host, valid until the next call.
        Raises HandoffFailed for a header that can not be read; else as `Streams.carry`.
        """
        self.streams.carry(self.header)
        size, entries = entries_of(self.header.tobytes(), self.memory.size)
        data = self.memory[:size]
        self.streams.carry(data)
        return [tensor_of(entry, data) for entry in entries]

    def buffer(self, shape: Sequence[int], dtype: Any) -> Any:
        """The start of registered memory as an array, or for a type of torch as a tensor. `send` does not copy it."""
        kind = str(dtype) if str(dtype).startswith(TORCH) else np.dtype(dtype).str
        return tensor_of(Entry(kind, tuple(shape), 0), self.memory)


def entries_of(header: bytes, capacity: int) -> tuple[int, list[Entry]]:
    """Decode a header: the bytes of the data, and the tensors in them. Raises HandoffFailed if it is invalid."""
    try:
        said = json.loads(header.rstrip(b"\0"))
        size = int(said["size"])
        entries = [Entry(str(kind), tuple(map(int, shape)), int(offset)) for kind, shape, offset in said["tensors"]]
        lengths = [math.prod(each.shape) * _itemsize(each.kind) for each in entries]
    except (KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
        raise HandoffFailed(f"the header of a message can not be read: {error!r}", "send with Stage.send") from None
    bounds = zip(entries, lengths, strict=True)
    if not 0 <= size <= capacity or any(
        min((each.offset, *each.shape)) < 0 or each.offset + length > size for each, length in bounds
    ):
        raise HandoffFailed(
            f"a message of {size} bytes does not hold its tensors, or does not fit into {capacity} bytes",
            "give the receiving stage the capacity of the sending one",
        )
    return size, entries


def bytes_of(tensor: Any) -> tuple[str, Any]:
    """The type of a tensor, and its bytes: an array, or for a tensor on a GPU a tensor there."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        if tensor.is_meta:
            raise HandoffInvalid("a tensor without data", "give one on the CPU or on a GPU, not on meta")
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        return str(tensor.dtype), flat.numpy() if flat.device.type == "cpu" else flat
    if isinstance(tensor, np.ndarray) and not tensor.dtype.hasobject and tensor.dtype.names is None:
        return tensor.dtype.str, np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
    raise HandoffInvalid(f"a {type(tensor).__name__}", "give numpy arrays of numbers, or tensors of torch")


def _put(part: Any, place: Bytes) -> None:
    """Copy the bytes, unless they are in place already."""
    if not isinstance(part, np.ndarray):
        sys.modules["torch"].from_numpy(place).copy_(part)
    elif part.size and part.ctypes.data != place.ctypes.data:
        place[:] = part


def _layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """The offset of each of several tensors, and the bytes of all."""
    offsets, end = [], 0
    for size in sizes:
        offset = -(-end // ALIGNMENT) * ALIGNMENT
        offsets.append(offset)
        end = offset + size
    return offsets, end


def _itemsize(kind: str) -> int:
    """Bytes of an element. Raises ValueError, TypeError, AttributeError or ImportError for an unknown type."""
    if not kind.startswith(TORCH):
        dtype = np.dtype(kind)
        if dtype.hasobject or not dtype.itemsize:
            raise ValueError(f"elements of type {kind}")
        return dtype.itemsize
    torch = importlib.import_module("torch")
    dtype = getattr(torch, kind.removeprefix(TORCH))
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"elements of type {kind}")
    return int(dtype.itemsize)


def tensor_of(entry: Entry, data: Bytes) -> Any:
    """A tensor over its bytes."""
    part = data[entry.offset : entry.offset + math.prod(entry.shape) * _itemsize(entry.kind)]
    if not entry.kind.startswith(TORCH):
        return part.view(entry.kind).reshape(entry.shape)
    torch = importlib.import_module("torch")
    dtype = getattr(torch, entry.kind.removeprefix(TORCH))
    if not part.size:
        return torch.empty(entry.shape, dtype=dtype)
    return torch.from_numpy(part).view(dtype).reshape(entry.shape)
