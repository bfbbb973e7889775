"""What a device posts to a client's queue pair over RDMA: READs and markers. The test makes the completions."""

import ctypes
import socket
from collections.abc import Sequence

import numpy as np
import pytest

from fanin_nic.engine.records.actions import ACTION, READ_BYTES
from fanin_nic.hostif.remote import queue_pair, transfer
from fanin_nic.hostif.remote.queue_pair import (
    ALL_SLOTS,
    MAX_WAITING_READS,
    RDMA_REQUEST,
    READ_SLOTS,
    REMOTE,
    REMOTE_REGION,
    remote_at,
)
from fanin_nic.hostif.rings import CQ_DEPTH, CQE_BYTES, ENTRIES, PRODUCER
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import record_at
from fanin_nic.port.verbs.records import COMPLETION
from fanin_wire.abi import MARKER, Access, Status

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
KEPT, TAKEN_BACK = 0x10000, 0x20000  # where two regions of the client begin

action_at = record_at(ACTION)


@compiled
def begin_read(remote, action):
    return transfer.begin_read(remote_at(remote), action_at(action))


@compiled
def reap(remote):
    return queue_pair.reap(remote_at(remote))


@compiled
def take_read(remote):
    return transfer.take_read(remote_at(remote))


@compiled
def free_slot(remote, slot):
    transfer.free_slot(remote_at(remote), slot)


@compiled
def post_waiting(remote):
    return transfer.post_waiting(remote_at(remote))


class Client:
    """posted: addresses of the requests to the queue pair, in order; messages: opcode and immediate data of each."""

    def __init__(self) -> None:
        self.posted: list[int] = []
        self.messages: list[tuple[int, int]] = []
        self._completed: list[int] = []
        self._kept = [FUNCTION(self._post), FUNCTION(self._poll)]
        self._regions = np.zeros(2, REMOTE_REGION)
        self._regions[:] = [(start, READ_BYTES, 1, int(Access.READ)) for start in (KEPT, TAKEN_BACK)]
        self._tables = [np.zeros(count, ACTION) for count in (READ_SLOTS, MAX_WAITING_READS)]
        self._record = np.zeros(1, REMOTE)
        members = {
            "post_send": ctypes.cast(self._kept[0], ctypes.c_void_p).value,
            "poll": ctypes.cast(self._kept[1], ctypes.c_void_p).value,
            "regions": self._regions.ctypes.data,
            "region_count": 2,
            "reads": self._tables[0].ctypes.data,
            "waiting": self._tables[1].ctypes.data,
            "free_reads": ALL_SLOTS,
        }
        for name, value in members.items():
            self._record[name] = value
        self.address = self._record.ctypes.data

    def _post(self, _queue_pair: int, request: int, _bad: int) -> int:
        given = np.frombuffer(ctypes.string_at(request, RDMA_REQUEST.itemsize), RDMA_REQUEST)
        self.posted.append(int(given[0]["address"]))
        self.messages.append((int(given[0]["opcode"]), int(given[0]["immediate"])))
        return 0

    def _poll(self, _queue: int, _most: int, place: int) -> int:
        found = np.zeros(len(self._completed), COMPLETION)
        found["number"] = [int(queue_pair.HAS_READ) << int(queue_pair.KIND) | slot for slot in self._completed]
        ctypes.memmove(place, found.ctypes.data, found.nbytes)
        self._completed.clear()
        return len(found)

    def read(self, address: int) -> int:
        """Begin a READ of one byte."""
        action = np.zeros(1, ACTION)
        action["remote"], action["length"] = address, 1
        return int(begin_read(self.address, action.ctypes.data))

    def complete(self, slots: Sequence[int]) -> None:
        """The data of READs have come, and the loop looks."""
        self._completed += slots
        reap(self.address)

    def store_completions(self, count: int) -> None:
        """Store so many completions in completion ring 0."""
        self._ring = np.zeros(int(ENTRIES + CQ_DEPTH * CQE_BYTES), np.uint8)
        self._ring[int(PRODUCER) : int(PRODUCER) + 4].view("u4")[:] = count
        self._sent = np.zeros(1, np.uint32)
        for name, value in {"region": self._ring.ctypes.data, "sent": self._sent.ctypes.data, "cq_end": 1}.items():
            self._record[name] = value

    def take_back(self) -> None:
        """The second region is deregistered."""
        self._record["region_count"] = 1


@pytest.fixture
def client() -> Client:
    return Client()


def test_data_that_come_while_others_are_used(client: Client) -> None:
    """Their slot is lower; they are delivered, too."""
    assert [client.read(KEPT + number) for number in range(2)] == [Status.PENDING] * 2
    client.complete([1])
    assert take_read(client.address) == 1
    client.complete([0])
    free_slot(client.address, 1)
    assert take_read(client.address) == 0
    free_slot(client.address, 0)
    assert take_read(client.address) == transfer.NOWHERE


def test_reads_behind_one_whose_memory_is_gone(client: Client) -> None:
    """They do not wait for ever."""
    first = [KEPT + number for number in range(READ_SLOTS)]
    behind = [TAKEN_BACK, TAKEN_BACK + 1, KEPT + READ_SLOTS]
    assert {client.read(address) for address in first + behind} == {Status.PENDING}
    assert client.posted == first
    client.take_back()
    client.complete([3])
    free_slot(client.address, take_read(client.address))
    for _ in range(2):
        refused, status = post_waiting(client.address)
        assert refused
        assert status == Status.LOCAL_PROTECTION_ERROR
    assert post_waiting(client.address) == (0, Status.PENDING)
    assert client.posted == [*first, behind[-1]]


def test_marker_is_behind_all_that_was_stored(client: Client) -> None:
    """It follows completions that the loop has not sent on yet."""
    client.store_completions(3)
    transfer.post_marker(client.address)
    transfer.post_marker(client.address)
    of_ring = socket.htonl(0 << 16 | 3)
    assert client.messages == [(queue_pair.WRITE_WITH_IMMEDIATE, each) for each in (of_ring, MARKER, MARKER)]
