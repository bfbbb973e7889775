"""Messages: matches messages with receives, queues what waits for a connection, ends what waits for a lost rank."""

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fanin.errors import FaninError, Flushed, InvalidRequest, PeerLost
from fanin.verbs import Context
from fanin_torch.messages.frame import HEADER, Frame, Kind
from fanin_torch.messages.link import Link, Links
from fanin_torch.messages.meeting import Meeting
from fanin_torch.messages.message import ANY, Message
from fanin_torch.messages.nic_links import NicLinks
from fanin_torch.messages.progress import Progress, require_calm
from fanin_torch.messages.socket_links import SocketLinks


@dataclass(eq=False)
class Peer:
    """The connection to one rank. Until it stands, messages wait in `backlog`."""

    rank: int
    link: Link
    progress: Progress
    is_connected: bool = False
    error: FaninError | None = None
    backlog: deque[Message] = field(default_factory=deque)


class Messages:
    """The messages of one rank of a group. domains: of each rank, equal if they can open sockets to each other.
    timeout: seconds that later messages may take."""

    def __init__(self, context: Context, store: Any, rank: int, domains: Sequence[str], timeout: float) -> None:
        self._context, self._store, self._rank = context, store, rank
        self._others = [other for other in range(len(domains)) if other != rank]
        self._here = {other for other in self._others if domains[other] == domains[rank]}
        self.timeout = timeout
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._sockets: SocketLinks | None = None  # opened for the first rank of this host,
        self._nic: NicLinks | None = None  # and of another host
        self._peers: dict[int, Peer] = {}
        self._wanted: list[Message] = []  # receives without a message, in the order of their calls
        self._arrivals: list[Frame] = []  # without a receive. The data of offers wait at the sender
        self._sends: dict[int, Message] = {}  # under way, by number
        self._fetching: list[Message] = []  # receives that fetch a long message
        self._number = 0  # of the last send
        self._is_closed = False

    # ---- For the group ----

    def send(self, array: np.ndarray, peer: int, tag: int) -> Message:
        """Begin to send the bytes of an array, which must not change until it has ended."""
        return self._call(self._send, array, peer, tag)

    def receive(self, array: np.ndarray, peer: int, tag: int) -> Message:
        """Begin to receive as many bytes as the array has, from a rank or from ANY."""
        return self._call(self._receive, array, peer, tag)

    def _call(self, begin: Callable[..., Message], array: np.ndarray, peer: int, tag: int) -> Message:
        self._require_rank()
        try:
            with self._lock:
                self._require_open()
                return begin(array, peer, tag)
        except (LookupError, ValueError):
            self._require_open()  # a signal handler has left the group meanwhile
            raise

    def _send(self, array: np.ndarray, peer: int, tag: int) -> Message:
        to = self._peer(peer)
        self._number += 1
        message = Message(array, peer, tag, self.timeout, to.progress, self._number)
        if to.error is not None:
            message.end(to.error)
        elif to.is_connected:
            self._begin(to, message)
        else:
            to.backlog.append(message)
        return message

    def _receive(self, array: np.ndarray, peer: int, tag: int) -> Message:
        sources = [self._peer(rank) for rank in (self._others if peer == ANY else (peer,))]
        # Whoever waits for both kinds looks after the sockets; the thread of the NIC wakes it.
        by_socket = [source for source in sources if source.rank in self._here]
        message = Message(array, peer, tag, self.timeout, (by_socket or sources)[0].progress)
        for arrival in self._arrivals:
            if arrival.tag == tag and peer in (ANY, arrival.source):
                self._arrivals.remove(arrival)
                self._take(message, arrival)
                return message
        errors = [source.error for source in sources if source.error]
        if len(errors) == len(sources):
            message.end(errors[0])
        else:
            self._wanted.append(message)
        return message

    def stays_on_host(self, peer: int) -> bool:
        """Whether messages to or from that rank, or ANY, never use a NIC."""
        return peer in self._here if peer != ANY else len(self._here) == len(self._others)

    def close(self) -> None:
        """End what is under way with an error. A signal handler may call it at any point."""
        if self._process != os.getpid():
            return
        with self._lock:
            kinds, self._is_closed = self._kinds, True
            self.fail(self._left())
            self._sockets = self._nic = None
        for links in kinds:
            links.progress.close()
        with self._lock:
            for links in kinds:
                links.close()

    @staticmethod
    def _left() -> Flushed:
        return Flushed("the group was left")

    @property
    def _kinds(self) -> list[Links]:
        return [links for links in (self._sockets, self._nic) if links is not None]

    def _require_rank(self) -> None:
        if self._process != os.getpid():
            cause, remedy = "a message in a forked child of a rank", "Let the rank itself send and receive."
            raise InvalidRequest(cause, remedy=remedy)
        require_calm(self._lock)

    def _require_open(self) -> None:
        if self._is_closed:
            raise InvalidRequest(
                "a message was asked for in a group that this process has left", remedy="Make a new group."
            )

    # ---- Connections ----

    def _peer(self, rank: int) -> Peer:
        if rank in self._peers:
            return self._peers[rank]
        links = self._links_of(rank)
        peer = self._peers[rank] = Peer(rank, links.link(rank), links.progress)
        threading.Thread(target=self._connect, args=(peer,), name=f"fanin-connect-{rank}", daemon=True).start()
        return peer

    def _links_of(self, rank: int) -> Links:
        """The links of a rank's kind, opened when first needed."""
        self._require_open()
        if self.stays_on_host(rank):
            self._sockets = self._sockets or SocketLinks(self._lock, self)
            return self._sockets
        self._nic = self._nic or NicLinks(self._context, self._lock, self)
        return self._nic

    def _connect(self, peer: Peer) -> None:
        """Wait for the other side, then send the backlog. A late rank is not lost: until then messages time out."""
        try:
            peer.link.connect(Meeting(self._store, self._rank, peer.rank, lambda: not self._is_closed, self.timeout))
            with self._lock:
                peer.is_connected = True
                while peer.backlog and peer.error is None:
                    message = peer.backlog.popleft()
                    if not message.done:
                        self._begin(peer, message)
        except Exception as error:
            who = "the store of the group does not answer" if isinstance(error, RuntimeError) else "it can not connect"
            lost = error if isinstance(error, FaninError) else PeerLost(f"{who} ({error})")
            with self._lock:  # what a closed group's connection meets is that it was closed
                self.lose(peer.rank, self._left() if self._is_closed else lost)

    def _begin(self, to: Peer, message: Message) -> None:
        """Send a message to a connected rank."""
        size, number = message.array.nbytes, message.number
        self._sends[number] = message
        if size <= to.link.eager:
            header = HEADER.pack(Kind.DATA, 0, message.tag, size, 0, number)
            to.link.send(header, message.array, lambda error: self._end_send(number, error))
            return
        try:
            key, address = to.link.offer(message)
        except FaninError as error:  # the device has no room
            self._end_send(number, error)
            return
        header = HEADER.pack(Kind.OFFER, key, message.tag, size, address, number)
        to.link.send(header, None, lambda error: self._end_send(number, error) if error else None)

    # ---- What comes ----

    def arrive(self, frame: Frame) -> None:
        if frame.kind == Kind.FETCHED:
            self._end_send(frame.number, None)
        elif (message := self._wanting(frame)) is not None:
            self._wanted.remove(message)
            self._take(message, frame)
        elif frame.data is None or frame.data.base is None:  # in memory of its own
            self._arrivals.append(frame)
        else:
            self._arrivals.append(frame._replace(data=frame.data.copy()))

    def claim(self, frame: Frame) -> Message | None:
        message = self._wanting(frame)
        if message is None or message.array.nbytes != frame.length:
            return None
        self._wanted.remove(message)
        self._fetching.append(message)
        message.source = frame.source
        return message

    def got(self, message: Message, error: FaninError | None) -> None:
        if message in self._fetching:
            self._fetching.remove(message)
        message.end(error)

    def _wanting(self, frame: Frame) -> Message | None:
        for message in self._wanted:
            if message.tag == frame.tag and message.peer in (ANY, frame.source) and not message.done:
                return message
        return None

    def _take(self, message: Message, arrival: Frame) -> None:
        """Give a receive what has come."""
        message.source = arrival.source
        peer, wrong = self._peers[arrival.source], None
        if arrival.length != message.array.nbytes:
            wrong = InvalidRequest(
                f"rank {arrival.source} has sent {arrival.length} bytes with tag {arrival.tag}, but the receive is for "
                f"{message.array.nbytes}",
                remedy="Give the receive a tensor of the size of the one that is sent.",
            )
        if arrival.data is not None:
            if wrong is None:
                message.array[:] = arrival.data
            message.end(wrong)
        elif wrong is not None or peer.error is not None:
            self._fetched(message, arrival, wrong or peer.error)
        else:
            self._fetching.append(message)
            peer.link.fetch(message, arrival, lambda error: self._fetched(message, arrival, error))

    def _fetched(self, message: Message, arrival: Frame, error: FaninError | None) -> None:
        """Also after a time-out: the sender must get its memory back."""
        peer = self._peers[arrival.source]
        peer.link.release(message)
        self.got(message, error)
        if peer.error is None:
            header = HEADER.pack(Kind.FETCHED, 0, arrival.tag, 0, 0, arrival.number)
            peer.link.send(header, None, lambda _: None)

    def _drop_late_receives(self) -> None:
        """After a Timeout the memory is the program's again."""
        self._wanted = [message for message in self._wanted if not message.done]

    def _end_send(self, number: int, error: FaninError | None) -> None:
        """The receiver has the data; or, with an error, will not get them."""
        message = self._sends.pop(number, None)
        if message is not None:
            self._peers[message.peer].link.release(message)
            message.end(error)

    # ---- Losses ----

    def lose(self, rank: int, error: FaninError) -> None:
        peer = self._peers[rank]
        if peer.error is not None:
            return
        peer.error = error
        for message in peer.backlog:
            message.end(error)
        peer.backlog.clear()
        for number in [number for number, message in self._sends.items() if message.peer == rank]:
            self._end_send(number, error)
        is_last = all(other.error is not None for other in self._peers.values())
        for message in [one for one in self._wanted if one.peer == rank or (one.peer == ANY and is_last)]:
            self._wanted.remove(message)
            message.end(error)

    def has_pending(self) -> bool:
        return bool(self._wanted or self._fetching or self._sends)

    def look(self) -> None:
        """Ends late messages, also those that nobody waits for, and probes the ranks that owe something. Memory stays
        registered until its message has ended."""
        backlogs = [peer.backlog for peer in self._peers.values()]
        for message in (*self._wanted, *self._fetching, *self._sends.values(), *itertools.chain(*backlogs)):
            message.end_if_late()
        self._drop_late_receives()
        for backlog in backlogs:
            while backlog and backlog[0].done:
                backlog.popleft()
        expected = {message.peer for message in (*self._wanted, *self._sends.values())}
        there = {rank for rank, peer in self._peers.items() if peer.is_connected and peer.error is None}
        for links in self._kinds:
            links.probe(there if ANY in expected else there & expected)

    def fail(self, error: FaninError) -> None:
        for rank in self._peers:
            self.lose(rank, error)
        for links in self._kinds:
            links.fail(error)
        for message in (*self._wanted, *self._fetching, *self._sends.values()):
            message.end(error)
        self._wanted.clear()
        self._fetching.clear()
        self._sends.clear()
