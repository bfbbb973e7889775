"""What the oracle knows about a queue pair: its open requests, and those that may be repeated."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from fanin_wire.rocev2 import Transport as Service

MODULUS = 1 << 24


def distance(psn: int, start: int) -> int:
    """Packets from one PSN to another."""
    return (psn - start) % MODULUS


def difference(psn: int, other: int) -> int:
    """Packets between two PSNs, negative if the first is earlier."""
    ahead = distance(psn, other)
    return ahead - MODULUS if ahead >= MODULUS // 2 else ahead


def packets_of(length: int, mtu: int) -> int:
    return max(1, -(-length // mtu))


class Piece(NamedTuple):
    """A piece of memory of a request. place: in the array. may_write: its region allows the device to write it."""

    place: int
    length: int
    may_write: bool = True


class Receive(NamedTuple):
    wr_id: int
    pieces: tuple[Piece, ...]

    @property
    def length(self) -> int:
        return sum(piece.length for piece in self.pieces)


class Request(NamedTuple):
    """A request to send. kind: "read", "atomic" or "" (ended by an acknowledgement)."""

    wr_id: int
    kind: str
    first: int  # PSN
    packets: int
    pieces: tuple[Piece, ...]

    @property
    def end(self) -> int:
        """The PSN after its last one."""
        return (self.first + self.packets) % MODULUS


class Read(NamedTuple):
    """A READ that was accepted. place: of its data in the array."""

    first: int
    place: int
    length: int


@dataclass
class SharedQueue:
    """A shared receive queue: the requests that no queue pair has taken."""

    index: int
    receives: deque[Receive] = field(default_factory=deque)


@dataclass
class Queue:
    """A queue pair. receives: its requests; with a shared queue, the one that the message under way has taken."""

    index: int
    qpn: int
    kind: Service
    domain: int
    is_attacked: bool
    shared: SharedQueue | None = None
    peer: int = 0  # IPv4 address
    next_psn: int = 0  # of the next request
    sends: deque[Request] = field(default_factory=deque)
    receives: deque[Receive] = field(default_factory=deque)
    sources: list[Piece] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    originals: dict[int, bytes] = field(default_factory=dict)  # by PSN: the last ones

    @property
    def source(self) -> deque[Receive]:
        """Where the oldest receive request is."""
        return self.receives if self.receives or self.shared is None else self.shared.receives

    def keep(self) -> None:
        """A message goes on, and keeps its request."""
        if self.source is not self.receives:
            self.receives.append(self.source.popleft())

    def give_back(self) -> None:
        """A message has failed: its request is the oldest of the shared queue again."""
        if self.shared is not None and self.receives:
            self.shared.receives.appendleft(self.receives.popleft())

    def forget(self) -> None:
        """The queue pair is reset."""
        self.give_back()
        for container in (self.sends, self.receives, self.sources, self.reads, self.originals):
            container.clear()
