"""The transport as an object: one arena, events as methods, actions as an array.

    transport = Transport("127.0.0.2")
    index = transport.create_queue_pair(Service.RC, send_cq=0, receive_cq=0, domain=1)
    transport.packet(address_of_bth, length, source, now)
    for action in transport.take_actions(): ...

The simulator and the tests use it; the daemon calls the same machine code, `events`, on `transport.base`. Rare requests
(queue pairs, regions) are handled here, in Python. Record 0057: why ordinary traffic has an engine of its own.
"""

import ipaddress
from typing import NamedTuple

import numpy as np

from fanin_nic.native.arena import Arena
from fanin_nic.transport import events, queue_pairs
from fanin_nic.transport.memory import KEY_BITS
from fanin_nic.transport.queue_pairs import AttributesInvalid, QueuePairNumbers
from fanin_nic.transport.records.accessors import NEVER
from fanin_nic.transport.records.tables import COUNTERS, QUEUE_PAIR, RESPONSES, SHARED_QUEUE, TABLES, TRANSPORT, Counter
from fanin_wire.rocev2 import GRH_SIZE, PATH_MTUS, TIMEOUT_UNIT_NS
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import MAX_RD_ATOMIC, Access, Attribute, QueuePairState

IDENTITY = ("qpn", "index", "kind", "all_signaled", "is_ready", "domain", "send_cq", "receive_cq", "shared_queue")


class TableFull(Exception):
    """A table of the transport has no free row; the message names it."""


class SharedQueueInUse(Exception):
    """Queue pairs receive from this shared receive queue."""


class KeyUnknown(Exception):
    """No region has this key."""


class Limits(NamedTuple):
    """Sizes of a transport's tables. Queue pairs and queues have powers of two."""

    queue_pairs: int = 256
    send_depth: int = 256
    receive_depth: int = 256
    shared_queues: int = 64
    shared_depth: int = 4096
    regions: int = 1024
    actions: int = 4096
    window: int = 256


def _rows(limits: Limits) -> dict[str, int]:
    return {
        "queue_pairs": limits.queue_pairs,
        "ready": limits.queue_pairs,
        "sends": limits.queue_pairs * limits.send_depth,
        "receives": limits.queue_pairs * limits.receive_depth,
        "shared_queues": limits.shared_queues,
        "shared_receives": limits.shared_queues * limits.shared_depth,
        "responses": limits.queue_pairs * RESPONSES,
        "originals": limits.queue_pairs * MAX_RD_ATOMIC,
        "regions": limits.regions,
        "actions": limits.actions,
        "packets": 2,  # the received one, and the one being built
        "network_headers": (limits.actions + 1) * GRH_SIZE,
        "counters": COUNTERS,
    }


class Transport(Arena):
    """The transport of one device.

    address: IPv4 of the device. mtu: bytes of the longest datagram of its port. incarnation: where the numbers of queue
    pairs begin. `header`: the TRANSPORT record.
    """

    def __init__(
        self, address: str, *, limits: Limits | None = None, mtu: int = PATH_MTUS[-1], incarnation: int = 1
    ) -> None:
        self.mtu = mtu
        self.limits = limits or Limits()
        if self.limits.actions < 2 * self.limits.send_depth + 64:
            raise ValueError("too few actions: one acknowledgement can complete a whole send queue")
        super().__init__(TRANSPORT, TABLES, _rows(self.limits))
        self.header["address"] = int(ipaddress.IPv4Address(address))
        self.header["next_deadline"] = NEVER
        for name, value in self.limits._asdict().items():
            self.header[name] = value
        self._numbers = QueuePairNumbers(self.limits.queue_pairs, incarnation)

    # Queue pairs

    def create_queue_pair(
        self,
        kind: Service,
        *,
        send_cq: int,
        receive_cq: int,
        domain: int,
        all_signaled: bool = False,
        shared_queue: int | None = None,
    ) -> int:
        """Make a queue pair in state RESET; returns its row, whose member `qpn` is its number.

        shared_queue: row of the shared receive queue that it receives from; None: its own queue.

        Raises TableFull: no row is free; AttributesInvalid: the protection domain has no such shared queue.
        """
        if shared_queue is not None and not self._is_shared_queue(shared_queue, domain):
            raise AttributesInvalid(f"no shared receive queue {shared_queue} is in the protection domain {domain}")
        free = np.flatnonzero(self.tables["queue_pairs"]["qpn"] == 0)
        if free.size == 0:
            raise TableFull("queue pairs")
        index = int(free[0])
        row = self.tables["queue_pairs"][index]
        is_ready = row["is_ready"]  # the list of the ready may still have an entry of the row's last use
        self.tables["queue_pairs"][index] = np.zeros((), QUEUE_PAIR)
        row["qpn"], row["index"], row["kind"] = self._numbers.number_of(index), index, kind
        row["send_cq"], row["receive_cq"], row["domain"] = send_cq, receive_cq, domain
        row["all_signaled"], row["is_ready"] = all_signaled, is_ready
        row["shared_queue"] = 0 if shared_queue is None else shared_queue + 1
        self._reset(index)
        self.header["queue_pair_end"] = max(int(self.header["queue_pair_end"]), index + 1)
        return index

    def destroy_queue_pair(self, index: int) -> None:
        """End a queue pair. Its requests have no completions; one taken of a shared queue goes back."""
        events.give_back(self.base, index)
        self.tables["queue_pairs"][index]["qpn"] = 0

    def modify(self, index: int, state: QueuePairState, now: int, values: dict[Attribute, int] | None = None) -> None:
        """Change the state and the attributes of the queue pair in row `index`, as `ibv_modify_qp`.

        state: the new state. now: time in ns. values: the other attributes; AV is the IPv4 address of the other side,
        PATH_MTU is in bytes. Raises AttributesInvalid: verbs does not allow this change.
        """
        row, values = self.tables["queue_pairs"][index], values or {}
        before = QueuePairState(int(row["state"]))
        queue_pairs.check_change(Service(int(row["kind"])), before, state, values)
        if values.get(Attribute.CUR_STATE, before) not in (before, QueuePairState.RTS):
            raise AttributesInvalid(f"the queue pair is in {before.name}")
        for attribute, value in values.items():
            if member := queue_pairs.VALUES[attribute][0]:
                row[member] = _in_units(attribute, value)
        if state == QueuePairState.RESET:
            self._reset(index)
        elif state == QueuePairState.ERR:
            events.fail(self.base, index, now)
        else:
            row["state"] = state
        if Attribute.SQ_PSN in values:
            row["unacknowledged"] = row["end_psn"] = row["next_psn"]
        row["retries_left"], row["rnr_left"] = row["retry_count"], row["rnr_retry"]
        events.wake(self.base, index, now)

    def query(self, index: int) -> tuple[QueuePairState, dict[Attribute, int]]:
        """State of a queue pair, and its modifiable attributes, in the units of `modify`."""
        row = self.tables["queue_pairs"][index]
        known = {attribute: member for attribute, (member, _) in queue_pairs.VALUES.items() if member}
        values = {attribute: int(row[member]) for attribute, member in known.items()}
        values[Attribute.TIMEOUT] = (values[Attribute.TIMEOUT] // TIMEOUT_UNIT_NS).bit_length()
        values[Attribute.TIMEOUT] -= 1 if values[Attribute.TIMEOUT] else 0
        return QueuePairState(int(row["state"])), values

    def _reset(self, index: int) -> None:
        """Bring a queue pair into RESET. Its requests have no completions; one taken of a shared queue goes back."""
        events.give_back(self.base, index)
        row = self.tables["queue_pairs"][index]
        identity = {name: row[name].item() for name in IDENTITY}
        self.tables["queue_pairs"][index] = np.zeros((), QUEUE_PAIR)
        for name, value in identity.items():
            row[name] = value
        row["mtu"] = self.mtu  # of a path; datagrams have none
        row["deadline"] = NEVER
        row["limit"] = self.limits.window
        self.tables["originals"][index * MAX_RD_ATOMIC : (index + 1) * MAX_RD_ATOMIC]["is_set"] = 0

    def queue_pair(self, index: int) -> np.void:
        return self.tables["queue_pairs"][index]

    # Shared receive queues

    def create_shared_queue(self, *, domain: int, room: int | None = None) -> int:
        """Make a shared receive queue; returns its row.

        domain: protection domain, also of its queue pairs. room: requests that it may hold; by default
        `limits.shared_depth`. Raises TableFull: no row is free; AttributesInvalid: too many requests.
        """
        room = self.limits.shared_depth if room is None else room
        if not 0 < room <= self.limits.shared_depth:
            raise AttributesInvalid(f"a shared receive queue has 1 to {self.limits.shared_depth} requests, not {room}")
        table = self.tables["shared_queues"]
        free = np.flatnonzero(table["is_used"] == 0)
        if free.size == 0:
            raise TableFull("shared receive queues")
        index = int(free[0])
        table[index] = np.zeros((), SHARED_QUEUE)
        table[index]["is_used"], table[index]["index"] = 1, index
        table[index]["domain"], table[index]["room"] = domain, room
        return index

    def destroy_shared_queue(self, index: int) -> None:
        """End a shared receive queue without completions. SharedQueueInUse: a queue pair receives from it."""
        pairs = self.tables["queue_pairs"]
        if users := int(np.count_nonzero((pairs["qpn"] != 0) & (pairs["shared_queue"] == index + 1))):
            raise SharedQueueInUse(f"{users} queue pairs receive from the shared receive queue {index}")
        self.tables["shared_queues"][index]["is_used"] = 0

    def _is_shared_queue(self, index: int, domain: int) -> bool:
        """Whether a protection domain has such a shared receive queue."""
        if not 0 <= index < self.limits.shared_queues:
            return False
        row = self.tables["shared_queues"][index]
        return bool(row["is_used"]) and int(row["domain"]) == domain

    # Memory

    def register(
        self,
        start: int,
        length: int,
        access: Access,
        *,
        domain: int,
        tag: int,
        mapped: int | None = None,
        process: int = 0,
    ) -> int:
        """Register a region; returns its key, local and remote.

        start: the client's address. length: bytes. access: rights beside local reading. domain: protection domain. tag:
        16 random bits of the key, from 1 on. mapped: address in the device, by default `start`. process: 0: mapped;
        else 1 + the client whose process memory it is. Raises TableFull: no row is free; ValueError: the tag is 0 or
        too long.
        """
        if not 0 < tag < 1 << KEY_BITS:
            raise ValueError(f"the tag of a key is {tag:#x}: give a random number from 1 to {(1 << KEY_BITS) - 1:#x}")
        free = np.flatnonzero(self.tables["regions"]["key"] == 0)
        if free.size == 0:
            raise TableFull("regions")
        index = int(free[0])
        key = index << KEY_BITS | tag
        mapped = start if mapped is None else mapped
        self.tables["regions"][index] = (start, length, mapped, key, domain, access, process)
        return key

    def deregister(self, key: int) -> None:
        """Forget a region: packets and requests with its key are refused from now on. Raises KeyUnknown."""
        index = key >> KEY_BITS
        if not key or index >= self.limits.regions or self.tables["regions"][index]["key"] != key:
            raise KeyUnknown(f"no region has the key {key:#x}")
        self.tables["regions"][index]["key"] = 0

    # Events

    def packet(self, address: int, length: int, source: int, now: int) -> None:
        """A packet with a right ICRC. address: of its BTH; length: bytes from there to the ICRC; source: IPv4."""
        events.packet(self.base, address, length, source, now)

    def post_send(self, index: int, wqe: np.ndarray, now: int) -> bool:
        """A request to send: one element of SEND_WQE; returns whether there was room."""
        return bool(events.post_send(self.base, index, wqe.ctypes.data, now))

    def post_receive(self, index: int, wqe: np.ndarray, now: int) -> bool:
        """A request to receive: one element of RECEIVE_WQE; returns whether there was room."""
        return bool(events.post_receive(self.base, index, wqe.ctypes.data, now))

    def post_shared(self, index: int, wqe: np.ndarray, now: int) -> bool:
        """A request to a shared receive queue: one element of RECEIVE_WQE; returns whether there was room."""
        return bool(events.post_shared(self.base, index, wqe.ctypes.data, now))

    def serve(self, now: int, turns: int = 1 << 30) -> int:
        """Give turns to the queue pairs with work; returns how many had one."""
        return int(events.serve(self.base, turns, now))

    def tick(self, now: int) -> None:
        """Time has passed; useful from `next_deadline` on."""
        events.tick(self.base, now)

    # Results

    def take_actions(self) -> np.ndarray:
        """A copy of the actions; empties the table."""
        taken = self.tables["actions"][: int(self.header["action_count"])].copy()
        self.header["action_count"] = 0
        return taken

    def counters(self) -> dict[str, int]:
        return {counter.name.lower(): int(self.tables["counters"][counter]) for counter in Counter}


def _in_units(attribute: Attribute, value: int) -> int:
    """An attribute as the table keeps it: a time-out in ns."""
    if attribute == Attribute.TIMEOUT:
        return TIMEOUT_UNIT_NS << value if value else 0
    return int(value)
