"""Point-to-point messages of a group: RC queue pairs of the NIC's ordinary traffic.

| message | way |
| --- | --- |
| up to EAGER bytes | a SEND with header and data; the receiver copies it out of a shared receive queue |
| longer | rendezvous: a SEND with key and address of the data (`message_memory`); the receiver fetches them by READ |

Two ranks connect when both have to do with each other. Whoever waits takes completions (`progress`). A few times a
second a thread looks for peers that are gone: the queue pair of a process that has ended does not answer a WRITE of no
bytes.
"""

from __future__ import annotations

import contextlib
import json
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fanin.errors import FaninError, Flushed, InvalidRequest, PeerLost
from fanin.verbs import CQ, GID, MR, PD, QP, SGE, SRQ, AHAttr, GlobalRoute, QPAttr, QPInitAttr, RecvWR, SendWR
from fanin.verbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE,
    IBV_QPT_RC,
    IBV_WC_SUCCESS,
    IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE,
    IBV_WR_SEND,
)
from fanin_torch.device import Device
from fanin_torch.message import ANY, Message
from fanin_torch.message_memory import MessageMemory
from fanin_torch.progress import LOOK_SECONDS, Progress
from fanin_wire.verbs import CompletionStatus

AtEnd = Callable[[FaninError | None], None]  # of a work request
HEADER = struct.Struct("<IIqQQQ")  # kind, remote key, tag, bytes, address, number of the sender's message
DATA, OFFER, FETCHED = 1, 2, 3  # kinds
EAGER = 65536 - HEADER.size  # bytes
SLOT = HEADER.size + EAGER
RECEIVES, SENDS = 256, 64  # slots
MOST_BYTES = 1 << 30  # of one READ
ACK_TIMEOUT = 15  # 4.096 us * 2^15 = 0.13 s; of eight, the last ones longer, 3.6 s until a peer counts as gone
MTU_4096 = 5
POLL_LEAST, POLL_MOST = 0.001, 0.02  # seconds between two looks into the store while a peer has not connected


def _status_name(status: int) -> str:
    return CompletionStatus(status).name if status in list(CompletionStatus) else str(status)


@dataclass(eq=False)
class Arrival:
    """A message that has come and is wanted by nobody yet. data: None of an offer, which waits at the sender."""

    source: int
    tag: int
    length: int
    data: np.ndarray | None
    key: int = 0
    address: int = 0
    number: int = 0


@dataclass
class Peer:
    """The connection to one rank. Until it stands, what is to be sent waits in `backlog`."""

    rank: int
    qp: QP
    is_connected: bool = False
    error: FaninError | None = None
    backlog: deque[Callable[[], None]] = field(default_factory=deque)


class Messages:
    """Of one rank of one group. timeout: seconds that a message may take, from the next one on."""

    def __init__(self, device: Device, store: Any, rank: int, size: int, timeout: float) -> None:
        self._device, self._store, self._rank, self._size, self.timeout = device, store, rank, size, timeout
        self._lock = threading.RLock()
        self._peers: dict[int, Peer] = {}
        self._wanted: list[Message] = []  # receives that nothing has come for, in the order of their calls
        self._arrivals: list[Arrival] = []
        self._offers: dict[int, Message] = {}  # sends whose data the receiver has not fetched, by number
        self._actions: dict[int, AtEnd] = {}  # of work requests, by wr_id
        self._numbers = RECEIVES  # below are the receive slots
        self._is_open, self._is_closed = False, False

    def _open(self) -> None:
        """Queues, slots and the thread, at the first message."""
        if self._is_closed:
            raise InvalidRequest("a message in a group that has been left", remedy="Make a new group.")
        if self._is_open:
            return
        context = self._device.connection.context
        self._pd, self._cq = PD(context), CQ(context)
        self._srq, self._memory = SRQ(self._pd), MessageMemory(self._pd)
        self._receive_slots = MR(self._pd, RECEIVES * SLOT, IBV_ACCESS_LOCAL_WRITE)
        self._send_slots = MR(self._pd, SENDS * SLOT, IBV_ACCESS_LOCAL_WRITE)
        self._received = np.frombuffer(self._receive_slots.buf, np.uint8).reshape(RECEIVES, SLOT)
        self._sent = np.frombuffer(self._send_slots.buf, np.uint8).reshape(SENDS, SLOT)
        self._free = list(range(SENDS))
        self._waiting: deque[tuple[Peer, bytes, Any, AtEnd]] = deque()
        for slot in range(RECEIVES):
            self._post_receive(slot)
        self._is_open = True
        name = f"fanin-messages-{self._rank}"
        self._progress = Progress(name, self._cq, self._lock, self._handle, self._look, self._fail)

    # ---- For the group ----

    def send(self, array: np.ndarray, peer: int, tag: int) -> Message:
        """Begin to send the bytes of an array, which must not change until it has ended."""
        with self._lock:
            self._open()
            message = Message(array, peer, tag, self.timeout, self._progress)
            self._numbers += 1
            number, to = self._numbers, self._peer(peer)

            def begin() -> None:
                if array.nbytes <= EAGER:
                    header = HEADER.pack(DATA, 0, tag, array.nbytes, 0, number)
                    self._send(to, header, array, message.end)
                    return
                place = message.place = self._memory.of_source(array)
                self._offers[number] = message
                header = HEADER.pack(OFFER, place.region.rkey, tag, array.nbytes, place.address, number)
                self._send(to, header, None, lambda error: self._drop_offer(number, error) if error else None)

            self._when_connected(to, message, begin)
        return message

    def receive(self, array: np.ndarray, peer: int, tag: int) -> Message:
        """Begin to receive as many bytes as the array has, from a rank or from ANY."""
        with self._lock:
            self._open()
            message = Message(array, peer, tag, self.timeout, self._progress)
            sources = [other for other in range(self._size) if other != self._rank] if peer == ANY else [peer]
            lost = [found.error for found in map(self._peer, sources) if found.error]
            for arrival in self._arrivals:
                if arrival.tag == tag and peer in (ANY, arrival.source):
                    self._arrivals.remove(arrival)
                    self._take(message, arrival)
                    return message
            if len(lost) == len(sources):
                message.end(lost[0])
            else:
                self._wanted.append(message)
        return message

    def close(self) -> None:
        """What is under way fails."""
        with self._lock:
            was_open, self._is_open, self._is_closed = self._is_open, False, True
        if not was_open:
            return
        with self._lock:
            self._fail(Flushed("the group was left"))
        self._progress.close()
        with self._lock, contextlib.suppress(FaninError):  # the device is gone
            self._pd.close()
            self._cq.close()

    # ---- Connections ----

    def _peer(self, rank: int) -> Peer:
        if rank in self._peers:
            return self._peers[rank]
        qp = QP(self._pd, QPInitAttr(IBV_QPT_RC, self._cq, self._cq, srq=self._srq))
        peer = self._peers[rank] = Peer(rank, qp)
        mine = {"number": qp.qp_num, "address": self._device.connection.context.query_device().address}
        self._store.set(f"messages/{self._rank}/{rank}", json.dumps(mine))
        threading.Thread(target=self._connect, args=(peer,), name=f"fanin-connect-{rank}", daemon=True).start()
        return peer

    def _connect(self, peer: Peer) -> None:
        """Wait for the other side, and send what has waited: once both queue pairs receive. A rank that comes late is
        not lost: messages end with Timeout until then."""
        ours, theirs = f"messages/{self._rank}/{peer.rank}", f"messages/{peer.rank}/{self._rank}"
        try:
            other = json.loads(self._await(theirs))
            with self._lock:
                if not self._is_open:
                    return
                address = AHAttr(GlobalRoute(GID.of_ipv4(other["address"])))
                rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                attributes = QPAttr(dest_qp_num=other["number"], ah_attr=address, qp_access_flags=rights)
                attributes.timeout, attributes.path_mtu = ACK_TIMEOUT, MTU_4096
                peer.qp.to_rts(attributes)
            self._store.set(f"{ours}/receives", "")
            self._await(f"{theirs}/receives")
            with self._lock:
                peer.is_connected = True
                while peer.backlog and self._is_open:
                    peer.backlog.popleft()()
        except FaninError as error:
            with self._lock:
                self._lose(peer, error)
        except RuntimeError as error:  # the store has gone with its process
            with self._lock:
                self._lose(peer, PeerLost(f"the store of the group does not answer ({error})"))

    def _await(self, key: str) -> bytes:
        """What the store has for a key, when it is there. The store is asked again and again: a call that waits in it
        would keep it from the program."""
        pause, begin = POLL_LEAST, time.monotonic()
        while not self._store.check([key]):
            if not self._is_open:
                raise Flushed("the group was left")
            time.sleep(pause)
            is_late = time.monotonic() - begin > self.timeout
            pause = min(2 * pause, LOOK_SECONDS if is_late else POLL_MOST)
        return self._store.get(key)

    def _when_connected(self, peer: Peer, message: Message, begin: Callable[[], None]) -> None:
        if peer.error is not None:
            message.end(peer.error)
        elif peer.is_connected:
            begin()
        else:
            self._offers[-self._numbers] = message  # so that it fails with the peer
            number = -self._numbers

            def later() -> None:
                waits = self._offers.pop(number, None)
                if waits is not None and not waits.done:
                    try:
                        begin()
                    except FaninError as error:  # the device has no room
                        waits.end(error)

            peer.backlog.append(later)

    def _lose(self, peer: Peer, error: FaninError) -> None:
        """Nothing comes from this rank any more, and nothing gets there."""
        if peer.error is not None:
            return
        peer.error = error
        peer.backlog.clear()
        for number in [number for number, message in self._offers.items() if message.peer == peer.rank]:
            self._drop_offer(number, error)
        others = [other for other in self._peers.values() if other.error is None]
        for message in [one for one in self._wanted if one.peer == peer.rank or (one.peer == ANY and not others)]:
            self._wanted.remove(message)
            message.end(error)

    # ---- Work requests ----

    def _release(self, message: Message) -> None:
        place, message.place = message.place, None
        if place is not None:
            self._memory.release(place, message.array.nbytes)

    def _post_receive(self, slot: int) -> None:
        piece = SGE(self._receive_slots.address + slot * SLOT, SLOT, self._receive_slots.lkey)
        self._srq.post_recv(RecvWR(slot, sg=[piece]))

    def _send(self, peer: Peer, header: bytes, data: np.ndarray | None, then: AtEnd) -> None:
        """A SEND of header and data, from a slot. then: called at its end."""
        if not self._free:
            self._waiting.append((peer, header, data, then))
            return
        slot = self._free.pop()
        place, length = self._sent[slot], HEADER.size
        place[:length] = np.frombuffer(header, np.uint8)
        if data is not None:
            length += data.nbytes
            place[HEADER.size : length] = data

        def at_end(error: FaninError | None) -> None:
            self._free.append(slot)
            then(error)

        piece = SGE(self._send_slots.address + slot * SLOT, length, self._send_slots.lkey)
        self._post(peer, SendWR(0, IBV_WR_SEND, sg=[piece]), at_end)

    def _post(self, peer: Peer, request: SendWR, then: AtEnd) -> None:
        self._numbers += 1
        request.wr_id = self._numbers
        self._actions[request.wr_id] = then
        try:
            peer.qp.post_send(request)
        except FaninError as error:
            del self._actions[request.wr_id]
            then(error)

    # ---- What comes ----

    def _handle(self, completion: Any) -> None:
        self._end_request(completion)
        while self._waiting and self._free:
            self._send(*self._waiting.popleft())

    def _end_request(self, completion: Any) -> None:
        if completion.wr_id < RECEIVES:
            if completion.status == IBV_WC_SUCCESS:
                source = next(peer.rank for peer in self._peers.values() if peer.qp.qp_num == completion.qp_num)
                self._arrive(source, completion.wr_id, completion.byte_len)
            return
        then = self._actions.pop(completion.wr_id, None)
        if then is None:
            return
        error = None
        if completion.status != IBV_WC_SUCCESS:
            peer = next(peer for peer in self._peers.values() if peer.qp.qp_num == completion.qp_num)
            error = peer.error or PeerLost(f"rank {peer.rank} does not answer: {_status_name(completion.status)}")
            self._lose(peer, error)
        then(error)

    def _arrive(self, source: int, slot: int, length: int) -> None:
        """A SEND has come into a slot, which can receive the next one when this returns."""
        kind, key, tag, size, address, number = HEADER.unpack_from(self._received[slot])
        if kind == FETCHED:
            self._drop_offer(number, None)
        else:
            data = self._received[slot, HEADER.size : length] if kind == DATA else None
            self._match(Arrival(source, tag, size, data, key, address, number))
        self._post_receive(slot)

    def _match(self, arrival: Arrival) -> None:
        """The first receive that wants it gets it."""
        self._drop_late_receives()
        for message in self._wanted:
            if message.tag == arrival.tag and message.peer in (ANY, arrival.source):
                self._wanted.remove(message)
                self._take(message, arrival)
                return
        if arrival.data is not None:
            arrival.data = arrival.data.copy()
        self._arrivals.append(arrival)

    def _take(self, message: Message, arrival: Arrival) -> None:
        """What has come is what a receive wants."""
        message.source = arrival.source
        wrong = None
        if arrival.length != message.array.nbytes:
            wrong = InvalidRequest(
                f"rank {arrival.source} has sent {arrival.length} bytes with tag {arrival.tag}, and the receive is for "
                f"{message.array.nbytes}",
                remedy="Give the receive a tensor of the size of the one that is sent.",
            )
        if arrival.data is not None:
            if wrong is None:
                message.array[:] = arrival.data
            message.end(wrong)
        elif wrong is not None:
            self._fetched(message, arrival, wrong)
        else:
            self._fetch(message, arrival)

    def _fetch(self, message: Message, arrival: Arrival) -> None:
        peer = self._peers[arrival.source]
        if peer.error is not None:
            message.end(peer.error)
            return
        try:
            place = message.place = self._memory.of_destination(message.array)
        except FaninError as error:
            self._fetched(message, arrival, error)
            return
        pieces = range(0, arrival.length, MOST_BYTES)
        message.left = len(pieces)
        errors: list[FaninError] = []

        def at_end(error: FaninError | None) -> None:
            message.left -= 1
            errors.extend([error] if error else [])
            if message.left == 0:
                self._fetched(message, arrival, errors[0] if errors else None)

        for start in pieces:
            length = min(MOST_BYTES, arrival.length - start)
            request = SendWR(0, IBV_WR_RDMA_READ, sg=[SGE(place.address + start, length, place.region.lkey)])
            request.set_wr_rdma(arrival.key, arrival.address + start)
            self._post(peer, request, at_end)

    def _fetched(self, message: Message, arrival: Arrival, error: FaninError | None) -> None:
        """Also of a receive whose time has run out: the sender's memory is to be its own again."""
        if error is None and message.place is not None and not message.done:
            self._memory.copy_to(message.array, message.place)
        self._release(message)
        message.end(error)
        peer = self._peers[arrival.source]
        if peer.error is None:
            self._send(peer, HEADER.pack(FETCHED, 0, arrival.tag, 0, 0, arrival.number), None, lambda _: None)

    def _drop_late_receives(self) -> None:
        """A receive that has ended with Timeout takes no message: its memory is the program's again."""
        self._wanted = [message for message in self._wanted if not message.done]

    def _drop_offer(self, number: int, error: FaninError | None) -> None:
        """The receiver has fetched the data; or, with an error, will not."""
        message = self._offers.get(number)
        if message is None:
            return
        del self._offers[number]
        self._release(message)
        message.end(error)

    # ---- Losses ----

    def _look(self) -> None:
        self._end_the_late()
        self._look_for_the_lost()

    def _end_the_late(self) -> None:
        """Time-outs, also of messages for which nobody waits. What is under way stays registered until it has ended."""
        for message in (*self._wanted, *self._offers.values()):
            message.end_if_late()
        self._drop_late_receives()
        for number in [number for number, message in self._offers.items() if number < 0 and message.done]:
            del self._offers[number]

    def _look_for_the_lost(self) -> None:
        """A WRITE of no bytes to each rank from which something is expected."""
        expected = {message.peer for message in (*self._wanted, *self._offers.values())}
        for peer in self._peers.values():
            if peer.is_connected and peer.error is None and (peer.rank in expected or ANY in expected):
                request = SendWR(0, IBV_WR_RDMA_WRITE, sg=[])
                self._post(peer, request, lambda _: None)

    def _fail(self, error: FaninError) -> None:
        """Nothing goes on, and no completion comes any more: every message ends."""
        for peer in self._peers.values():
            self._lose(peer, error)
        unfinished = [action for *_, action in self._waiting] + list(self._actions.values())
        self._waiting.clear()
        self._actions.clear()
        for action in unfinished:
            action(error)
        for message in (*self._wanted, *self._offers.values()):
            message.end(error)
        self._wanted.clear()
        self._offers.clear()
