"""A plan carried out by broadcasts: one stream of segments for each link, received by every GPU of node 2.

Each link is a job: rank 0 is its first GPU, rank 1 + g is GPU g of node 2; every GPU is a process. The job has two
NICs, so each byte crosses the network once. The NIC of node 2 writes what arrives into the memory of all its ranks,
each at its offset in the data: the stages *diffuse* and *collect* (000, T5 and T6) are done with the stripes.

A link has failed if its job has ended: a NIC or the path between two is lost. The ranks agree over the other links:
after the stripes, each job computes the least number of chunks of every link that any GPU has received. The GPUs of
node 2 are in all jobs, so all jobs get the same numbers, and every rank makes the same plan of the rest.

| position in the agreement | value | of |
| --- | --- | --- |
| link | chunks that have arrived | each GPU of node 2 |
| links + link | 1; 0 if the link has failed | each GPU of node 2 |

Ranks of node 1 give the largest number, so that they change nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from fanin import Communicator, Job, JobNode
from fanin.errors import Aborted, DeviceLost, FaninError, Flushed, PeerLost, Timeout
from fanin.membership.member import DeviceConnection
from fanin.verbs import MR, SharedMemory
from fanin_cluster.handoff.channel import HandoffFailed
from fanin_cluster.handoff.plan import HandoffInvalid, Plan, device_of, joined

CHUNK = 1 << 20  # bytes of a broadcast: a failing link loses at most this much beside its last one
JOIN_TIMEOUT = 60.0
LINK_FAILED = (PeerLost, DeviceLost, Aborted, Flushed, Timeout)
UNKNOWN = np.iinfo(np.int64).max
Bytes = NDArray[np.uint8]


def jobs_of(
    plan: Plan, first_addresses: Mapping[str, str], second_addresses: Mapping[str, str], jid: int, key: int
) -> tuple[Job, ...]:
    """The job of each link; all processes must make the same.

    Args:
        first_addresses, second_addresses: IPv4 addresses of the NICs of each node, by their names in the plan.
        jid: the id of the first job; the others have the next ones. key: a random number of this incarnation.

    Raises HandoffInvalid for a NIC without an address, InvalidRequest for addresses and numbers out of range.
    """
    receivers = tuple(range(1, 1 + len(plan.second_gpus)))
    return tuple(
        Job(
            jid + number,
            key,
            (
                JobNode(device_of(first_addresses, link.first_nic, "address"), (0,)),
                JobNode(device_of(second_addresses, link.second_nic, "address"), receivers),
            ),
            route="ring",
        )
        for number, link in enumerate(plan.links)
    )


class Streams:
    """The communicators of a process: in node 1 in the jobs of its links, in node 2 in all. `with` leaves the jobs."""

    def __init__(
        self,
        plan: Plan,
        jobs: Sequence[Job],
        devices: Mapping[str, str],
        *,
        first_gpus: Collection[int] = (),
        second_gpu: int | None = None,
        timeout: float = JOIN_TIMEOUT,
    ) -> None:
        """Join the jobs. Returns when all processes have.

        Args:
            jobs: from `jobs_of`.
            devices: the socket of the device of each NIC of this node, by the name of the NIC.
            first_gpus: in node 1, the GPUs of this process, at least one of them at a link.
            second_gpu: in node 2, the GPU of this process.
            timeout: seconds to wait for the other processes, for each link.

        Raises HandoffInvalid, or FaninError for a device that can not be reached or a process that does not come.
        """
        if (second_gpu is None) == (not first_gpus):
            raise HandoffInvalid("the GPU of this process is missing", "give first_gpus, or second_gpu")
        self.plan = plan
        self.is_first = second_gpu is None
        rank = 0 if second_gpu is None else 1 + second_gpu
        connections: dict[str, DeviceConnection] = {}
        self.streams: dict[int, Communicator] = {}
        self._threads = ThreadPoolExecutor(max(1, len(plan.links)))
        try:
            for number, (link, job) in enumerate(zip(plan.links, jobs, strict=True)):
                if self.is_first and link.first not in first_gpus:
                    continue
                socket = device_of(devices, link.first_nic if self.is_first else link.second_nic)
                if socket not in connections:
                    connections[socket] = DeviceConnection(socket)
                self.streams[number] = Communicator(job, rank, connections[socket], timeout)
            if not self.streams:
                raise HandoffInvalid(f"the GPUs {sorted(first_gpus)} are at no link", "give those of the plan's links")
            # The agreement is written in place: registered memory for each link.
            self._tables = {link: stream.alloc(2 * len(plan.links), np.int64) for link, stream in self.streams.items()}
        except BaseException:
            self._end(leave=False)
            raise

    def alloc(self, size: int) -> Bytes:
        """Allocate `size` bytes that are registered with all NICs of this process, so that nothing is copied."""
        with SharedMemory(size) as memory:
            for stream in self.streams.values():
                MR(stream.connection.pd, size, memory=memory)
            return np.frombuffer(memory.buf, np.uint8, size)

    def carry(self, memory: Bytes) -> Plan:
        """Broadcast the data in node 1; receive them in node 2. All processes call it, with data of the same size.

        Args:
            memory: the whole data, contiguous bytes; those of `alloc` are not copied.

        Returns: the plan of the last round: `failed` names the links that have failed. Later calls avoid them.
        Raises HandoffFailed if all links of this process have failed: in node 2 the data are lost, in node 1 other
        processes may have sent them. FaninError if the processes call it with different sizes.
        """
        if memory.dtype != np.uint8 or memory.ndim != 1 or not memory.flags.c_contiguous:
            raise HandoffInvalid(
                f"an array of {memory.dtype} with shape {memory.shape}", "give contiguous bytes of shape (size,)"
            )
        plan = self.plan.of_size(memory.size)
        while True:
            work = chunks_of(plan)
            try:
                rest = rest_of(plan, work, *self._agree(*self._stripes(memory, work)))
            except HandoffInvalid as error:
                raise HandoffFailed(error.cause, error.remedy) from None
            if rest is plan:
                break
            plan = rest
        self.plan = replace(self.plan, failed=plan.failed)
        return plan

    def _stripes(self, memory: Bytes, work: list[list[tuple[int, int]]]) -> tuple[list[int], list[bool]]:
        """Broadcast the chunks. Returns of each link how many have arrived, and whether it lives."""
        under_way = {link: self._threads.submit(self._stripe, link, memory, work[link]) for link in self.streams}
        counts = [len(chunks) if self.is_first else 0 for chunks in work]
        alive = [self.is_first] * len(work)
        for link, each in under_way.items():
            counts[link], alive[link] = each.result()
        return counts, alive

    def _stripe(self, link: int, memory: Bytes, chunks: list[tuple[int, int]]) -> tuple[int, bool]:
        count = 0
        try:
            parts = [memory[offset : offset + length] for offset, length in chunks]
            requests = [self.streams[link].ibroadcast(part, root=0) for part in parts]
            for request in requests:
                request.wait()
                count += 1
        except LINK_FAILED:
            return count, False
        return count, True

    def _agree(self, counts: list[int], alive: list[bool]) -> tuple[list[int], list[bool]]:
        """What all GPUs of node 2 have of each link, and which links live for all of them."""
        posted, agreed, causes = {}, [], []
        for link, stream in list(self.streams.items()):
            table = self._tables[link]
            table[:] = UNKNOWN if self.is_first else [*counts, *alive]
            try:
                posted[link] = stream.iallreduce(table, out=table, op="min")
            except LINK_FAILED as error:
                causes.append(self._give_up(link, error))
        for link, request in posted.items():
            try:
                request.wait()
                agreed.append(self._tables[link].tolist())
            except LINK_FAILED as error:
                causes.append(self._give_up(link, error))
        if not agreed:
            raise HandoffFailed(
                f"all links of this process have failed: {'; '.join(causes)}", "repair a link and begin anew"
            )
        links = len(counts)
        return agreed[0][:links], [bool(each) for each in agreed[0][links:]]

    def _give_up(self, link: int, error: FaninError) -> str:
        """Leave the job of a failed link. Returns the cause."""
        self.streams.pop(link).abort()
        return str(error)

    def __enter__(self) -> Streams:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end(leave=error is None)

    def _end(self, leave: bool) -> None:
        for stream in self.streams.values():
            with contextlib.suppress(FaninError):  # all data have been agreed on; a device may be gone
                stream.close() if leave else stream.abort()
        self.streams.clear()
        self._threads.shutdown()


def chunks_of(plan: Plan, most: int = CHUNK) -> list[list[tuple[int, int]]]:
    """The ranges (offset, length) that each link broadcasts in turn, each of at most `most` bytes."""
    chunks: list[list[tuple[int, int]]] = [[] for _ in plan.links]
    for link, copy in plan.send:
        chunks[link] += split(copy.offset, copy.length, most)
    return chunks


def rest_of(plan: Plan, work: list[list[tuple[int, int]]], counts: Sequence[int], alive: Sequence[bool]) -> Plan:
    """The plan that follows one whose chunks were `work`; the same object if no link has failed.

    Args:
        counts: of each link, the chunks that all GPUs have. alive: whether the link lives.

    Raises HandoffInvalid if no link is left.
    """
    failures = {
        link: joined(chunks[:count])
        for link, (chunks, count, lives) in enumerate(zip(work, counts, alive, strict=True))
        if not lives and link not in plan.failed
    }
    return plan.without(failures) if failures else plan


def split(offset: int, length: int, most: int) -> list[tuple[int, int]]:
    """Cut a range into ranges of at most `most` bytes."""
    end = offset + length
    return [(start, min(most, end - start)) for start in range(offset, end, most)]
