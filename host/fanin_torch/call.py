"""One call of torch to a group: which collectives of the driver it starts, and what is left to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from fanin.api.communicator import Communicator
from fanin.errors import InvalidRequest
from fanin_torch import sparse
from fanin_torch.counts import Copy, Counts, Reason
from fanin_torch.elements import as_bytes, as_numbers, in_order, is_memory, reduction, require_plain
from fanin_torch.errors import as_torch
from fanin_torch.registered_memory import RegisteredMemory
from fanin_torch.work import nothing

Tensors = Sequence[torch.Tensor]


class Group(Protocol):
    """What a call needs of its group. timeout: seconds, unless the call says otherwise."""

    counts: Counts
    timeout: float
    communicator: Communicator | None

    @property
    def memory(self) -> RegisteredMemory | None: ...

    def rank(self) -> int: ...

    def size(self) -> int: ...


class Call:
    """One call of torch while it is started: the requests that it takes, and what is to be done at their end."""

    def __init__(self, group: Group, name: str, opts: Any) -> None:
        self._group, self.name, self._opts = group, name, opts
        seconds = opts.timeout.total_seconds()
        self._timeout = seconds if seconds > 0 else group.timeout
        self.root = int(getattr(opts, "rootRank", 0))
        self.requests: list[Any] = []
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.copied: set[Copy] = set()
        if not 0 <= self.root < group.size():
            raise as_torch(InvalidRequest(f"root {self.root} of {group.size()} ranks", remedy="Give one of them."))

    @property
    def is_root(self) -> bool:
        """Whether this rank is the root."""
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
        """That of the group, of more than one rank. InvalidRequest when it has been left."""
        communicator = self._group.communicator
        if communicator is None:
            raise InvalidRequest(
                f"{self.name} in a group that has been left", remedy="Make a new group: init_process_group, new_group."
            )
        return communicator

    def start(self, collective: str, *arrays: Any, **options: Any) -> None:
        """Start a collective of the driver. Its request is one of this call."""
        start = getattr(self._communicator(), f"i{collective}")
        self.requests.append(start(*arrays, timeout=self._timeout, **options))
        self._group.counts.note(collective)
        memory = self._group.memory
        if memory is not None and not all(memory.holds(array) for array in arrays if isinstance(array, np.ndarray)):
            self.copied.add(Copy.ORDINARY_MEMORY)

    def source(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory that holds what a tensor does: its own, or a copy."""
        memory = in_order(tensor)
        if memory is not tensor:
            self.copied.add(Copy.NOT_CONTIGUOUS)
        return memory

    def joined(self, tensors: Tensors) -> torch.Tensor:
        """Memory that holds what several tensors do, one after the other."""
        self.copied.add(Copy.PARTS)
        return torch.cat([in_order(tensor).reshape(-1) for tensor in tensors])

    def _parts_of(self, tensors: Tensors) -> torch.Tensor:
        """Memory for what comes into several tensors: their own if they lie one after the other, or other memory."""
        whole = _one_memory(tensors)
        if whole is None:
            self.copied.add(Copy.PARTS)
            counts = [tensor.numel() for tensor in tensors]
            whole = torch.empty(sum(counts), dtype=tensors[0].dtype)
            self._copies += list(zip(tensors, whole.split(counts), strict=True))
        return whole

    def is_alone(self, source: torch.Tensor, destination: torch.Tensor) -> bool:
        """Whether the group has one rank. Then this is all of it."""
        if self._group.size() > 1:
            return False
        self._group.counts.miss(self.name, Reason.ONE_RANK)
        if destination.numel() != source.numel():
            raise InvalidRequest(
                f"{self.name}: {source.numel()} elements into a tensor of {destination.numel()}",
                remedy="Give tensors of one size.",
            )
        if destination.data_ptr() != source.data_ptr():
            self._copies.insert(0, (destination, source))  # before the copies out of `destination`
        return True

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory for what comes into a tensor: its own, or other memory that is copied to it at the end."""
        require_plain(tensor)
        if is_memory(tensor):
            return tensor
        self.copied.add(Copy.NOT_CONTIGUOUS)
        copy = torch.empty(tensor.shape, dtype=tensor.dtype)
        self._copies.append((tensor, copy))
        return copy

    def in_place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory that holds what a tensor does, and gets what comes into it."""
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
        sparse.allreduce(self._communicator(), tensor, self._timeout)

    def reduce(self, tensor: torch.Tensor) -> None:
        op = reduction(self._opts.reduceOp, tensor.dtype)
        memory = self.in_place(tensor) if self.is_root else self.source(tensor)
        if self.is_alone(memory, memory):
            return
        array = as_numbers(memory)
        out = array if self.is_root else None
        self.start("reduce", array, out, op.op, self.root, datatype=op.datatype)

    def reduce_scatter(self, output: torch.Tensor, source: torch.Tensor, parts: Tensors = ()) -> None:
        """parts: as which the input was given, if they may differ in size."""
        op = reduction(self._opts.reduceOp, source.dtype)
        memory, whole = self.source(source), self.whole(output)
        counts = [part.numel() for part in parts] or [output.numel()] * self._group.size()
        self._require_parts(counts, source, output)
        if self.is_alone(memory, whole):
            return
        elements = 2 if source.dtype.is_complex else 1
        array, out = as_numbers(memory), as_numbers(whole)
        if len(set(counts)) == 1:
            self.start("reduce_scatter", array, out, op.op, datatype=op.datatype)
        else:
            sizes = [count * elements for count in counts]
            self.start("reduce_scatter", array, out, op.op, sizes, datatype=op.datatype)

    def _require_parts(self, counts: Sequence[int], whole: torch.Tensor, own: torch.Tensor) -> None:
        """InvalidRequest unless `counts` elements of the ranks make up one tensor, and this rank's is the other."""
        rank, size = self._group.rank(), self._group.size()
        if whole.dtype != own.dtype:
            raise InvalidRequest(f"{self.name} of {whole.dtype} and {own.dtype}", remedy="Give tensors of one type.")
        if len(counts) != size or sum(counts) != whole.numel() or counts[rank] != own.numel():
            raise InvalidRequest(
                f"{self.name} in a group of {size} ranks: the whole has {whole.numel()} elements, the part of rank "
                f"{rank} {own.numel()}",
                remedy="Let the whole consist of one part for each rank.",
            )

    # ---- Data in motion ----

    def broadcast(self, tensor: torch.Tensor) -> None:
        memory = self.in_place(tensor)
        if not self.is_alone(memory, memory):
            self.start("broadcast", as_bytes(memory), self.root)

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
        self._gather_into(self._parts_of(parts), memory, counts)

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
        array, out = as_bytes(source), as_bytes(whole)
        if np.may_share_memory(array, out) and not _is_own_block(array, out, counts, self._group.rank()):
            array = array.copy()
        if len(set(counts)) == 1:
            self.start("allgather", array, out)
        else:
            self.start("allgatherv", array, out, [count * source.element_size() for count in counts])

    def gather(self, parts: Tensors, source: torch.Tensor) -> None:
        memory = self.source(source)
        if not self.is_root:
            self.start("gather", as_bytes(memory), None, self.root)
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
        self.start("gather", as_bytes(memory), as_bytes(self._parts_of(parts)), self.root)

    def scatter(self, output: torch.Tensor, parts: Tensors) -> None:
        whole = self.whole(output)
        if not self.is_root:
            self.start("scatter", None, as_bytes(whole), self.root)
            return
        self._require_type(parts, output)
        counts = [part.numel() for part in parts]
        if counts != [output.numel()] * self._group.size():
            raise InvalidRequest(
                f"{self.name} of tensors of {counts} elements into one of {output.numel()}",
                remedy="Give the root a tensor for each rank, of the size of its output.",
            )
        if not self.is_alone(self.source(parts[0]), whole):
            self.start("scatter", as_bytes(self.joined(parts)), as_bytes(whole), self.root)

    def all_to_all(self, outputs: Tensors, inputs: Tensors) -> None:
        """A stream of scatters, one from each rank."""
        size, rank = self._group.size(), self._group.rank()
        if len(outputs) != size or len(inputs) != size:
            raise InvalidRequest(
                f"{self.name} of {len(inputs)} tensors into {len(outputs)} in a group of {size} ranks",
                remedy="Give one for each rank on both sides.",
            )
        self._require_type(outputs, inputs[0])
        if self.is_alone(self.source(inputs[0]), self.whole(outputs[0])):
            return
        sizes = [part.numel() * part.element_size() for part in inputs]
        source = as_bytes(self.joined(inputs))
        for root in range(size):
            out = as_bytes(self.whole(outputs[root]))
            if root == rank:
                self.start("scatterv", source, sizes, out, root)
            else:
                self.start("scatterv", None, None, out, root)

    def _require_type(self, tensors: Tensors, other: torch.Tensor) -> None:
        for tensor in tensors:
            require_plain(tensor)
            if tensor.dtype != other.dtype:
                raise InvalidRequest(
                    f"{self.name} of {other.dtype} and {tensor.dtype}", remedy="Give tensors of one type."
                )


def _one_memory(parts: Tensors) -> torch.Tensor | None:
    """The memory of tensors that lie one after the other, as one; None if they do not."""
    at = parts[0].data_ptr()
    for part in parts:
        if part.data_ptr() != at or not is_memory(part):
            return None
        at += part.numel() * part.element_size()
    storage = parts[0].untyped_storage()
    if at > storage.data_ptr() + storage.nbytes():
        return None  # neighbours by chance
    return torch.empty(0, dtype=parts[0].dtype).set_(
        storage, parts[0].storage_offset(), (sum(part.numel() for part in parts),)
    )


def _is_own_block(array: np.ndarray, out: np.ndarray, counts: Sequence[int], rank: int) -> bool:
    """Whether the input lies where the output has it, in place."""
    size = out.nbytes // max(1, sum(counts))
    return bool(array.ctypes.data == out.ctypes.data + sum(counts[:rank]) * size)
