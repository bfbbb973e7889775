"""A device under judgement: the real transport with memory. Every input and every action is judged."""

import ctypes
import ipaddress
from random import Random
from typing import NamedTuple

import numpy as np

from fanin_nic.transport.records.actions import ACTION, ActionKind
from fanin_nic.transport.records.tables import Counter
from fanin_nic.transport.transport import Limits, Transport
from fanin_sim.hostile.memory import Memory, Region
from fanin_sim.hostile.oracle import expect
from fanin_sim.hostile.packets import unpack
from fanin_sim.hostile.queues import Piece, Queue, Receive, Request, SharedQueue, distance, packets_of
from fanin_wire.abi import RECEIVE_WQE, SEND_WQE
from fanin_wire.fields import BTH
from fanin_wire.rocev2 import ATOMIC_BYTES, OPCODES, Operation
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, Attribute, CompletionStatus, RequestOpcode, SendFlag
from fanin_wire.verbs import QueuePairState as State

SECOND = 10**9
DEPTH = 8  # requests of a queue
LIMITS = Limits(
    queue_pairs=16,
    send_depth=DEPTH,
    receive_depth=DEPTH,
    shared_queues=1,
    shared_depth=DEPTH,
    regions=16,
    actions=128,
    window=16,
)
REASONS = {counter: counter.name.lower() for counter in Counter if counter.name.startswith(("DROP_", "REFUSED_"))}
# Reasons to drop a packet before a queue pair takes it.
BEFORE_QUEUE_PAIR = list(range(Counter.DROP_SHORT, Counter.DROP_SENDER + 1))
KINDS = {
    RequestOpcode.RDMA_READ: "read",
    RequestOpcode.ATOMIC_CMP_AND_SWP: "atomic",
    RequestOpcode.ATOMIC_FETCH_AND_ADD: "atomic",
}
COLUMN = {name: number for number, name in enumerate(ACTION.names or ())}
KIND, STATUS, OF_REQUEST, QUEUE_PAIR = (COLUMN[name] for name in ("kind", "status", "of_request", "queue_pair"))
LENGTH, PAYLOAD, PLACE, WR_ID = (COLUMN[name] for name in ("length", "payload", "remote", "wr_id"))
OPERAND, COMPARE, HEADER, HEADER_LENGTH = (COLUMN[name] for name in ("operand", "compare", "header", "header_length"))
DESTINATION = COLUMN["destination"]


class Violated(Exception):
    """The device did what it must not do, or did not do what it must. The message says what."""


class Sent(NamedTuple):
    queue: int
    destination: int
    data: bytes


class Device:
    """A device. sent: packets that wait to be carried away. counts: arrived packets by the name of their counter."""

    def __init__(self, address: str, random: Random) -> None:
        self.transport = Transport(address, limits=LIMITS, incarnation=random.randrange(1, 1 << 16))
        self.address = int(ipaddress.IPv4Address(address))
        self.memory = Memory(self.transport, random)
        self.queues: dict[int, Queue] = {}
        self.sent: list[Sent] = []
        self.now = SECOND
        self.counts: dict[str, int] = {}
        self.posted = self.ended = 0
        self.shared: SharedQueue | None = None
        self._open: set[int] = set()
        self._rows = self.transport.tables["queue_pairs"]
        self._counters = self.transport.tables["counters"]
        start = int(self.transport.header["queue_pair_offset"])
        self._state = self.transport.arena[start : int(self.transport.header["action_offset"])]
        self._originals = self.transport.tables["originals"]

    # Queue pairs

    def create_shared(self, domain: int) -> SharedQueue:
        """The only shared receive queue of the device."""
        self.shared = SharedQueue(self.transport.create_shared_queue(domain=domain))
        return self.shared

    def create(self, kind: Service, domain: int, *, is_attacked: bool, shared: SharedQueue | None = None) -> Queue:
        row = shared.index if shared else None
        index = self.transport.create_queue_pair(kind, send_cq=0, receive_cq=0, domain=domain, shared_queue=row)
        queue = Queue(index, int(self._rows[index]["qpn"]), kind, domain, is_attacked, shared)
        self.queues[queue.qpn] = queue
        return queue

    def change(self, queue: Queue, state: State, values: dict[Attribute, int]) -> None:
        """Change the state of a queue pair. Of `values`, those that the change does not take are left out."""
        self.transport.modify(queue.index, state, self.now, values)
        if state == State.RESET:
            queue.forget()
        queue.peer = int(self._rows[queue.index]["destination"])
        if Attribute.SQ_PSN in values:
            queue.next_psn = values[Attribute.SQ_PSN]

    def state(self, queue: Queue) -> State:
        return State(int(self._rows[queue.index]["state"]))

    def row(self, queue: Queue) -> np.void:
        """The row of a queue pair in the transport."""
        return self._rows[queue.index]

    # Requests

    def post_send(
        self, queue: Queue, opcode: RequestOpcode, region: Region, offset: int, length: int, **members: int
    ) -> None:
        """Post a request to send one piece of a region. members: of the WQE."""
        wqe = np.zeros(1, SEND_WQE)
        wqe["wr_id"], wqe["opcode"], wqe["flags"], wqe["sge_count"] = self._new(), opcode, SendFlag.SIGNALED, 1
        wqe["sge"][0, 0] = (region.address + offset, length, region.key)
        for name, value in members.items():
            wqe[name] = value
        piece = Piece(region.place + offset, length)
        packets = packets_of(length, int(self._rows[queue.index]["mtu"]))
        request = Request(int(wqe["wr_id"][0]), KINDS.get(opcode, ""), queue.next_psn, packets, (piece,))
        queue.sends.append(request)
        queue.next_psn = request.end
        if not request.kind:
            queue.sources.append(piece)
        self.transport.post_send(queue.index, wqe, self.now)

    def post_receive(self, queue: Queue, pieces: list[tuple[Region, int, int]]) -> None:
        """Post a receive request. pieces: (region, offset in it, length)."""
        wqe = np.zeros(1, RECEIVE_WQE)
        wqe["wr_id"], wqe["sge_count"] = self._new(), len(pieces)
        known = []
        for number, (region, offset, length) in enumerate(pieces):
            wqe["sge"][0, number] = (region.address + offset, length, region.key)
            may_write = region.domain == queue.domain and bool(self.memory.rights[region.key] & Access.LOCAL_WRITE)
            known.append(Piece(region.place + offset, length, may_write))
        receives = queue.receives if queue.shared is None else queue.shared.receives
        receives.append(Receive(int(wqe["wr_id"][0]), tuple(known)))
        if queue.shared is None:
            has_room = self.transport.post_receive(queue.index, wqe, self.now)
        else:
            has_room = self.transport.post_shared(queue.shared.index, wqe, self.now)
        if not has_room:
            raise Violated("a receive request finds no room")

    def has_room(self, queue: Queue) -> bool:
        """Whether a receive request can be posted. Requests taken from a shared queue count."""
        if queue.shared is None:
            return len(queue.receives) < DEPTH
        taken = sum(len(other.receives) for other in self.queues.values() if other.shared is queue.shared)
        return len(queue.shared.receives) + taken < DEPTH

    def _new(self) -> int:
        self.posted += 1
        self._open.add(self.posted)
        return self.posted

    # Events

    def arrive(self, data: bytes, source: int) -> str:
        """A packet arrives. Returns the name under which it was counted, "" if it was taken."""
        counters, state = self._counters.copy(), self._state.copy()
        try:
            expected = expect(self.queues, self._rows, self.memory, data, source, self.address)
        except (IndexError, StopIteration):
            raise Violated("packets are under way that no request has") from None
        buffer = np.frombuffer(data, np.uint8)
        self.transport.packet(int(buffer.ctypes.data), len(data), source, self.now)
        reason = self._reason(counters)
        if reason not in expected.reasons:
            raise Violated(f"counted as {reason or 'taken'}, not as {expected.reasons[0] or 'taken'}")
        if not expected.may_change and not np.array_equal(state, self._state):
            raise Violated(f"a packet that is dropped ({reason}) has changed the state of the device")
        completions = self._perform(self.transport.take_actions())
        if completions != expected.completions:
            raise Violated(f"completions (wr_id, status) {completions}, not {expected.completions}")
        self._check_memory()
        self.counts[reason] = self.counts.get(reason, 0) + 1
        return reason

    def _reason(self, before: np.ndarray) -> str:
        """The one counter of the last packet. Packets that a queue pair takes are counted as taken, too."""
        grown = {
            Counter(int(index)): int(self._counters[index] - before[index])
            for index in np.flatnonzero(self._counters != before)
        }
        reasons = [counter for counter in grown if counter in REASONS]
        taken = grown.get(Counter.RX_PACKETS, 0)
        is_for_nobody = len(reasons) == 1 and reasons[0] in BEFORE_QUEUE_PAIR
        if sum(grown[counter] for counter in reasons) > 1 or taken != 1 - is_for_nobody:
            raise Violated(f"one packet is counted as {sorted(counter.name for counter in grown)}")
        if reasons:
            return REASONS[reasons[0]]
        return "duplicates" if Counter.DUPLICATES in grown else ""

    def serve(self) -> None:
        """Give turns to the queue pairs until all are idle."""
        while self.transport.serve(self.now, 1):
            self._explain(self._perform(self.transport.take_actions()), set())

    def tick(self, elapsed: int) -> None:
        self.now += elapsed
        exhausted = {queue.index for queue in self.queues.values() if not self._rows[queue.index]["retries_left"]}
        self.transport.tick(self.now)
        self._explain(self._perform(self.transport.take_actions()), exhausted)

    def _explain(self, completions: list[tuple[int, int]], exhausted: set[int]) -> None:
        """Check completions that no packet has caused: sent requests of UC and UD, time-outs, and flushed ones, in
        order.
        exhausted: rows of queue pairs that had no retries left."""
        for wr_id, status in completions:
            queue = next((q for q in self.queues.values() if wr_id in (_first(q.sends), _first(q.receives))), None)
            if queue is None:
                raise Violated(f"completion of the request {wr_id} out of order")
            state, is_send = self.state(queue), wr_id == _first(queue.sends)
            is_right = status == CompletionStatus.WR_FLUSH_ERR and (
                state == State.ERR or (is_send and state == State.SQE)
            )
            if is_send and queue.kind != Service.RC:
                is_right |= status in (CompletionStatus.SUCCESS, CompletionStatus.LOC_PROT_ERR)
            if is_send and queue.index in exhausted:
                is_right |= status == CompletionStatus.RETRY_EXC_ERR
            if not is_right:
                raise Violated(f"the request {wr_id} ends with status {status} without a cause")
            (queue.sends if is_send else queue.receives).popleft()

    def check_sum(self, given: int) -> None:
        """Check that the counters of packets amount to the packets that have arrived."""
        counted = int(self._counters[Counter.RX_PACKETS]) + int(self._counters[BEFORE_QUEUE_PAIR].sum())
        if counted != given or sum(self.counts.values()) != given:
            raise Violated(f"{given} packets have arrived, {counted} are counted")
        if self._counters[Counter.ACTION_OVERFLOW]:
            raise Violated("the table of actions was full")
        waiting = {receive.wr_id for receive in self.shared.receives} if self.shared else set()
        if len(waiting) != self._waiting() or not waiting <= self._open:
            raise Violated(f"{self._waiting()} requests wait in a shared queue, not {sorted(waiting)}")
        if self._open - waiting and not any(queue.sends or queue.receives for queue in self.queues.values()):
            raise Violated(f"requests that have never ended: {sorted(self._open)}")

    def _waiting(self) -> int:
        row = self.transport.tables["shared_queues"][0]
        return (int(row["tail"]) - int(row["head"])) % (1 << 32)

    # What the device does

    def _perform(self, actions: np.ndarray) -> list[tuple[int, int]]:
        """Perform actions in the order that the transport demands. Returns the completions."""
        rows = actions.tolist()
        for row in rows:
            self._change_memory(row)
        for number, row in enumerate(rows):
            if row[KIND] == ActionKind.SEND:
                self._send(rows, number)
        completions = [(row[WR_ID], row[STATUS]) for row in rows if row[KIND] == ActionKind.COMPLETE]
        for wr_id, _ in completions:
            if wr_id not in self._open:
                raise Violated(f"the request {wr_id} ends twice")
            self._open.discard(wr_id)
            self.ended += 1
        return completions

    def _place(self, address: int, length: int) -> int:
        """The place in the memory's array. Raises Violated for an address outside of it."""
        place = address - self.memory.start
        if not 0 <= place <= len(self.memory.bytes) - length:
            raise Violated(f"{length} bytes at {place} of the memory, which has {len(self.memory.bytes)}")
        return place

    def _change_memory(self, row: tuple) -> None:
        memory = self.memory.bytes
        if row[KIND] == ActionKind.WRITE:
            place = self._place(row[PLACE], row[LENGTH])
            data = ctypes.string_at(row[PAYLOAD], row[LENGTH])
            memory[place : place + row[LENGTH]] = np.frombuffer(data, np.uint8)
        elif row[KIND] in (ActionKind.COMPARE_SWAP, ActionKind.FETCH_ADD):
            place = self._place(row[PLACE], ATOMIC_BYTES)
            found = int.from_bytes(memory[place : place + ATOMIC_BYTES].tobytes(), "little")
            ctypes.memmove(row[PAYLOAD], found.to_bytes(ATOMIC_BYTES, "big"), ATOMIC_BYTES)
            value = found + row[OPERAND] if row[KIND] == ActionKind.FETCH_ADD else row[OPERAND]
            if row[KIND] == ActionKind.FETCH_ADD or found == row[COMPARE]:
                word = (value % (1 << 64)).to_bytes(ATOMIC_BYTES, "little")
                memory[place : place + ATOMIC_BYTES] = np.frombuffer(word, np.uint8)

    def _check_memory(self) -> None:
        if not self.memory.is_as_expected():
            raise Violated(f"{self.memory.first_difference()} is not what it must be")

    def _send(self, rows: list[tuple], number: int) -> None:
        """Put a packet together; its payload must be memory that the queue pair may read."""
        row = rows[number]
        queue = next(queue for queue in self.queues.values() if queue.index == row[QUEUE_PAIR])
        header = bytes(row[HEADER])[: row[HEADER_LENGTH]]
        bth, payload = unpack(BTH, header), b""
        for piece in rows[number:]:
            if piece is not row and piece[KIND] != ActionKind.PIECE:
                break
            if piece[LENGTH]:
                self._check_read(queue, bth, piece, row[OF_REQUEST], len(payload))
                payload += ctypes.string_at(piece[PAYLOAD], piece[LENGTH])
        if OPCODES[bth["opcode"]].operation == Operation.ATOMIC_ACKNOWLEDGE and payload != queue.originals.get(
            bth["psn"]
        ):
            raise Violated(f"an atomic is answered with {payload.hex()}, which it has not found")
        self.sent.append(Sent(queue.index, row[DESTINATION], header + payload + bytes(-len(payload) % 4)))

    def _check_read(self, queue: Queue, bth: dict[str, int], row: tuple, of_request: int, offset: int) -> None:
        """Check that a piece of payload is what the packet must carry."""
        address, length = row[PAYLOAD], row[LENGTH]
        operation = OPCODES[bth["opcode"]].operation
        if operation == Operation.ATOMIC_ACKNOWLEDGE:
            start = int(self._originals.ctypes.data)
            if length != ATOMIC_BYTES or not start <= address <= start + self._originals.nbytes - length:
                raise Violated("the answer to an atomic is read from elsewhere")
            return
        place = self._place(address, length)
        if operation == Operation.READ_RESPONSE:
            mtu = int(self._rows[queue.index]["mtu"])
            is_granted = any(
                place == read.place + distance(bth["psn"], read.first) * mtu + offset
                and place + length <= read.place + read.length
                for read in queue.reads
            )
        else:
            is_granted = bool(of_request) and any(
                source.place <= place and place + length <= source.place + source.length for source in queue.sources
            )
        if not is_granted:
            raise Violated(f"{length} bytes at {place} of the memory are sent, which the other side may not read")


def _first(requests: object) -> int:
    return requests[0].wr_id if requests else 0  # type: ignore[index]
