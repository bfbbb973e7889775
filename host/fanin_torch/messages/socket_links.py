"""Links between ranks of one host: a Unix stream socket for each pair.

Short messages are taken out of a buffer. Longer ones are read into the program's memory, or into other memory if nobody
waits for them yet; those of more than EAGER_BY_SOCKET bytes follow their receiver's WANT. A forked child closes its
copies of the sockets, so the end of a rank is seen whatever it leaves behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fanin.errors import FaninError, NoResources, PeerLost
from fanin_torch.messages.frame import EAGER, HEADER, MAX_FRAME, Frame, Kind
from fanin_torch.messages.link import AtEnd
from fanin_torch.messages.listener import Listener
from fanin_torch.messages.meeting import Meeting
from fanin_torch.messages.message import Message
from fanin_torch.messages.progress import Progress, Sleepers

BUFFER = 2 * MAX_FRAME  # bytes that come in at once
EAGER_BY_SOCKET = 1 << 20  # bytes of the longest message that goes at once
YIELDS = 30  # of the core, before a waiting thread sleeps
BURST = 1 << 20  # bytes of a long message that are read in one turn

_open: weakref.WeakSet[SocketLinks] = weakref.WeakSet()


class SocketLinks:
    """The links of one rank. They are the source of their own progress."""

    def __init__(self, lock: threading.RLock, listener: Listener) -> None:
        self.lock, self.listener = lock, listener
        self._made: list[SocketLink] = []
        self._connected: dict[int, SocketLink] = {}  # by file descriptor
        with _descriptors():
            self._epoll = select.epoll()
            self._sleepers = Sleepers(self._epoll, lock)
        _open.add(self)
        self.progress = Progress("fanin-messages-by-socket", self, lock, lambda _: None, listener, self._sleepers.wake)

    def link(self, rank: int) -> SocketLink:
        self._made.append(SocketLink(self, rank))
        return self._made[-1]

    def probe(self, ranks: set[int]) -> None:
        """Nothing to do: sockets report the end of a rank."""

    def fail(self, error: FaninError) -> None:
        for link in self._made:
            link.lose(error)
        self._sleepers.wake(everyone=True)

    def close(self) -> None:
        self._epoll.close()
        self._sleepers.close()

    def close_in_child(self) -> None:
        """Close the copies of the parent's files, not the connections."""
        for link in self._made:
            if link.socket is not None:
                link.socket.close()
        self._epoll.close()

    def register(self, link: SocketLink, file: socket.socket) -> None:
        self._connected[file.fileno()] = link
        self._epoll.register(file, select.EPOLLIN)

    def watch(self, file: socket.socket, is_full: bool) -> None:
        """is_full: wait for room to send as well."""
        self._epoll.modify(file, select.EPOLLIN | (select.EPOLLOUT if is_full else 0))

    def forget(self, file: socket.socket) -> None:
        if self._connected.pop(file.fileno(), None) is not None:
            self._epoll.unregister(file)
            with contextlib.suppress(OSError):  # the other side has closed it
                file.shutdown(socket.SHUT_RDWR)  # ends the stream even if children have copies
            file.close()

    @property
    def seen(self) -> int:
        return self._sleepers.seen

    def poll(self) -> tuple[int, Iterable[Any]]:
        """Handle what has come; from how many ranks it came."""
        ready = [] if self._epoll.closed else self._epoll.poll(0)
        for file, events in ready:
            if events & ~select.EPOLLOUT and file in self._connected:
                self._connected[file].read()
            if events & select.EPOLLOUT and file in self._connected:  # unless reading has ended it
                self._connected[file].write()
        return len(ready), ()

    def wait(self, timeout: float, seen: int | None = None) -> bool:
        if seen is not None:
            for _ in range(YIELDS):
                if self._epoll.poll(0, 1) or self.seen != seen:
                    return True
                os.sched_yield()
        return self._sleepers.sleep(timeout, seen)


@dataclass
class Body:
    """A message that is read without the buffer, of which `got` bytes have come. message: whose memory the array is."""

    array: np.ndarray
    then: AtEnd
    message: Message | None
    got: int = 0

    @property
    def is_late(self) -> bool:
        """Whether the memory is the program's again."""
        return self.message is not None and self.message.done


class SocketLink:
    """One socket, its partial input, and what waits for room in it."""

    eager = EAGER_BY_SOCKET

    def __init__(self, links: SocketLinks, rank: int) -> None:
        self._links, self.rank = links, rank
        self.socket: socket.socket | None = None
        self._buffer = np.empty(BUFFER, np.uint8)
        self._start, self._end = 0, 0  # of the bytes in the buffer
        self._out: deque[tuple[list[memoryview], AtEnd]] = deque()
        self._is_full = False
        self._offers: dict[int, Message] = {}  # that the other side may fetch, by number
        self._asked: dict[int, Body] = {}  # that were fetched from the other side, by its number
        self._body: Body | None = None  # being read
        self._send_error: FaninError | None = None
        self._error: FaninError | None = None

    def connect(self, meeting: Meeting) -> None:
        try:
            found = meeting.by_socket(self._keep)
            with self._links.lock:
                if self._error is not None:
                    raise self._error
                self._links.register(self, found)
        except BaseException as error:
            if self.socket is not None:
                self.socket.close()
            if isinstance(error, OSError):
                cause = f"rank {self.rank} can not be reached by a socket: {error.strerror or error}"
                raise PeerLost(cause) from None
            raise

    def _keep(self, file: socket.socket) -> None:
        self.socket = file

    @property
    def _file(self) -> socket.socket:
        assert self.socket is not None, "it is not connected"
        return self.socket

    # ---- Out ----

    def send(self, header: bytes, data: np.ndarray | None, then: AtEnd) -> None:
        error = self._error or self._send_error
        if error is not None:
            then(error)
            return
        pieces = [memoryview(header)]
        if data is not None and data.nbytes:
            pieces.append(data.data)
        self._out.append((pieces, then))
        if not self._is_full:
            self.write()

    def write(self) -> None:
        """Send as much as there is room for."""
        try:
            while self._out:
                pieces, then = self._out[0]
                count = self._file.sendmsg(pieces, [], socket.MSG_NOSIGNAL)
                if left := _after(pieces, count):
                    self._out[0] = left, then
                else:
                    self._out.popleft()
                    then(None)
            self._watch(False)
        except BlockingIOError:
            self._watch(True)
        except OSError:
            self._end_sending(self._end_of_peer())
        except BaseException as error:
            self._interrupted(error)

    def _watch(self, is_full: bool) -> None:
        if self._is_full != is_full and self._error is None:
            self._links.watch(self._file, is_full)
            self._is_full = is_full

    def _end_sending(self, error: FaninError) -> None:
        """The other side is gone; what it sent before is still read."""
        self._send_error = error
        ends = [then for _, then in self._out]
        self._out.clear()
        self._watch(False)
        for then in ends:
            then(error)

    def offer(self, message: Message) -> tuple[int, int]:
        self._offers[message.number] = message
        return 0, 0

    def release(self, message: Message) -> None:
        self._offers.pop(message.number, None)  # a receive has number 0, which no offer has

    # ---- In ----

    def fetch(self, message: Message, offer: Frame, then: AtEnd) -> None:
        if self._error is not None:
            then(self._error)
            return
        self._asked[offer.number] = Body(message.array, then, message)
        self.send(HEADER.pack(Kind.WANT, 0, 0, 0, 0, offer.number), None, lambda _: None)

    def read(self) -> None:
        """Read at most a buffer or a burst."""
        try:
            if self._body is None:
                self._read_frames()
            else:
                self._read_body(self._body)
        except BlockingIOError:
            pass
        except OSError:
            self.lose(self._end_of_peer())
        except BaseException as error:
            self._interrupted(error)

    def _read_frames(self) -> None:
        left = self._end - self._start
        if left:
            self._buffer[:left] = self._buffer[self._start : self._end]
        self._start, self._end = 0, left
        self._end += self._receive(self._buffer[left:])
        while self._error is None and self._body is None and (frame := self._next_frame()) is not None:
            if frame.kind == Kind.WANT:
                message = self._offers[frame.number]
                self.send(HEADER.pack(Kind.BODY, 0, 0, 0, 0, frame.number), message.array, lambda _: None)
            elif frame.kind == Kind.BODY:
                self._begin_body(self._asked.pop(frame.number))
            elif frame.kind == Kind.DATA and frame.data is None:
                self._begin_body(self._body_of(frame))
            else:
                self._links.listener.arrive(frame)

    def _next_frame(self) -> Frame | None:
        """None if it is incomplete. If its data are not in the buffer: the header alone."""
        there, size, data = self._end - self._start, HEADER.size, None
        if there < size:
            return None
        kind, key, tag, length, address, number = HEADER.unpack_from(self._buffer.data, self._start)
        if kind == Kind.DATA and length <= EAGER:
            size += length
            if there < size:
                return None
            data = self._buffer[self._start + HEADER.size : self._start + size]
        self._start += size
        return Frame(self.rank, kind, key, tag, length, address, number, data)

    def _body_of(self, frame: Frame) -> Body:
        """Data go to the waiting receive, or to memory until there is one."""
        listener, message = self._links.listener, self._links.listener.claim(frame)
        if message is not None:
            return Body(message.array, lambda error: listener.got(message, error), message)
        array = np.empty(frame.length, np.uint8)
        return Body(array, lambda error: None if error else listener.arrive(frame._replace(data=array)), None)

    def _begin_body(self, body: Body) -> None:
        self._body = body
        body.got = min(body.array.nbytes, self._end - self._start)
        if not body.is_late:
            body.array[: body.got] = self._buffer[self._start : self._start + body.got]
        self._start += body.got
        self._end_body(body)

    def _read_body(self, body: Body) -> None:
        """Read into its place; if its receive has timed out, discard it."""
        end = min(body.got + BURST, body.array.nbytes)
        while body.got < end:
            place = self._buffer if body.is_late else body.array[body.got :]
            count = self._receive(place[: end - body.got])
            body.got += count
        self._end_body(body)

    def _end_body(self, body: Body) -> None:
        if body.got == body.array.nbytes:
            self._body = None
            body.then(None)

    def _receive(self, place: np.ndarray) -> int:
        count = self._file.recv_into(place.data)
        if not count:
            raise ConnectionResetError
        return count

    # ---- The end ----

    def lose(self, error: FaninError) -> None:
        if self._error is not None:
            return
        self._error = error
        if self.socket is not None:
            self._links.forget(self.socket)
        self._links.listener.lose(self.rank, error)
        bodies = [*self._asked.values(), *([self._body] if self._body else [])]
        self._asked.clear()
        self._body = None
        self._end_sending(error)
        for body in bodies:
            body.then(error)

    def _end_of_peer(self) -> PeerLost:
        return PeerLost(f"rank {self.rank} has ended or left the group")

    def _interrupted(self, error: BaseException) -> None:
        """A signal handler raised, perhaps in mid-message; or it left the group, and objects are gone."""
        if self._error is not None and isinstance(error, Exception):
            return
        cause = f"an error of a signal handler has cut off a message between this rank and rank {self.rank}"
        self.lose(PeerLost(cause))
        raise error


def _after(pieces: list[memoryview], count: int) -> list[memoryview]:
    """What is left of pieces of memory after their first `count` bytes."""
    left = []
    for piece in pieces:
        if count < piece.nbytes:
            left.append(piece[count:])
        count = max(0, count - piece.nbytes)
    return left


@contextlib.contextmanager
def _descriptors() -> Iterator[None]:
    """Raise NoResources when the process has no more descriptors."""
    try:
        yield
    except OSError as error:
        remedy = "Let this process have more open files (ulimit -n), or close some."
        raise NoResources(f"no descriptors for messages: {error.strerror}", remedy=remedy) from None


def _close_in_child() -> None:
    for links in list(_open):
        with contextlib.suppress(OSError):
            links.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)
