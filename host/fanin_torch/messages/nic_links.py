"""Links by RC queue pairs of the NIC's ordinary traffic.

A frame is a SEND into a slot of a shared receive queue. What is offered is fetched by READ (`nic_memory`). A WRITE of
no bytes probes a peer: the queue pair of a process that has ended does not answer.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Any

import numpy as np

from fanin.errors import FaninError, PeerLost
from fanin.verbs import CQ, GID, MR, PD, QP, SGE, SRQ, AHAttr, Context, GlobalRoute, QPAttr, QPInitAttr, RecvWR, SendWR
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
from fanin_torch.messages.frame import EAGER, HEADER, MAX_FRAME, Frame, Kind
from fanin_torch.messages.link import AtEnd
from fanin_torch.messages.listener import Listener
from fanin_torch.messages.meeting import Meeting
from fanin_torch.messages.message import Message
from fanin_torch.messages.nic_memory import NicMemory
from fanin_torch.messages.progress import Progress
from fanin_wire.verbs import CompletionStatus

RECEIVES, SENDS = 256, 64  # slots
MAX_READ = 1 << 30  # bytes of one READ
ACK_TIMEOUT = 15  # 4.096 us * 2^15 = 0.13 s; of eight, the last ones longer, 3.6 s until a peer counts as gone
MTU_4096 = 5


class NicLinks:
    """The links of one rank, which share queues and slots."""

    def __init__(self, context: Context, lock: threading.RLock, listener: Listener) -> None:
        self.context, self.lock, self.listener = context, lock, listener
        self.pd, self.cq = PD(context), CQ(context)
        self.srq, self.memory = SRQ(self.pd), NicMemory(self.pd)
        self._receive_slots = MR(self.pd, RECEIVES * MAX_FRAME, IBV_ACCESS_LOCAL_WRITE)
        self._send_slots = MR(self.pd, SENDS * MAX_FRAME, IBV_ACCESS_LOCAL_WRITE)
        self._received = np.frombuffer(self._receive_slots.buf, np.uint8).reshape(RECEIVES, MAX_FRAME)
        self._sent = np.frombuffer(self._send_slots.buf, np.uint8).reshape(SENDS, MAX_FRAME)
        self._free = list(range(SENDS))
        self._waiting: deque[tuple[NicLink, bytes, np.ndarray | None, AtEnd]] = deque()  # for a slot
        self._actions: dict[int, AtEnd] = {}  # of work requests, by wr_id
        self._numbers = RECEIVES  # below are the receive slots
        self._links: dict[int, NicLink] = {}  # by number of the queue pair
        for slot in range(RECEIVES):
            self._post_receive(slot)
        self.progress = Progress("fanin-messages-by-nic", self, lock, self._handle, listener, lambda: None)

    def link(self, rank: int) -> NicLink:
        link = NicLink(self, rank)
        self._links[link.qp.qp_num] = link
        return link

    def probe(self, ranks: set[int]) -> None:
        for link in self._links.values():
            if link.rank in ranks:
                self.post(link, SendWR(0, IBV_WR_RDMA_WRITE, sg=[]), lambda _: None)

    @property
    def seen(self) -> int:
        return self.cq.seen

    def poll(self) -> tuple[int, list[Any]]:
        return self.cq.poll(64)

    def wait(self, timeout: float, seen: int | None = None) -> bool:
        return self.cq.wait(timeout, seen)

    def fail(self, error: FaninError) -> None:
        unfinished = [action for *_, action in self._waiting] + list(self._actions.values())
        self._waiting.clear()
        self._actions.clear()
        for action in unfinished:
            action(error)

    def close(self) -> None:
        with contextlib.suppress(FaninError):  # the device is gone
            self.pd.close()
            self.cq.close()

    def send(self, link: NicLink, header: bytes, data: np.ndarray | None, then: AtEnd) -> None:
        """SEND a frame from a slot, as soon as one is free."""
        if not self._free:
            self._waiting.append((link, header, data, then))
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

        piece = SGE(self._send_slots.address + slot * MAX_FRAME, length, self._send_slots.lkey)
        self.post(link, SendWR(0, IBV_WR_SEND, sg=[piece]), at_end)

    def post(self, link: NicLink, request: SendWR, then: AtEnd) -> None:
        """then: called at its end."""
        self._numbers += 1
        request.wr_id = self._numbers
        self._actions[request.wr_id] = then
        try:
            link.qp.post_send(request)
        except FaninError as error:
            del self._actions[request.wr_id]
            then(error)

    def _post_receive(self, slot: int) -> None:
        piece = SGE(self._receive_slots.address + slot * MAX_FRAME, MAX_FRAME, self._receive_slots.lkey)
        self.srq.post_recv(RecvWR(slot, sg=[piece]))

    def _handle(self, completion: Any) -> None:
        if completion.wr_id < RECEIVES:
            if completion.status == IBV_WC_SUCCESS:
                self._arrive(self._links[completion.qp_num].rank, completion.wr_id, completion.byte_len)
        elif then := self._actions.pop(completion.wr_id, None):
            error = None
            if completion.status != IBV_WC_SUCCESS:
                rank = self._links[completion.qp_num].rank
                error = PeerLost(f"rank {rank} does not answer: {_status_name(completion.status)}")
                self.listener.lose(rank, error)
            then(error)
        while self._waiting and self._free:
            self.send(*self._waiting.popleft())

    def _arrive(self, source: int, slot: int, length: int) -> None:
        """Handle the frame of a slot, which can receive the next one when this returns."""
        fields = HEADER.unpack_from(self._received[slot])
        data = self._received[slot, HEADER.size : length] if fields[0] == Kind.DATA else None
        self.listener.arrive(Frame(source, *fields)._replace(data=data))
        self._post_receive(slot)


class NicLink:
    eager = EAGER

    def __init__(self, links: NicLinks, rank: int) -> None:
        self._links, self.rank = links, rank
        self.qp = QP(links.pd, QPInitAttr(IBV_QPT_RC, links.cq, links.cq, srq=links.srq))

    def connect(self, meeting: Meeting) -> None:
        links = self._links
        mine = {"number": self.qp.qp_num, "address": links.context.query_device().address}
        other = meeting.swap("queue", mine)
        address = AHAttr(GlobalRoute(GID.of_ipv4(other["address"])))
        rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
        attributes = QPAttr(dest_qp_num=other["number"], ah_attr=address, qp_access_flags=rights)
        attributes.timeout, attributes.path_mtu = ACK_TIMEOUT, MTU_4096
        with links.lock:
            self.qp.to_rts(attributes)
        meeting.swap("receives", True)

    def send(self, header: bytes, data: np.ndarray | None, then: AtEnd) -> None:
        self._links.send(self, header, data, then)

    def offer(self, message: Message) -> tuple[int, int]:
        place = message.place = self._links.memory.of_source(message.array)
        return place.region.rkey, place.address

    def fetch(self, message: Message, offer: Frame, then: AtEnd) -> None:
        try:
            place = message.place = self._links.memory.of_destination(message.array)
        except FaninError as error:
            then(error)
            return
        pieces = range(0, offer.length, MAX_READ)
        left, errors = len(pieces), []

        def at_end(error: FaninError | None) -> None:
            nonlocal left
            left -= 1
            errors.extend([error] if error else [])
            if left:
                return
            if not errors and not message.done:
                self._links.memory.copy_to(message.array, place)
            then(errors[0] if errors else None)

        for start in pieces:
            length = min(MAX_READ, offer.length - start)
            request = SendWR(0, IBV_WR_RDMA_READ, sg=[SGE(place.address + start, length, place.region.lkey)])
            request.set_wr_rdma(offer.key, offer.address + start)
            self._links.post(self, request, at_end)

    def release(self, message: Message) -> None:
        place, message.place = message.place, None
        if place is not None:
            self._links.memory.release(place, message.array.nbytes)


def _status_name(status: int) -> str:
    return CompletionStatus(status).name if status in list(CompletionStatus) else str(status)
