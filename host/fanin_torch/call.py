"""One call of torch to a group: which collectives of the driver it starts, and what is left to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from fanin.api.communicator import Communicator
from fanin.errors import InvalidRequest
from fanin_torch.counts import Copy, Counts, Reason
from fanin_torch.elements import (
    allreduce_sparse,
    as_elements,
    as_numbers,
    in_order,
    is_memory,
    reduction,
    require_plain,
)
from fanin_torch.errors import as_torch
from fanin_torch.registered_memory import RegisteredMemory
from fanin_torch.work import nothing

Tensors = Sequence[torch.Tensor]


class Group(Protocol):
    """What a call needs of its group. timeout: seconds, unless the call gives others."""

    counts: Counts
    timeout: float
    communicator: Communicator | None

    @property
    def memory(self) -> RegisteredMemory | None: ...

    def rank(self) -> int: ...

    def size(self) -> int: ...


class Call:
    """One call of torch while it starts: its requests, and what is to be done at their end."""

    def __init__(self, group: Group, name: str, opts: Any) -> None:
        self._group, self.name, self._opts = group, name, opts
        seconds = opts.timeout.total_seconds()
        self._timeout = seconds if seconds > 0 else group.timeout
        self.root = int(getattr(opts, "rootRank", 0))
        self.requests: list[Any] = []
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.copied: set[Copy] = set()
        if not 0 <= self.root < group.size():
            raise as_torch(
                InvalidRequest(f"root {self.root} is not one of {group.size()} ranks", remedy="Give one of them.")
            )

    @property
    def is_root(self) -> bool:
        return self._group.rank() == self.root

    @property
    def conclude(self) -> Callable[[], None]:
        """What is to be done when all requests have ended."""
        return self._conclude if self._copies else nothing

    def _conclude(self) -> None:
        with torch.no_grad():
            for tensor, copy in self._copies:
                tensor.detach().copy_(copy.view(tensor.shape))

    def _communicator(self) -> Communicator:
        """The group's. InvalidRequest when it has been left."""
        communicator = self._group.communicator
        if communicator is None:
            raise InvalidRequest(
                f"{self.name} was called in a group that this process has left",
                remedy="Make a new group: init_process_group, new_group.",
            )
        return communicator

    def start(self, collective: str, *arrays: Any, **options: Any) -> None:
        """Start a collective of the driver, as a request of this call."""
        start = getattr(self._communicator(), f"i{collective}")
        self.requests.append(start(*arrays, timeout=self._timeout, **options))
        self._group.counts.note(collective)
        memory = self._group.memory
        if memory is not None and not all(memory.holds(array) for array in arrays if isinstance(array, np.ndarray)):
            self.copied.add(Copy.ORDINARY_MEMORY)

    def source(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor's memory, or a copy in order."""
        memory = in_order(tensor)
        if memory is not tensor:
            self.copied.add(Copy.NOT_CONTIGUOUS)
        return memory

    def source_of_parts(self, parts: Tensors) -> torch.Tensor:
        """The memory of tensors of one type that lie one after the other, or a copy of them."""
        source = _one_memory(parts)
        if source is None:
            self.copied.add(Copy.PARTS)
            source = torch.cat([in_order(part).reshape(-1) for part in parts])
        return source

    def is_alone(self, source: torch.Tensor, destination: torch.Tensor) -> bool:
        """Whether the group has one rank, for which this call then does everything."""
        if self._group.size() > 1:
            return False
        self._group.counts.miss(self.name, Reason.ONE_RANK)
        if destination.numel() != source.numel():
            raise InvalidRequest(
                f"{self.name}: {source.numel()} elements do not fit a tensor of {destination.numel()}",
                remedy="Give tensors of one size.",
            )
        if destination.data_ptr() != source.data_ptr():
            self._copies.insert(0, (destination, source))  # before the copies out of `destination`
        return True

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory for a result: the tensor's own, or other memory that is copied to it at the end."""
        require_plain(tensor)
        if is_memory(tensor):
            return tensor
        self.copied.add(Copy.NOT_CONTIGUOUS)
        copy = torch.empty(tensor.shape, dtype=tensor.dtype)
        self._copies.append((tensor, copy))
        return copy

    def whole_of_parts(self, parts: Tensors) -> torch.Tensor:
        """As `whole`, for tensors of one type: their own memory only if they lie one after the other."""
        whole = _one_memory(parts)
        if whole is None:
            self.copied.add(Copy.PARTS)
            counts = [part.numel() for part in parts]
            whole = torch.empty(sum(counts), dtype=parts[0].dtype)
            self._copies += list(zip(parts, whole.split(counts), strict=True))
        return whole

    def _apart(self, source: np.ndarray, out: np.ndarray, counts: Sequence[int]) -> np.ndarray:
        """The input of a collective, or a copy if the output overlaps it and not in place. counts: elements of each
        rank in the larger one. The driver would refuse the overlap on this rank alone, and the others would wait."""
        if not np.may_share_memory(source, out):
            return source
        block, whole = sorted((source, out), key=lambda array: array.nbytes)
        before = sum(counts[: self._group.rank()]) * (whole.nbytes // sum(counts))
        if block.ctypes.data == whole.ctypes.data + before:
            return source
        return self._copy_of_overlapped(source)

    def _copy_of_overlapped(self, source: np.ndarray) -> np.ndarray:
        self.copied.add(Copy.OVERLAP)
        return source.copy()

    def in_place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory with a tensor's elements, for its result as well."""
        memory = self.whole(tensor)
        if memory is not tensor:
            memory.copy_(tensor.detach())
        return memory

    # ---- Reductions ----

    def allreduce(self, tensor: torch.Tensor) -> None:
        op = reduction(self._opts.reduceOp, tensor.dtype)
        if tensor.layout is torch.sparse_coo and op.op == "sum":
            self.sum_sparse(tensor)
            return
        memory = self.in_place(tensor)
        if self.is_alone(memory, memory):
            return
        array = as_numbers(memory)
        self.start("allreduce", array, array, op.op, datatype=op.datatype)

    def sum_sparse(self, tensor: torch.Tensor) -> None:
        if self._group.size() == 1:
            self._group.counts.miss(self.name, Reason.ONE_RANK)
            return
        self._group.counts.miss(self.name, Reason.SPARSE)
        allreduce_sparse(self._communicator(), tensor, self._timeout)

    def reduce(self, tensor: torch.Tensor) -> None:
        op = reduction(self._opts.reduceOp, tensor.dtype)
        memory = self.in_place(tensor) if self.is_root else self.source(tensor)
        if self.is_alone(memory, memory):
            return
        array = as_numbers(memory)
        out = array if self.is_root else None
        self.start("reduce", array, out, op.op, self.root, datatype=op.datatype)

    def reduce_scatter(self, output: torch.Tensor, parts: Tensors) -> None:
        """From an input in parts, which may differ in size."""
        self._require_type(parts, output)
        counts = [part.numel() for part in parts]
        self._require_parts(counts, sum(counts), output)
        self._reduce_scatter(output, self.source_of_parts(parts), counts)

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor) -> None:
        """The input is one tensor."""
        self._require_type([source], output)
        counts = [output.numel()] * self._group.size()
        self._require_parts(counts, source.numel(), output)
        self._reduce_scatter(output, self.source(source), counts)

    def _reduce_scatter(self, output: torch.Tensor, source: torch.Tensor, counts: list[int]) -> None:
        op, whole = reduction(self._opts.reduceOp, source.dtype), self.whole(output)
        if self.is_alone(source, whole):
            return
        elements = 2 if source.dtype.is_complex else 1
        out = as_numbers(whole)
        array = self._apart(as_numbers(source), out, counts)
        if len(set(counts)) == 1:
            self.start("reduce_scatter", array, out, op.op, datatype=op.datatype)
        else:
            sizes = [count * elements for count in counts]
            self.start("reduce_scatter", array, out, op.op, sizes, datatype=op.datatype)

    def _require_parts(self, counts: Sequence[int], whole: int, own: torch.Tensor) -> None:
        """InvalidRequest unless `counts` elements of the ranks add up to `whole`, and this rank's fit its tensor."""
        rank, size = self._group.rank(), self._group.size()
        if len(counts) != size or sum(counts) != whole or counts[rank] != own.numel():
            raise InvalidRequest(
                f"{self.name} in a group of {size} ranks: {len(counts)} parts, the whole has {whole} elements, the "
                f"part of rank {rank} {own.numel()}",
                remedy="Let the whole consist of one part for each rank.",
            )

    # ---- Data in motion ----

    def broadcast(self, tensor: torch.Tensor) -> None:
        memory = self.in_place(tensor)
        if not self.is_alone(memory, memory):
            self.start("broadcast", as_elements(memory), self.root)

    def barrier(self) -> None:
        if self._group.size() > 1:
            self.start("barrier")
        else:
            self._group.counts.miss(self.name, Reason.ONE_RANK)

    def allgather(self, parts: Tensors, source: torch.Tensor) -> None:
        memory, rank = self.source(source), self._group.rank()
        counts = [part.numel() for part in parts]
        if len(parts) != self._group.size() or counts[rank] != source.numel():
            raise InvalidRequest(
                f"{self.name} of {source.numel()} elements in a group of {self._group.size()} ranks, into tensors of "
                f"{counts}",
                remedy="Give a tensor for each rank, of the size of its input.",
            )
        self._require_type(parts, source)
        self._gather_into(self.whole_of_parts(parts), memory, counts)

    def allgather_single(self, output: torch.Tensor, source: torch.Tensor) -> None:
        self._require_type([output], source)
        if output.numel() != source.numel() * self._group.size():
            raise InvalidRequest(
                f"{self.name} of {source.numel()} elements in a group of {self._group.size()} ranks, into a tensor of "
                f"{output.numel()}",
                remedy="Give an output of as many elements for each rank.",
            )
        self._gather_into(self.whole(output), self.source(source), [source.numel()] * self._group.size())

    def _gather_into(self, whole: torch.Tensor, source: torch.Tensor, counts: list[int]) -> None:
        if self._group.size() == 1:
            self._copies.insert(0, (whole.reshape(-1), source.reshape(-1)))  # before the copies out of it
            self._group.counts.miss(self.name, Reason.ONE_RANK)
            return
        out = as_elements(whole)
        array = self._apart(as_elements(source), out, counts)
        if len(set(counts)) == 1:
            self.start("allgather", array, out)
        else:
            self.start("allgatherv", array, out, [count * source.element_size() // out.itemsize for count in counts])

    def gather(self, parts: Tensors, source: torch.Tensor) -> None:
        memory = self.source(source)
        if not self.is_root:
            self.start("gather", as_elements(memory), None, self.root)
            return
        self._require_type(parts, source)
        counts = [part.numel() for part in parts]
        if counts != [source.numel()] * self._group.size():
            raise InvalidRequest(
                f"{self.name} of {source.numel()} elements into tensors of {counts}",
                remedy="Give the root a tensor for each rank, of the size of its input.",
            )
        if self.is_alone(memory, parts[0]):
            return
        out = as_elements(self.whole_of_parts(parts))
        self.start("gather", self._apart(as_elements(memory), out, counts), out, self.root)

    def scatter(self, output: torch.Tensor, parts: Tensors) -> None:
        whole = self.whole(output)
        if not self.is_root:
            self.start("scatter", None, as_elements(whole), self.root)
            return
        self._require_type(parts, output)
        counts = [part.numel() for part in parts]
        if counts != [output.numel()] * self._group.size():
            raise InvalidRequest(
                f"{self.name} of tensors of {counts} elements into one of {output.numel()}",
                remedy="Give the root a tensor for each rank, of the size of its output.",
            )
        source = self.source_of_parts(parts)
        if not self.is_alone(source, whole):
            out = as_elements(whole)
            self.start("scatter", self._apart(as_elements(source), out, counts), out, self.root)

    def all_to_all(self, outputs: Tensors, inputs: Tensors) -> None:
        """One scatter from each rank, all under way at once."""
        size, rank = self._group.size(), self._group.rank()
        if len(outputs) != size or len(inputs) != size:
            raise InvalidRequest(
                f"{self.name} of {len(inputs)} tensors into {len(outputs)} in a group of {size} ranks",
                remedy="Give one for each rank on both sides.",
            )
        self._require_type([*inputs, *outputs], inputs[0])
        memory, wholes = self.source_of_parts(inputs), [self.whole(output) for output in outputs]
        if self.is_alone(memory, wholes[0]):
            return
        source, outs = as_elements(memory), [as_elements(whole) for whole in wholes]
        sizes = [part.numel() * part.element_size() // source.itemsize for part in inputs]
        if any(np.may_share_memory(source, out) for out in outs):  # also in place: others write while this rank reads
            source = self._copy_of_overlapped(source)
        for root, out in enumerate(outs):
            if root == rank:
                self.start("scatterv", source, sizes, out, root)
            else:
                self.start("scatterv", None, None, out, root)

    def _require_type(self, tensors: Tensors, other: torch.Tensor) -> None:
        for tensor in tensors:
            require_plain(tensor)
            if tensor.dtype != other.dtype:
                raise InvalidRequest(
                    f"{self.name} mixes {other.dtype} and {tensor.dtype}", remedy="Give tensors of one type."
                )


def _one_memory(parts: Tensors) -> torch.Tensor | None:
    """The memory of tensors that lie one after the other, as one; else None. Empty ones may lie anywhere."""
    filled = [part for part in parts if part.numel()]
    if not filled:
        return torch.empty(0, dtype=parts[0].dtype)
    first = filled[0]
    at = first.data_ptr()
    for part in filled:
        if part.data_ptr() != at or not is_memory(part):
            return None
        at += part.numel() * part.element_size()
    storage = first.untyped_storage()
    if at > storage.data_ptr() + storage.nbytes():
        return None  # neighbours by chance
    count = sum(part.numel() for part in filled)
    return torch.empty(0, dtype=first.dtype).set_(storage, first.storage_offset(), (count,))
