"""Transports under test: endpoints with memory, and a wire between two of them that the test may bend."""

import ctypes
import ipaddress
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fanin_conform.targets.transport import change_memory
from fanin_nic.transport.queue_pairs import VALUES
from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.transport import Limits, Transport
from fanin_wire.abi import RECEIVE_WQE, SEND_WQE
from fanin_wire.fields import BTH
from fanin_wire.rocev2 import CODES, OPCODES
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import (
    Access,
    Attribute,
    CompletionOpcode,
    CompletionStatus,
    QueuePairState,
    RequestOpcode,
    SendFlag,
)
from tests.engine.rig import pack, unpack

MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000
LIMITS = Limits(
    queue_pairs=4, send_depth=32, receive_depth=32, shared_queues=2, shared_depth=32, regions=16, actions=512, window=16
)
DOMAIN, STRANGER_DOMAIN = 7, 8
EVERYTHING = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
MEMORY = 1 << 16
A = Attribute
SIGNALED = int(SendFlag.SIGNALED)


class Packet(NamedTuple):
    """A packet on the wire: from BTH to before the ICRC."""

    source: int
    destination: int
    data: bytes

    @property
    def name(self) -> str:
        return OPCODES[self.data[0]].name

    @property
    def bth(self) -> dict[str, int]:
        return unpack(BTH, self.data)

    def header(self, wanted: str) -> dict[str, int]:
        at = BTH.size
        for header in OPCODES[self.data[0]].headers:
            if header.name == wanted:
                return unpack(header, self.data[at:])
            at += header.size
        raise KeyError(f"{self.name} has no {wanted}")


class Completion(NamedTuple):
    wr_id: int
    status: CompletionStatus
    opcode: CompletionOpcode
    length: int
    cq: int
    immediate: int
    flags: int
    solicited: int
    source_qpn: int
    qpn: int


class Endpoint:
    """A transport with memory: an array of bytes, registered with all rights. `sent`: undelivered packets."""

    def __init__(self, address: str, *, limits: Limits = LIMITS, incarnation: int = 1, memory: int = MEMORY) -> None:
        self.transport = Transport(address, limits=limits, incarnation=incarnation)
        self.address = int(ipaddress.IPv4Address(address))
        self.memory = np.zeros(memory, np.uint8)
        self.start = int(self.memory.ctypes.data)
        self.key = self.register(EVERYTHING)
        self.sent: list[Packet] = []
        self.completions: list[Completion] = []
        self.now = SECOND
        self._tag = 1

    def register(self, access: Access, *, offset: int = 0, length: int | None = None, domain: int = DOMAIN) -> int:
        """Register a part of the memory, by default to its end. Returns the key."""
        self._tag = getattr(self, "_tag", 0) + 1
        length = len(self.memory) - offset if length is None else length
        return self.transport.register(self.start + offset, length, access, domain=domain, tag=self._tag)

    def queue_pair(self, kind: Service = Service.RC, **options) -> int:
        """A queue pair in RESET; its row."""
        return self.transport.create_queue_pair(kind, send_cq=0, receive_cq=1, domain=DOMAIN, **options)

    def qpn(self, index: int) -> int:
        return int(self.transport.queue_pair(index)["qpn"])

    def state(self, index: int = 0) -> QueuePairState:
        return QueuePairState(int(self.transport.queue_pair(index)["state"]))

    def count(self, name: str) -> int:
        return self.transport.counters()[name]

    # Work

    def post(
        self,
        opcode: RequestOpcode,
        *pieces: tuple[int, int],
        index: int = 0,
        lkey: int | None = None,
        inline: bytes | None = None,
        **members: int,
    ) -> None:
        """Post a request to send. pieces: (offset, length) in the memory. Signaled unless `flags` say otherwise."""
        wqe = np.zeros(1, SEND_WQE)
        wqe["opcode"], wqe["flags"], wqe["sge_count"] = opcode, SIGNALED, len(pieces)
        wqe["wr_id"] = 100
        for name, value in members.items():
            wqe[name] = value
        for number, (offset, length) in enumerate(pieces):
            wqe["sge"][0, number] = (self.start + offset, length, self.key if lkey is None else lkey)
        if inline is not None:
            wqe["flags"] |= np.uint8(SendFlag.INLINE)
            wqe["inline_length"] = len(inline)
            wqe["sge"].view(np.uint8).reshape(-1)[: len(inline)] = np.frombuffer(inline, np.uint8)
        assert self.transport.post_send(index, wqe, self.now)
        self.settle()

    def post_receive(self, *pieces: tuple[int, int], index: int = 0, wr_id: int = 200, lkey: int | None = None) -> None:
        assert self.transport.post_receive(index, self._receive_wqe(pieces, wr_id, lkey), self.now)
        self.settle()

    def post_shared(self, *pieces: tuple[int, int], index: int = 0, wr_id: int = 200, lkey: int | None = None) -> None:
        assert self.transport.post_shared(index, self._receive_wqe(pieces, wr_id, lkey), self.now)
        self.settle()

    def _receive_wqe(self, pieces: Sequence[tuple[int, int]], wr_id: int, lkey: int | None) -> np.ndarray:
        wqe = np.zeros(1, RECEIVE_WQE)
        wqe["wr_id"], wqe["sge_count"] = wr_id, len(pieces)
        for number, (offset, length) in enumerate(pieces):
            wqe["sge"][0, number] = (self.start + offset, length, self.key if lkey is None else lkey)
        return wqe

    def receive(self, packet: Packet) -> None:
        """A packet arrives, as its own batch."""
        self.receive_all([packet])

    def receive_all(self, packets: Sequence[Packet]) -> None:
        for packet in packets:
            data = np.frombuffer(packet.data, np.uint8)
            self.transport.packet(int(data.ctypes.data), len(data), packet.source, self.now)
            self.perform()  # the bytes of a packet are valid only until the next one
        self.settle()

    def tick(self, elapsed: int = 0) -> None:
        self.now += elapsed
        self.transport.tick(self.now)
        self.settle()

    def settle(self) -> None:
        while self.transport.serve(self.now, 1):
            self.perform()
        self.perform()

    # Actions

    def perform(self) -> None:
        """Perform the actions, in the order that `actions` demands."""
        actions = self.transport.take_actions()
        for action in actions:
            self._change_memory(action)
        packet = None
        for action in actions:
            if action["kind"] == ActionKind.SEND:
                header = bytes(action["header"][: action["header_length"]])
                packet = Packet(self.address, int(action["destination"]), header)
                self.sent.append(packet)
            if action["kind"] in (ActionKind.SEND, ActionKind.PIECE) and action["length"]:
                assert packet is not None
                payload = ctypes.string_at(int(action["payload"]), int(action["length"]))
                packet = packet._replace(data=packet.data + payload)
                self.sent[-1] = packet
        self.sent = [p._replace(data=p.data + bytes(-len(p.data) % 4)) for p in self.sent]
        for action in actions:
            if action["kind"] == ActionKind.COMPLETE:
                self.completions.append(_completion(action))

    def _change_memory(self, action: np.void) -> None:
        remote, end = int(action["remote"]), self.start + len(self.memory)
        if action["kind"] == ActionKind.WRITE:
            assert self.start <= remote
            assert remote + int(action["length"]) <= end
        elif action["kind"] in (ActionKind.COMPARE_SWAP, ActionKind.FETCH_ADD):
            assert self.start <= remote <= end - 8
        change_memory(action)

    def bytes(self, offset: int, length: int) -> bytes:
        return self.memory[offset : offset + length].tobytes()

    def fill(self, offset: int, data: bytes) -> None:
        self.memory[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def statuses(self) -> list[str]:
        return [completion.status.name for completion in self.completions]


def _completion(action: np.void) -> Completion:
    return Completion(
        int(action["wr_id"]),
        CompletionStatus(int(action["status"])),
        CompletionOpcode(int(action["opcode"])),
        int(action["byte_length"]),
        int(action["completion_queue"]),
        int(action["immediate"]),
        int(action["flags"]),
        int(action["solicited"]),
        int(action["source_qpn"]),
        int(action["qpn"]),
    )


PATH = {
    A.PATH_MTU: 256,
    A.RQ_PSN: 0,
    A.MAX_DEST_RD_ATOMIC: 4,
    A.MIN_RNR_TIMER: 12,
    A.SQ_PSN: 0,
    A.TIMEOUT: 14,
    A.RETRY_CNT: 3,
    A.RNR_RETRY: 3,
    A.MAX_QP_RD_ATOMIC: 4,
    A.ACCESS_FLAGS: int(EVERYTHING),
    A.PKEY_INDEX: 0,
    A.PORT: 1,
    A.QKEY: 0x1234,
}
STEPS = {
    Service.RC: (
        A.PKEY_INDEX | A.PORT | A.ACCESS_FLAGS,
        A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN | A.MAX_DEST_RD_ATOMIC | A.MIN_RNR_TIMER,
        A.TIMEOUT | A.RETRY_CNT | A.RNR_RETRY | A.SQ_PSN | A.MAX_QP_RD_ATOMIC,
    ),
    Service.UC: (A.PKEY_INDEX | A.PORT | A.ACCESS_FLAGS, A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN, A.SQ_PSN),
    Service.UD: (A.PKEY_INDEX | A.PORT | A.QKEY, A(0), A.SQ_PSN),
}


def bring_up(endpoint: Endpoint, index: int, *, to: QueuePairState = QueuePairState.RTS, **attributes: int) -> None:
    """Bring a queue pair from RESET to a state. attributes: by name; the others have the values of PATH."""
    kind = Service(int(endpoint.transport.queue_pair(index)["kind"]))
    values = PATH | {A[name]: value for name, value in attributes.items()}
    assert set(values) <= set(VALUES)
    for number, state in enumerate((QueuePairState.INIT, QueuePairState.RTR, QueuePairState.RTS)):
        if state <= to:
            chosen = {name: values[name] for name in values if name & STEPS[kind][number]}
            endpoint.transport.modify(index, state, endpoint.now, chosen)


class Pair:
    """Two endpoints with a connected queue pair each. `log`: all packets on the wire.

    bend: `(packet) -> packets` that arrive; by default the packet itself.
    """

    def __init__(self, kind: Service = Service.RC, *, limits: Limits = LIMITS, psns=(0, 0), **attributes: int) -> None:
        self.one, self.two = Endpoint("10.0.0.1", limits=limits), Endpoint("10.0.0.2", limits=limits)
        self.log: list[Packet] = []
        self.bend: Callable[[Packet], Sequence[Packet]] = lambda packet: [packet]
        ends = (self.one, self.two)
        indices = [end.queue_pair(kind) for end in ends]
        for number, end in enumerate(ends):
            other = ends[1 - number]
            path = {"AV": other.address, "DEST_QPN": other.qpn(indices[1 - number])} if kind != Service.UD else {}
            path |= {"SQ_PSN": psns[number], "RQ_PSN": psns[1 - number]}
            bring_up(end, indices[number], **(path | attributes))

    def run(self, rounds: int = 1000) -> None:
        """Deliver packets until none is under way."""
        for _ in range(rounds):
            if not self.one.sent and not self.two.sent:
                return
            for end in (self.one, self.two):
                packets, end.sent = end.sent, []
                self.log += packets
                arriving = [bent for packet in packets for bent in self.bend(packet)]
                for target in (self.one, self.two):
                    target.receive_all([packet for packet in arriving if packet.destination == target.address])
        raise AssertionError("the two never stop")

    def pass_time(self, elapsed: int) -> None:
        """Time passes for both, and their packets are delivered."""
        for end in (self.one, self.two):
            end.tick(elapsed)
        self.run()

    def names(self) -> list[str]:
        """Opcodes of all packets on the wire, without the transport."""
        return [packet.name.partition("_")[2] for packet in self.log]


def make(name: str, source: Endpoint, target: Endpoint, payload: bytes = b"", index: int = 0, **values) -> Packet:
    """A packet from one endpoint to a queue pair of another. values: of the BTH; extended headers as dictionaries."""
    headers = {header.name: values.pop(header.name, {}) for header in OPCODES[CODES[name]].headers}
    padding = -len(payload) % 4
    bth = {"opcode": CODES[name], "padcount": padding, "pkey": 0xFFFF, "dqpn": target.qpn(index)} | values
    data = pack(BTH, **bth)
    for header in OPCODES[CODES[name]].headers:
        data += pack(header, **headers[header.name])
    return Packet(source.address, target.address, data + payload + bytes(padding))
