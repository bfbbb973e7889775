"""The processes of one server in a literal hand-off: the memory of its GPUs, and their messages to each other.

One process has all GPUs (`WholeNode`), or several have some each (`SharedNode`). One process of each server leads: it
has the connection to the other server, and shares what it hears there.
Record 0096 (docs/decisions) says why one process for each GPU.
"""

import contextlib
import os
import socket
import stat
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fanin.verbs import MR, PD, SharedMemory
from fanin_cluster.errors import ClusterError
from fanin_cluster.handoff.channel import HandoffFailed, Lines, broken
from fanin_cluster.handoff.plan import Copy, HandoffInvalid

JOIN_TIMEOUT = 60.0
RETRY = 0.02  # seconds between two tries to reach a process that does not listen yet
DESCRIPTORS = b"D"  # the byte that descriptors travel with
MAX_DESCRIPTORS = 253  # of a message: SCM_MAX_FD of Linux
SIBLING = "another process of this node"
Bytes = NDArray[np.uint8]


class Node(ABC):
    """One process of a server. `with` leaves the node, so that the others hear of it.

    lines: in the leading process, messages to that of the other server; else None.

    Args:
        channel: in the leading process, a connection to that of the other server. The program closes it; this takes
            effect when the node has been left.
    """

    def __init__(self, channel: socket.socket | None) -> None:
        self._opened = contextlib.ExitStack()  # what the node closes when it is left
        self.lines = None if channel is None else self._opened.enter_context(Lines(channel))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._opened.close()

    @property
    def leads(self) -> bool:
        return self.lines is not None

    @abstractmethod
    def owns(self, gpu: int) -> bool:
        """Whether a GPU belongs to this process."""

    @abstractmethod
    def memory_of(self, gpu: int) -> Bytes:
        """The memory of any GPU of the server."""

    @abstractmethod
    def register(self, pd: PD, gpu: int, size: int, rights: int) -> MR:
        """Register the first `size` bytes of a GPU of this process."""

    @abstractmethod
    def check(self, size: int, gpus: int) -> None:
        """Raise HandoffInvalid if there is no room for `size` bytes in each of `gpus` GPUs."""

    @abstractmethod
    def share(self, take: Callable[[], Any]) -> Any:
        """Call `take` in the leading process; return its value, or raise its ClusterError as HandoffFailed, in all."""

    @abstractmethod
    def gather(self, value: Any = None) -> list[Any]:
        """The values of all processes, in all. A barrier: no process returns before all have come."""

    def copy(self, copies: Iterable[Copy]) -> None:
        """Carry out those copies within the server whose source is a GPU of this process."""
        for each in copies:
            if self.owns(each.source):
                place = slice(each.offset, each.offset + each.length)
                self.memory_of(each.target)[place] = self.memory_of(each.source)[place]

    def put(self, message: Mapping[str, Any]) -> None:
        """Send a message to the other server, from the leading process."""
        if self.lines is not None:
            self.lines.put(message)

    def take(self, *names: str) -> dict[str, Any]:
        """The next message of the other server, in all processes."""

        def take() -> dict[str, Any]:
            assert self.lines is not None  # `share` calls it in the leading process
            return self.lines.take(*names)

        found: dict[str, Any] = self.share(take)
        return found


class WholeNode(Node):
    """A server whose GPUs all belong to this process. `with` leaves the node.

    Args:
        memory: contiguous bytes of shape (GPUs, size), a row for each GPU; or (size,), if all have the same.
        channel: a connection to the leading process of the other server.
    """

    def __init__(self, memory: Bytes, channel: socket.socket) -> None:
        super().__init__(channel)
        self.memory = memory

    def owns(self, gpu: int) -> bool:
        return True

    def memory_of(self, gpu: int) -> Bytes:
        return self.memory if self.memory.ndim == 1 else self.memory[gpu]

    def register(self, pd: PD, gpu: int, size: int, rights: int) -> MR:
        return MR(pd, size, rights, self.memory_of(gpu).ctypes.data)

    def check(self, size: int, gpus: int) -> None:
        memory = self.memory
        if memory.dtype != np.uint8 or memory.shape not in ((size,), (gpus, size)) or not memory.flags.c_contiguous:
            raise HandoffInvalid(
                f"an array of {memory.dtype} with shape {memory.shape}",
                f"give contiguous bytes of shape ({gpus}, {size}), or ({size},) where all GPUs have the same",
            )

    def share(self, take: Callable[[], Any]) -> Any:
        return take()

    def gather(self, value: Any = None) -> list[Any]:
        return [value]

    def copy(self, copies: Iterable[Copy]) -> None:
        if self.memory.ndim > 1:
            super().copy(copies)


class SharedNode(Node):
    """A server with several processes, each of which has some of the GPUs. `with` leaves the node.

    GPUs share their memory: a copy to the GPU of another process is one write.
    memories: of each GPU of the server, also those of other processes.

    Args:
        path: of the socket at which the processes of this server and user meet; the leading one makes it.
        processes: their number. In node 1 those with the GPUs of the plan's links, and with its holder.
        gpus: those of this process, by their indices.
        size: bytes of each GPU.
        channel: in the leading process, a connection to that of the other server.
        timeout: seconds to wait for the others at the beginning.

    Raises HandoffInvalid if two processes have one GPU, or sizes differ; HandoffFailed if the others do not come;
    NoResources without memory.
    """

    def __init__(
        self,
        path: str | Path,
        processes: int,
        gpus: Collection[int],
        size: int,
        channel: socket.socket | None = None,
        timeout: float = JOIN_TIMEOUT,
    ) -> None:
        super().__init__(channel)
        self.size = size
        self.memories: dict[int, Bytes] = {}
        self.others: list[Lines] = []  # of the leading process: to all others; else to that
        try:
            self.own = {gpu: self._opened.enter_context(SharedMemory(size)) for gpu in gpus}
            if channel is None:
                self._join(Path(path), time.monotonic() + timeout)
            else:
                self._meet(Path(path), processes - 1, timeout)
        except BaseException:
            self._opened.close()
            raise

    def owns(self, gpu: int) -> bool:
        return gpu in self.own

    def memory_of(self, gpu: int) -> Bytes:
        return self.memories[gpu]

    def register(self, pd: PD, gpu: int, size: int, rights: int) -> MR:
        return MR(pd, size, rights, memory=self.own[gpu])

    def check(self, size: int, gpus: int) -> None:
        if size > self.size:
            raise HandoffInvalid(f"{size} bytes, and the GPUs have {self.size}", "make the node with a larger size")
        if out := sorted(gpu for gpu in self.memories if gpu >= gpus):
            raise HandoffInvalid(f"the plan has {gpus} GPUs, the node also {out}", "give the GPUs of the plan")

    def share(self, take: Callable[[], Any]) -> Any:
        if not self.leads:
            said = self.others[0].take("value", "failed")
            if "failed" in said:
                raise HandoffFailed(*map(str, said["failed"]))
            return said["value"]
        try:
            value = take()
            for each in self.others:
                each.put({"value": value})
        except ClusterError as error:
            for each in self.others:
                with contextlib.suppress(HandoffFailed):  # the one that is gone may be the cause
                    each.put({"failed": [error.cause, error.remedy]})
            raise
        return value

    def gather(self, value: Any = None) -> list[Any]:
        if not self.leads:
            self.others[0].put({"value": value})
        found: list[Any] = self.share(lambda: [value, *(each.take("value")["value"] for each in self.others)])
        return found

    def _meet(self, path: Path, count: int, timeout: float) -> None:
        """Lead: collect the memories of all processes, and give everyone all."""
        arrived: list[tuple[socket.socket, Lines]] = []
        shared = dict(self.own)
        with _listener(path, timeout) as listener:
            while len(arrived) < count:
                try:
                    member, _ = listener.accept()
                except OSError as error:
                    raise HandoffFailed(
                        f"{count - len(arrived)} of {count} other processes of this node have not arrived: {error}",
                        "start them all, with the same path",
                    ) from None
                self._opened.enter_context(member)
                if not _is_of_this_user(member):
                    member.close()
                    continue
                member.settimeout(timeout)
                lines = self._opened.enter_context(Lines(member, SIBLING))
                memories = self._taken(member, lines)
                if clash := sorted(shared.keys() & memories.keys()):
                    raise HandoffInvalid(f"two processes of this node have the GPUs {clash}", "give each GPU once")
                shared |= memories
                arrived.append((member, lines))
        for member, lines in arrived:
            _give(member, lines, shared)
            member.settimeout(None)
            self.others.append(lines)
        self._map(shared)

    def _join(self, path: Path, deadline: float) -> None:
        """Follow: give the memories of this process, and take all."""
        leader = self._opened.enter_context(socket.socket(socket.AF_UNIX))
        while True:
            try:
                leader.connect(str(path))
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise HandoffFailed(f"{path}: no process leads this node: {error}", "start it") from None
                time.sleep(RETRY)
        leader.settimeout(max(RETRY, deadline - time.monotonic()))
        _give(leader, lines := self._opened.enter_context(Lines(leader, SIBLING)), self.own)
        self.others = [lines]
        self._map({**self._taken(leader, lines), **self.own})
        leader.settimeout(None)

    def _taken(self, other: socket.socket, lines: Lines) -> dict[int, SharedMemory]:
        """The memories of GPUs that another process sends by `_give`. They are closed when this process leaves."""
        descriptors = iter(_received(other))
        try:
            memories = [self._opened.enter_context(SharedMemory.of(each)) for each in descriptors]
        except BaseException:
            for each in descriptors:  # those behind the one that is wrong
                os.close(each)
            raise
        gpus = lines.take("gpus")["gpus"]
        if len(gpus) != len(memories) or any(each.length != self.size for each in memories):
            raise HandoffInvalid(
                f"the processes of this node have GPUs of {sorted({each.length for each in memories})} bytes"
                f" and of {self.size}",
                "give all the same size",
            )
        return dict(zip(map(int, gpus), memories, strict=True))

    def _map(self, shared: Mapping[int, SharedMemory]) -> None:
        self.memories = {gpu: np.frombuffer(each.buf, np.uint8, self.size) for gpu, each in shared.items()}


@contextlib.contextmanager
def _listener(path: Path, timeout: float) -> Iterator[socket.socket]:
    """A socket at a path, in place of one that a process has left behind; gone afterwards."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)  # before listen(), when connections become possible
        listener.listen()
    except OSError as error:
        listener.close()
        raise HandoffInvalid(
            f"{path}: {error.strerror}", "give the path of a new socket, of 107 bytes at most"
        ) from None
    listener.settimeout(timeout)
    try:
        with listener:
            yield listener
    finally:
        path.unlink(missing_ok=True)


def _is_of_this_user(member: socket.socket) -> bool:
    credentials = member.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] == os.geteuid()


def _give(other: socket.socket, lines: Lines, memories: Mapping[int, SharedMemory]) -> None:
    """Send memories of GPUs: their descriptors with one byte, and then a line that says whose they are."""
    try:
        socket.send_fds(other, [DESCRIPTORS], [each.fd for each in memories.values()])
    except OSError as error:
        raise broken(str(error), SIBLING) from None
    lines.put({"gpus": list(memories)})


def _received(other: socket.socket) -> list[int]:
    """The descriptors that another process sends."""
    try:
        _, descriptors, _, _ = socket.recv_fds(other, len(DESCRIPTORS), MAX_DESCRIPTORS)
    except OSError as error:
        raise broken(str(error), SIBLING) from None
    return list(descriptors)
