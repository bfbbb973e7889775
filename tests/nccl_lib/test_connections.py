"""The connections between two ranks: order, lengths, 32 requests, strangers, an end that goes away."""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder
from tests.nccl_lib.plugin import INT, POINTER, REMOTE_ERROR, SIZE, VERSIONS, Interface, Refused

pytestmark = pytest.mark.process
MAX_REQUESTS = 32
ADDRESS_OF_HANDLE = struct.Struct("=16x4sH")  # the port in network order


@pytest.fixture(scope="module")
def nic() -> Iterator[None]:
    """A NIC, by its socket in the environment."""
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        running = Bench("ncclp").up(Shape(nodes=1))
        patch.setenv("FANIN_SOCKET", str(running.state.socket(running.fabric.nics[0].name)))
        assert os.environ["FANIN_SOCKET"]
        yield


class Pair:
    """A sender and a receiver."""

    def __init__(self, version: int, before: object = None) -> None:
        self.net = Interface("ncclNet", version)
        raw, listener = self.net.listen()
        if callable(before):
            before(raw)
        handle = ctypes.create_string_buffer(raw)
        self.sender, self.receiver = POINTER(), POINTER()
        config = [POINTER()] if version == 10 else []
        to = [*self.net.context(), INT(0), *config, handle]
        while not self.sender:
            self.net.call("connect", *to, ctypes.byref(self.sender), POINTER())
        while not self.receiver:
            self.net.call("accept", listener, ctypes.byref(self.receiver), POINTER())
        self.net.call("closeListen", listener)

    def send(self, data: np.ndarray) -> ctypes.c_void_p:
        size = INT(data.nbytes) if self.net.version == 8 else SIZE(data.nbytes)
        profiler = [POINTER()] if self.net.version >= 10 else []
        request = POINTER()
        about = (POINTER(data.ctypes.data), size, INT(0), POINTER())
        self.net.call("isend", self.sender, *about, *profiler, ctypes.byref(request))
        return request

    def receive(self, room: np.ndarray) -> ctypes.c_void_p:
        kind = INT if self.net.version == 8 else SIZE
        profiler = [POINTER()] if self.net.version >= 10 else []
        request = POINTER()
        data, size, tag = (POINTER * 1)(room.ctypes.data), (kind * 1)(room.nbytes), (INT * 1)(0)
        about = (INT(1), data, size, tag, (POINTER * 1)())
        self.net.call("irecv", self.receiver, *about, *profiler, ctypes.byref(request))
        return request


@pytest.mark.usefixtures("nic")
@pytest.mark.parametrize("version", VERSIONS)
def test_messages_come_in_order(version: int) -> None:
    pair = Pair(version)
    sent = [np.full(size, number, np.uint8) for number, size in enumerate((0, 1, 1000, 1 << 20))]
    got = [np.zeros(1 << 20, np.uint8) for _ in sent]
    receiving, sending = [pair.receive(room) for room in got], [pair.send(data) for data in sent]
    sizes: list[int | None] = [None] * len(sent)
    while None in sizes:
        for number in range(len(sent)):
            if sending[number] and pair.net.test(sending[number]) is not None:
                sending[number] = POINTER()
            if sizes[number] is None:
                sizes[number] = pair.net.test(receiving[number])
    assert sizes == [data.nbytes for data in sent]
    assert all(np.array_equal(room[: data.size], data) for data, room in zip(sent, got, strict=True))


@pytest.mark.usefixtures("nic")
def test_no_more_than_the_most_requests() -> None:
    pair, data = Pair(VERSIONS[-1]), np.zeros(8, np.uint8)
    requests = [pair.receive(data) for _ in range(MAX_REQUESTS)]
    assert all(requests)
    assert not pair.receive(data)
    pair.net.wait(pair.send(data))
    pair.net.wait(requests[0])
    assert pair.receive(data)


@pytest.mark.usefixtures("nic")
@pytest.mark.parametrize("said", [b"", b"x", bytes(64)], ids=["silent", "short", "long"])
@pytest.mark.parametrize("count", [1, 40])
def test_strangers_are_left_out(said: bytes, count: int) -> None:
    """Those that wait without a word, too, and more of them than there are places."""
    strangers = []

    def intrude(handle: bytes) -> None:
        address, port = ADDRESS_OF_HANDLE.unpack_from(handle)
        for _ in range(count):
            one = socket.create_connection((socket.inet_ntoa(address), socket.ntohs(port)))
            one.sendall(said)
            strangers.append(one)

    pair, data, room = Pair(VERSIONS[-1], intrude), np.full(4, 9, np.uint8), np.zeros(4, np.uint8)
    receiving = pair.receive(room)
    pair.net.wait(pair.send(data))
    assert pair.net.wait(receiving) == 4
    assert np.array_equal(room, data)
    for one in strangers:
        one.close()


@pytest.mark.usefixtures("nic")
def test_nobody_listens_any_more() -> None:
    net = Interface("ncclNet", VERSIONS[-1])
    raw, listener = net.listen()
    net.call("closeListen", listener)
    handle, sender = ctypes.create_string_buffer(raw), POINTER()

    def connect() -> None:
        while not sender:
            net.call("connect", *net.context(), INT(0), handle, ctypes.byref(sender), POINTER())

    with pytest.raises(Refused, match="connecting to another rank: Connection refused"):
        connect()


@pytest.mark.usefixtures("nic")
def test_an_end_that_goes_away_and_a_message_that_is_too_long() -> None:
    pair, room = Pair(VERSIONS[-1]), np.zeros(4, np.uint8)
    receiving = pair.receive(room)
    pair.net.call("closeSend", pair.sender)
    with pytest.raises(Refused, match="connection to another rank") as refused:
        pair.net.wait(receiving)
    assert refused.value.result == REMOTE_ERROR
    pair = Pair(VERSIONS[-1])
    receiving = pair.receive(room)
    pair.net.wait(pair.send(np.zeros(5, np.uint8)))
    with pytest.raises(Refused, match="a message of 5 bytes has come where 4 were asked for"):
        pair.net.wait(receiving)
