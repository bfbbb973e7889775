"""The agent of a transport in this process: queue pairs of ordinary traffic, as programs of its host have them."""

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin_conform.targets.transport import TransportDevice
from fanin_nic.transport.queue_pairs import AttributesInvalid
from fanin_wire.abi import RECEIVE_WQE, SEND_WQE
from fanin_wire.agent import (
    MAX_MEMORY,
    AgentError,
    Answer,
    ConnectQp,
    CreateQp,
    DestroyQp,
    PollCq,
    PostRecv,
    PostSend,
    QueryQp,
    ReadMr,
    RegMr,
    Request,
    WriteMr,
    address_of,
    code_of,
)
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import (
    Access,
    Attribute,
    CompletionFlag,
    CompletionOpcode,
    CompletionStatus,
    QueuePairState,
    SendFlag,
)

EVERYTHING = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
GUARD = 4096  # bytes on both sides of the memory that are in no region
A, S = Attribute, QueuePairState
PORT = {A.PKEY_INDEX: 0, A.PORT: 1}


class QueuePair:
    def __init__(self, device: TransportDevice, number: int, request: CreateQp) -> None:
        self.service = Service[request.service]
        self.transport, self.domain = device.transport, number + 1
        self.memory = np.zeros(MAX_MEMORY + 2 * GUARD, np.uint8)[GUARD : GUARD + request.memory]
        self.start = int(self.memory.ctypes.data)
        self.keys: list[int] = []
        self.row = self.transport.create_queue_pair(self.service, send_cq=number, receive_cq=number, domain=self.domain)
        device.completions[number] = deque()
        self.key = self.register(0, request.memory, EVERYTHING)
        self.unwritable = self.register(0, request.memory, Access(0))

    def register(self, place: int, length: int, rights: Access) -> int:
        tag = 1 + len(self.keys) * 7 + self.row * 257
        key = self.transport.register(self.start + place, length, rights, domain=self.domain, tag=tag)
        self.keys.append(key)
        return key

    def close(self) -> None:
        for key in self.keys:
            self.transport.deregister(key)
        self.transport.destroy_queue_pair(self.row)


class TransportAgent:
    """See `agent.Agent`. pump: makes the device work. now: nanoseconds."""

    def __init__(self, device: TransportDevice, pump: Callable[[], None], now: Callable[[], int]) -> None:
        self._device, self._pump, self._now = device, pump, now
        self._queue_pairs: dict[int, QueuePair] = {}

    def ask(self, request: Request) -> Answer:
        """Answer at once: time does not pass."""
        answer: Answer = self._do(request)
        self._pump()
        return answer

    def close(self) -> None:
        """Nothing is open."""

    def _of(self, number: int) -> QueuePair:
        try:
            return self._queue_pairs[number]
        except KeyError:
            raise AgentError("UNKNOWN_QUEUE", f"there is no queue pair {number}") from None

    @functools.singledispatchmethod
    def _do(self, request: Request) -> Any:
        raise AgentError("WRONG_REQUEST", f"{request} is unknown here")

    @_do.register
    def _(self, request: CreateQp) -> Answer:
        code_of("service", request.service)
        self._forget(request.qp)
        made = self._queue_pairs[request.qp] = QueuePair(self._device, request.qp, request)
        qpn = int(self._device.transport.queue_pair(made.row)["qpn"])
        return {"qpn": qpn, "address": made.start, "rkey": made.key}

    @_do.register
    def _(self, request: DestroyQp) -> Answer:
        self._forget(request.qp)
        return {}

    def _forget(self, number: int) -> None:
        if queue_pair := self._queue_pairs.pop(number, None):
            queue_pair.close()

    @_do.register
    def _(self, request: ConnectQp) -> Answer:
        queue_pair = self._of(request.qp)
        rights = _rights(request.rights) | Access.LOCAL_WRITE
        try:
            for state, values in _steps(queue_pair.service, request, int(rights)):
                self._device.transport.modify(queue_pair.row, state, self._now(), values)
        except AttributesInvalid as wrong:
            raise AgentError("INVALID_REQUEST", str(wrong)) from None
        return {}

    @_do.register
    def _(self, request: PostSend) -> Answer:
        queue_pair, wqe = self._of(request.qp), np.zeros(1, SEND_WQE)
        wqe["opcode"], wqe["wr_id"] = code_of("operation", request.operation), request.wr
        flags = SendFlag.SIGNALED * request.signaled | SendFlag.SOLICITED * request.solicited
        wqe["flags"] = int(flags) | int(SendFlag.FENCE) * request.fence
        wqe["immediate"], wqe["remote_address"], wqe["rkey"] = request.immediate, request.remote, request.rkey
        wqe["compare_add"], wqe["swap"] = request.compare_add, request.swap
        wqe["destination"], wqe["remote_qpn"] = address_of(request.address), request.qpn
        wqe["remote_qkey"] = request.qkey
        _put_piece(wqe, queue_pair.start + request.place, request.length, queue_pair.key)
        if not self._device.transport.post_send(queue_pair.row, wqe, self._now()):
            raise AgentError("QUEUE_FULL", "the send queue has no free entry")
        return {}

    @_do.register
    def _(self, request: PostRecv) -> Answer:
        queue_pair, wqe = self._of(request.qp), np.zeros(1, RECEIVE_WQE)
        wqe["wr_id"] = request.wr
        key = queue_pair.key if request.writable else queue_pair.unwritable
        _put_piece(wqe, queue_pair.start + request.place, request.length, key)
        if not self._device.transport.post_receive(queue_pair.row, wqe, self._now()):
            raise AgentError("QUEUE_FULL", "the receive queue has no free entry")
        return {}

    @_do.register
    def _(self, request: PollCq) -> Answer:
        self._of(request.qp)
        self._pump()
        waiting = self._device.completions[request.qp]
        if not waiting:
            return {"status": ""}
        done = waiting.popleft()
        answer: Answer = {"status": CompletionStatus(int(done["status"])).name, "wr": int(done["wr_id"])}
        answer |= {"operation": CompletionOpcode(int(done["opcode"])).name, "byte_length": int(done["byte_length"])}
        immediate = int(done["immediate"]) if int(done["flags"]) & CompletionFlag.WITH_IMM else None
        return answer | {"immediate": immediate, "source_qpn": int(done["source_qpn"])}

    @_do.register
    def _(self, request: RegMr) -> Answer:
        rights = _rights(request.rights) | Access.LOCAL_WRITE
        return {"rkey": self._of(request.qp).register(request.place, request.length, rights)}

    @_do.register
    def _(self, request: WriteMr) -> Answer:
        data = np.frombuffer(bytes.fromhex(request.data), np.uint8)
        self._of(request.qp).memory[request.place : request.place + len(data)] = data
        return {}

    @_do.register
    def _(self, request: ReadMr) -> Answer:
        memory = self._of(request.qp).memory
        return {"data": memory[request.place : request.place + request.length].tobytes().hex()}

    @_do.register
    def _(self, request: QueryQp) -> Answer:
        row = self._device.transport.queue_pair(self._of(request.qp).row)
        return {"state": QueuePairState(int(row["state"])).name}


def _put_piece(wqe: np.ndarray, address: int, length: int, key: int) -> None:
    """Store the memory of a request; nothing if it has no bytes."""
    wqe["sge_count"] = bool(length)
    if length:
        wqe["sge"][0, 0] = (address, length, key)


def _rights(names: tuple[str, ...]) -> Access:
    rights = Access(0)
    for name in names:
        rights |= Access(code_of("right", name))
    return rights


def _steps(service: Service, request: ConnectQp, rights: int) -> list[tuple[QueuePairState, dict[Attribute, int]]]:
    """The changes of state up to RTS, with their attributes."""
    if service == Service.UD:
        return [(S.INIT, PORT | {A.QKEY: request.qkey}), (S.RTR, {}), (S.RTS, {A.SQ_PSN: request.send_psn})]
    path = {A.AV: address_of(request.address), A.PATH_MTU: request.mtu, A.DEST_QPN: request.qpn}
    path |= {A.RQ_PSN: request.receive_psn}
    ready = {A.SQ_PSN: request.send_psn}
    if service == Service.RC:
        path |= {A.MAX_DEST_RD_ATOMIC: request.reads, A.MIN_RNR_TIMER: request.rnr_timer}
        ready |= {A.TIMEOUT: request.timeout, A.RETRY_CNT: request.retries, A.RNR_RETRY: request.rnr_retries}
        ready |= {A.MAX_QP_RD_ATOMIC: request.reads}
    return [(S.INIT, PORT | {A.ACCESS_FLAGS: rights}), (S.RTR, path), (S.RTS, ready)]
