"""Links between ranks of one host: a Unix stream socket for each pair.

A long message follows the WANT of its receiver, who reads it to where the program wants it. The lower rank of a pair
listens at a name that it tells the other; each sees that the other is of the same user. A forked child closes its
copies, so the end of a rank is seen whatever it leaves behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import socket
import struct
import threading
import weakref
from collections import deque
from typing import NamedTuple

import numpy as np

from fanin.errors import FaninError, PeerLost
from fanin_torch.messages.frame import HEADER, LONGEST, Frame, Kind
from fanin_torch.messages.link import AtEnd, Meeting
from fanin_torch.messages.listener import Listener
from fanin_torch.messages.message import Message
from fanin_torch.messages.progress import Progress

CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group
BUFFER = 2 * LONGEST  # bytes that come in at once
BURST = 1 << 20  # bytes of a long message that are read before others have their turn

_all: weakref.WeakSet[SocketLinks] = weakref.WeakSet()


class SocketLinks:
    """Of one rank of a group. They are the source of their progress, as a completion queue is that of a NIC's."""

    def __init__(self, name: str, lock: threading.RLock, listener: Listener) -> None:
        self.lock, self.listener = lock, listener
        self.links: dict[int, SocketLink] = {}  # that are connected, by file descriptor
        self._all: list[SocketLink] = []
        self.seen = 0  # how often something was taken
        self._epoll = select.epoll()
        self._sleeping = threading.Lock()  # of the next two
        self._sleepers: set[Sleeper] = set()
        self._idle: list[Sleeper] = []
        _all.add(self)
        self.progress = Progress(name, self, lock, listener.arrive, listener)

    def link(self, rank: int) -> SocketLink:
        self._all.append(SocketLink(self, rank))
        return self._all[-1]

    def probe(self, ranks: set[int]) -> None:
        """The end of a socket is seen without."""

    def fail(self, error: FaninError) -> None:
        for link in self._all:
            link.lose(error)
        self._wake()

    def close(self) -> None:
        self.close_files()
        self._idle.clear()

    def close_files(self) -> None:
        """Also those of the parent, in a forked child."""
        for link in self.links.values():
            link.socket.close()
        self._epoll.close()

    def register(self, link: SocketLink) -> None:
        self.links[link.socket.fileno()] = link
        self._epoll.register(link.socket, select.EPOLLIN)

    def watch(self, link: SocketLink, is_full: bool) -> None:
        """is_full: what is to be sent waits for room in the socket."""
        self._epoll.modify(link.socket, select.EPOLLIN | (select.EPOLLOUT if is_full else 0))

    def forget(self, link: SocketLink) -> None:
        if self.links.get(link.socket.fileno()) is link:
            del self.links[link.socket.fileno()]
            self._epoll.unregister(link.socket)
            link.socket.close()

    def poll(self, _: int) -> tuple[int, list[Frame]]:
        """What has come: from how many ranks, frames. One thread at a time."""
        ready = self._epoll.poll(0)
        frames: list[Frame] = []
        for file, events in ready:
            if events & ~select.EPOLLOUT and file in self.links:
                frames += self.links[file].read()
            if events & select.EPOLLOUT and file in self.links:  # reading has not ended it
                self.links[file].write()
        if ready:
            self._wake()
        return len(ready), frames

    def _wake(self) -> None:
        with self._sleeping:
            self.seen += 1
            for sleeper in self._sleepers:
                sleeper.wake()

    def wait(self, timeout: float, seen: int | None = None) -> bool:
        """Sleep until something can be taken, or another thread has taken something since `seen`."""
        with self._sleeping:
            if seen is not None and self.seen != seen:
                return True
            sleeper = self._idle.pop() if self._idle else Sleeper(self._epoll)
            self._sleepers.add(sleeper)
        try:
            return sleeper.sleep(timeout)
        finally:
            with self._sleeping:
                self._sleepers.discard(sleeper)
                sleeper.clear()
                self._idle.append(sleeper)


class Sleeper:
    """A thread that waits for sockets, or for another one that has taken what came by them."""

    def __init__(self, epoll: select.epoll) -> None:
        self._event = os.fdopen(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK), "r+b", buffering=0)
        self._poll = select.poll()
        self._poll.register(epoll, select.POLLIN)
        self._poll.register(self._event, select.POLLIN)
        self._is_woken = False

    def sleep(self, seconds: float) -> bool:
        """Whether there is a reason to look."""
        return bool(self._poll.poll(seconds * 1000))

    def wake(self) -> None:
        self._is_woken = True
        os.eventfd_write(self._event.fileno(), 1)

    def clear(self) -> None:
        if self._is_woken:
            os.eventfd_read(self._event.fileno())
            self._is_woken = False


class Body(NamedTuple):
    """A long message that comes in."""

    message: Message
    length: int
    then: AtEnd


class SocketLink:
    """A socket, what it has brought that is no whole frame yet, and what waits for room in it."""

    def __init__(self, links: SocketLinks, rank: int) -> None:
        self._links, self.rank = links, rank
        self.socket = socket.socket(socket.AF_UNIX)
        self._buffer = np.empty(BUFFER, np.uint8)
        self._start, self._end = 0, 0  # of what the buffer holds
        self._out: deque[tuple[list[memoryview], AtEnd]] = deque()
        self._offers: dict[int, Message] = {}  # which the other side may want, by number
        self._wanted: dict[int, Body] = {}
        self._body: Body | None = None  # whose bytes come next
        self._got = 0  # bytes of it
        self._is_full = False  # the socket
        self._error: FaninError | None = None

    def connect(self, meeting: Meeting) -> None:
        try:
            if meeting.rank < meeting.peer:
                found = self._accept(meeting)
            else:
                found = self.socket
                found.connect(meeting.swap("socket", "").encode())
            _require_own_user(found, self.rank)
        except OSError as error:
            raise PeerLost(f"rank {self.rank} can not be reached by a socket: {error.strerror or error}") from None
        found.setblocking(False)
        with self._links.lock:
            self.socket = found
            if self._error is not None:
                found.close()
                raise self._error
            self._links.register(self)

    def _accept(self, meeting: Meeting) -> socket.socket:
        name = f"\0fanin-messages-{secrets.token_hex(16)}"
        with self.socket as listener:
            listener.bind(name.encode())
            listener.listen(1)
            listener.setblocking(False)
            meeting.swap("socket", name)
            meeting.until(lambda: bool(select.select([listener], [], [], 0)[0]))
            return listener.accept()[0]

    # ---- Out ----

    def send(self, header: bytes, data: np.ndarray | None, then: AtEnd) -> None:
        if self._error is not None:
            then(self._error)
            return
        pieces = [memoryview(header)]
        if data is not None and data.nbytes:
            pieces.append(data.data)
        self._out.append((pieces, then))
        if len(self._out) == 1:
            self.write()

    def write(self) -> None:
        """As much as there is room for."""
        try:
            while self._out:
                pieces, then = self._out[0]
                left = _after(pieces, self.socket.sendmsg(pieces, [], socket.MSG_NOSIGNAL))
                if left:
                    self._out[0] = left, then
                else:
                    self._out.popleft()
                    then(None)
            self._watch(False)
        except BlockingIOError:
            self._watch(True)
        except OSError:
            self._end_of_peer()
        except BaseException:  # a signal handler has raised
            self._break()
            raise

    def _watch(self, is_full: bool) -> None:
        if self._is_full != is_full:
            self._is_full = is_full
            self._links.watch(self, is_full)

    def offer(self, message: Message) -> tuple[int, int]:
        self._offers[message.number] = message
        return 0, 0

    def release(self, message: Message) -> None:
        self._offers.pop(message.number, None)

    # ---- In ----

    def fetch(self, message: Message, offer: Frame, then: AtEnd) -> None:
        self._wanted[offer.number] = Body(message, offer.length, then)
        self.send(HEADER.pack(Kind.WANT, 0, 0, 0, 0, offer.number), None, lambda _: None)

    def read(self) -> list[Frame]:
        """What has come, at most a buffer or a burst. Data of frames are valid until the next call."""
        try:
            if self._body is None:
                return self._read_frames()
            self._read_body(self._body)
        except BlockingIOError:
            pass
        except OSError:
            self._end_of_peer()
        except BaseException:  # a signal handler has raised
            self._break()
            raise
        return []

    def _read_frames(self) -> list[Frame]:
        left = self._end - self._start
        self._buffer[:left] = self._buffer[self._start : self._end]
        self._start, self._end = 0, left + self._receive(self._buffer[left:])
        frames = []
        while self._body is None and (frame := self._next_frame()) is not None:
            if frame.kind == Kind.WANT:
                message = self._offers[frame.number]
                self.send(HEADER.pack(Kind.BODY, 0, 0, 0, 0, frame.number), message.array, lambda _: None)
            elif frame.kind == Kind.BODY:
                self._begin_body(self._wanted.pop(frame.number))
            else:
                frames.append(frame)
        return frames

    def _next_frame(self) -> Frame | None:
        """None if it is not whole yet."""
        there, data = self._end - self._start, None
        if there < HEADER.size:
            return None
        fields = HEADER.unpack_from(self._buffer.data, self._start)
        frame, size = Frame(self.rank, *fields), HEADER.size
        if frame.kind == Kind.DATA:
            size += frame.length
            if there < size:
                return None
            data = self._buffer[self._start + HEADER.size : self._start + size]
        self._start += size
        return frame._replace(data=data)

    def _begin_body(self, body: Body) -> None:
        self._body = body
        self._got = min(body.length, self._end - self._start)
        if not body.message.done:
            body.message.array[: self._got] = self._buffer[self._start : self._start + self._got]
        self._start += self._got
        self._end_body(body)

    def _read_body(self, body: Body) -> None:
        """To its place; what its receiver has not waited for goes nowhere."""
        end = min(self._got + BURST, body.length)
        while self._got < end:
            place = self._buffer if body.message.done else body.message.array[self._got :]
            self._got += self._receive(place[: end - self._got])
        self._end_body(body)

    def _end_body(self, body: Body) -> None:
        if self._got == body.length:
            self._body = None
            body.then(None)

    def _receive(self, place: np.ndarray) -> int:
        count = self.socket.recv_into(place.data)
        if not count:
            raise ConnectionResetError
        return count

    # ---- The end ----

    def lose(self, error: FaninError) -> None:
        """Nothing comes and goes any more."""
        if self._error is not None:
            return
        self._error = error
        self._links.forget(self)
        self._links.listener.lose(self.rank, error)
        bodies = [*self._wanted.values(), *([self._body] if self._body else [])]
        ends = [then for _, then in self._out] + [body.then for body in bodies]
        self._out.clear()
        self._wanted.clear()
        self._body = None
        for then in ends:
            then(error)

    def _end_of_peer(self) -> None:
        self.lose(PeerLost(f"rank {self.rank} has ended or left the group"))

    def _break(self) -> None:
        self.lose(PeerLost(f"an error of a signal handler has broken off a message between this rank and {self.rank}"))


def _after(pieces: list[memoryview], count: int) -> list[memoryview]:
    """What is left of pieces of memory after their first `count` bytes."""
    left = []
    for piece in pieces:
        if count < piece.nbytes:
            left.append(piece[count:])
        count = max(0, count - piece.nbytes)
    return left


def _require_own_user(peer: socket.socket, rank: int) -> None:
    """Who else can open sockets of this network is no rank."""
    _, user, _ = CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    if user != os.geteuid():
        raise PermissionError(errno.EACCES, f"user {user} has it")


def _close_in_child() -> None:
    for links in list(_all):
        with contextlib.suppress(OSError):
            links.close_files()


os.register_at_fork(after_in_child=_close_in_child)
