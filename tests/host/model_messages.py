"""One message in the model device: the work requests of all ranks, checked to the letter."""

import numpy as np
from model_jobs import Job, Queue
from model_memory import Memory

from fanin_nic.hostif.ports import Refused
from fanin_wire import abi
from fanin_wire.abi import ContributorClass, JobFlag, Status, WqeFlag
from fanin_wire.datatypes import datatype_by_code
from fanin_wire.operations import operation_by_code, supports

NONE, ONE, ALL = (ContributorClass[name] for name in ("NONE", "ONE", "ALL"))
INLINE, ADDRESS_LIST = WqeFlag.INLINE, WqeFlag.ADDRESS_LIST
SOURCE = abi.WQE.fields["address"][1] + abi.ADDRESS.fields["source"][1]  # type: ignore[index]
AGREED = ("op", "dtype", "contributors", "length", "block", "mid", "sid", "segments")


class Message:
    """The oldest work request of every queue of a job. carry_out raises Refused with what is wrong."""

    def __init__(self, job: Job, entries: list[Queue], memory: Memory) -> None:
        self.job, self.entries, self.memory = job, entries, memory
        self.wqes = [entry.posted[0] for entry in entries]
        first = self.wqes[0]
        self.length, self.block = int(first["length"]), int(first["block"])
        self.contributors = first["contributors"]

    def carry_out(self) -> None:
        """Compute, and write what each rank wants."""
        if len({tuple(int(wqe[name]) for name in AGREED) for wqe in self.wqes}) > 1:
            raise Refused(Status.OP_MISMATCH)
        for entry, wqe in zip(self.entries, self.wqes, strict=True):
            self._examine(entry, wqe)
            entry.position += int(wqe["segments"])
        if self.contributors == NONE:
            return
        message = self._reduced() if self.contributors == ALL else self._collected()
        for entry, wqe in zip(self.entries, self.wqes, strict=True):
            for address in self._addresses(entry, wqe):
                start, end = self._bounds(address, "destination")
                if end > start:
                    lkey, place = int(wqe["destination_lkey"]), int(address["destination"])
                    self.memory.write(entry.client, lkey, place, message[start:end])

    def _examine(self, entry: Queue, wqe: np.void) -> None:
        self._require(wqe["seg"] == entry.position % self.job.slots, "BUFFER_ERROR")
        self._require(wqe["segments"] == self._positions(wqe) and wqe["sid"] == 0)
        self._require(wqe["chunk"] == self.job.chunk and wqe["node_bitmap"] == 1)
        self._require(wqe["rank_bitmap"] == entry.ranks and wqe["address_count"] == entry.ranks.bit_count())
        self._require(bool(wqe["flags"] & ADDRESS_LIST) == (wqe["address_count"] > 1))
        if self.contributors == ALL:
            self._require(supports(int(wqe["op"]), int(wqe["dtype"])), "NOT_SUPPORTED")
            self._require(self.block % datatype_by_code(wqe["dtype"]).itemsize == 0)
        else:
            self._require(wqe["op"] == abi.Op.NONE and wqe["dtype"] == abi.DType.U8)
        if wqe["flags"] & INLINE:
            start, end = self._bounds(wqe["address"], "source")
            self._require(wqe["address_count"] == 1 and 0 < end - start <= abi.MAX_INLINE)

    def _require(self, condition: bool, status: str = "INVALID_REQUEST") -> None:
        if not condition:
            raise Refused(Status[status])

    def _positions(self, wqe: np.void) -> int:
        """Counted one by one, unlike in the driver."""
        if self.contributors == NONE:
            return 1 if self.length == self.block == 0 else 0
        operation = operation_by_code(wqe["op"]) if self.contributors == ALL else None
        wide = operation and operation.widens(datatype_by_code(wqe["dtype"])) and self.job.flags & JobFlag.WIDE
        segment = self.job.chunk * datatype_by_code(wqe["dtype"]).itemsize // 4 if wide else self.job.chunk
        self._require(0 < self.block <= self.length)
        ends = range(0, self.length, self.block)
        return sum(len(range(start, min(start + self.block, self.length), segment)) for start in ends)

    def _addresses(self, entry: Queue, wqe: np.void) -> np.ndarray:
        if not wqe["flags"] & ADDRESS_LIST:
            return np.array([wqe["address"]], abi.ADDRESS)
        size, place = int(wqe["address_count"]) * abi.ADDRESS.itemsize, int(wqe["address"]["source"])
        return self.memory.read(entry.client, int(wqe["source_lkey"]), place, size).view(abi.ADDRESS)

    def _bounds(self, address: np.void, side: str) -> tuple[int, int]:
        """Bytes of the message that a rank brings or wants."""
        first, count = int(address[f"{side}_first"]), int(address[f"{side}_blocks"])
        self._require((first + max(count, 1) - 1) * self.block < self.length)
        start = first * self.block
        return start, min(start + count * self.block, self.length) if count else start

    def _brought(self) -> list[tuple[int, np.ndarray]]:
        """For each rank that brings something, in order: where it begins in the message, and the bytes."""
        pieces = []
        for entry, wqe in zip(self.entries, self.wqes, strict=True):
            for address in self._addresses(entry, wqe):
                start, end = self._bounds(address, "source")
                if end > start:
                    pieces.append((start, self._read(entry, wqe, int(address["source"]), end - start)))
        return pieces

    def _read(self, entry: Queue, wqe: np.void, place: int, length: int) -> np.ndarray:
        if wqe["flags"] & INLINE:
            return np.frombuffer(wqe.tobytes(), "u1")[SOURCE : SOURCE + length]
        return self.memory.read(entry.client, int(wqe["source_lkey"]), place, length)

    def _reduced(self) -> np.ndarray:
        pieces = self._brought()
        whole = all(len(data) == self.length for _, data in pieces)
        self._require(whole and len(pieces) == self.job.mask.bit_count())
        datatype = datatype_by_code(self.wqes[0]["dtype"])
        contributions = np.stack([data.view(datatype.numpy) for _, data in pieces])
        return operation_by_code(self.wqes[0]["op"]).oracle(contributions, datatype).view("u1")

    def _collected(self) -> np.ndarray:
        message, brought = np.empty(self.length, "u1"), np.zeros(self.length, "u1")
        for start, data in self._brought():
            message[start : start + len(data)] = data
            brought[start : start + len(data)] += 1
        if np.any(brought != 1):
            raise Refused(Status.OP_MISMATCH)
        return message
