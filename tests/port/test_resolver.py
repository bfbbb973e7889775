"""The resolver learns a queue pair only from the device that it has asked."""

import contextlib
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from fanin_nic.port.descriptors import DESTINATION, PEER, PEER_SLOTS
from fanin_nic.port.verbs.events import Event
from fanin_nic.port.verbs.interface import VerbsFailed
from fanin_nic.port.verbs.records import VERBS
from fanin_nic.port.verbs.resolver import RECOVERY_SECONDS, Resolver
from fanin_wire.resolution import RESOLUTION_PORT, Kind, Message, decode, encode
from tests.waiting import BOUND_S

ROW, LANE, PORT = 5, 0, 1
GROUP = "239.77.0.1"
HANDLE = 77


class Asker:
    """A resolver with a nominal queue pair and one other device in its table."""

    def __init__(self, address: str, other: str, number: int) -> None:
        self.record, self.destinations = np.zeros(1, VERBS), np.zeros(PEER_SLOTS + 1, DESTINATION)
        self.peers = np.zeros(PEER_SLOTS + 1, PEER)
        self.peers["address"][ROW] = int(ipaddress.IPv4Address(other))
        self.wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.async_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.handles: dict[str, int] = {}
        self.no_way: set[str] = set()
        self.told: list[tuple[int, int]] = []
        self.is_active, self.refusal, self.mended = True, "", threading.Semaphore(0)
        pair = SimpleNamespace(
            name="none",
            address=address,
            number=number,
            record=self.record,
            state=int(self.record.ctypes.data),
            destinations=self.destinations,
            wake_fd=self.wake_fd,
            handles=self.handles,
            address_handle=self._address_handle,
            async_fd=self.async_fd,
            port=PORT,
            events=self._take_events,
            is_active=lambda: self.is_active,
            recover=self._recover,
        )
        self.resolver = Resolver(pair, LANE, self.peers)  # type: ignore[arg-type]

    def _address_handle(self, there: str) -> int:
        if there in self.no_way:
            raise VerbsFailed(f"no way to {there}")
        return self.handles.setdefault(there, HANDLE)

    def _take_events(self) -> Iterator[tuple[int, int]]:
        os.eventfd_read(self.async_fd)
        while self.told:
            yield self.told.pop(0)

    def _recover(self) -> None:
        refusal = self.refusal
        self.record["broken"] = int(bool(refusal))
        self.mended.release()
        if refusal:
            raise VerbsFailed(refusal)

    def tell(self, event: Event) -> None:
        """As by the verbs device."""
        self.told.append((event, PORT))
        os.eventfd_write(self.async_fd, 1)

    def fail(self) -> None:
        """As by the compiled code."""
        self.record["broken"] = 1
        os.eventfd_write(self.wake_fd, 1)

    def want(self) -> None:
        """As by the compiled code."""
        self.destinations["wanted"][ROW] = 1
        os.eventfd_write(self.wake_fd, 1)

    def learnt(self, good: Callable[[int], bool]) -> int:
        """The number of the other's queue pair, when it is `good`. Until then it is wanted again, as by packets."""
        end = time.monotonic() + BOUND_S
        while not (self.destinations["handle"][ROW] and good(int(self.destinations["queue_pair"][ROW]))):
            assert time.monotonic() < end, f"it has learnt {self.destinations[ROW]}"
            if not self.destinations["handle"][ROW]:
                self.want()
            time.sleep(0.005)
        assert self.destinations["handle"][ROW] == HANDLE
        return int(self.destinations["queue_pair"][ROW])

    def close(self) -> None:
        self.resolver.close()
        os.close(self.wake_fd)
        os.close(self.async_fd)


@pytest.fixture
def ask() -> Iterator[Callable[..., Asker]]:
    with contextlib.ExitStack() as stack:

        def make(address: str, other: str, number: int = 1) -> Asker:
            made = Asker(address, other, number)
            stack.callback(made.close)
            return made

        yield make


def test_two_devices_find_each_other(addresses: Iterator[str], ask: Callable[..., Asker]) -> None:
    here, there = next(addresses), next(addresses)
    one, other = ask(here, there, 11), ask(there, here, 22)
    one.want()
    other.want()
    assert (one.learnt(bool), other.learnt(bool)) == (22, 11)


def test_device_that_starts_late_or_anew(addresses: Iterator[str], ask: Callable[..., Asker]) -> None:
    here, there = next(addresses), next(addresses)
    one = ask(here, there)
    one.want()
    other = ask(there, here, 22)
    assert one.learnt(bool) == 22
    other.resolver.close()
    anew = Asker(there, here, 33)
    one.peers["tx_packets"][ROW] += 1  # is sent, and not answered
    assert one.learnt(lambda number: number != 22) == 33
    anew.close()
    other.resolver = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]


def bound(address: str, port: int = 0) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind((address, port))
    found.settimeout(BOUND_S)
    return found


def test_answers_of_others_count_nothing(addresses: Iterator[str], ask: Callable[..., Asker]) -> None:
    here, there, elsewhere = (next(addresses) for _ in range(3))
    with bound(there, RESOLUTION_PORT) as peer, bound(there) as client, bound(elsewhere, RESOLUTION_PORT) as stranger:
        one = ask(here, there)
        one.want()
        data, to = peer.recvfrom(100)
        question = decode(data)
        assert question is not None
        assert (question.kind, question.lane, to) == (Kind.QUESTION, LANE, (here, RESOLUTION_PORT))
        peer.sendto(encode(Message(Kind.ANSWER, LANE, question.token ^ 1, 91)), to)
        peer.sendto(encode(Message(Kind.ANSWER, LANE + 1, question.token, 92)), to)
        peer.sendto(encode(Message(Kind.ANSWER, LANE, question.token, 93))[:-1], to)
        client.sendto(encode(Message(Kind.ANSWER, LANE, question.token, 94)), to)
        stranger.sendto(encode(Message(Kind.ANSWER, LANE, question.token, 95)), to)
        peer.sendto(encode(Message(Kind.ANSWER, LANE, question.token, 17)), to)
        assert one.learnt(bool) == 17
        peer.sendto(encode(Message(Kind.ANSWER, LANE, question.token, 96)), to)  # no question is open
        stranger.sendto(encode(Message(Kind.QUESTION, LANE, 5)), to)
        answer = decode(stranger.recv(100))  # behind the last one
        assert answer == Message(Kind.ANSWER, LANE, 5, 1)
        assert one.learnt(bool) == 17


def test_a_group_needs_no_answer(address: str, ask: Callable[..., Asker]) -> None:
    """Its datagrams go to the queue pair that verbs give to groups."""
    one = ask(address, GROUP)
    one.want()
    assert one.learnt(bool) == 0xFFFFFF
    assert one.handles == {GROUP: HANDLE}


def test_device_that_can_not_send_to_groups(
    addresses: Iterator[str], ask: Callable[..., Asker], caplog: pytest.LogCaptureFixture
) -> None:
    """It reports this once, for any later group, and serves others."""
    here, there = next(addresses), next(addresses)
    one, _ = ask(here, GROUP), ask(there, here, 22)
    one.no_way.add(GROUP)
    one.peers["address"][ROW + 1] = int(ipaddress.IPv4Address(there))
    for _ in range(3):
        one.destinations["wanted"][ROW + 1] = 1
        one.want()
        end = time.monotonic() + BOUND_S
        while one.destinations["wanted"].any() or not one.destinations["handle"][ROW + 1]:
            assert time.monotonic() < end
            time.sleep(0.005)
    assert not one.destinations["handle"][ROW]
    assert caplog.text.count(f"no way to {GROUP}") == 1


def test_queue_pair_is_mended_when_the_port_is_up(
    address: str, addresses: Iterator[str], ask: Callable[..., Asker], caplog: pytest.LogCaptureFixture
) -> None:
    one = ask(address, next(addresses))
    one.is_active = False
    one.tell(Event.PORT_ERR)
    one.fail()
    end = time.monotonic() + BOUND_S
    while one.resolver._recovery_pause < 3 * RECOVERY_SECONDS:  # it has looked twice
        assert time.monotonic() < end
        time.sleep(0.005)
    assert not one.mended.acquire(blocking=False)
    assert caplog.text.count("port 1 of verbs device none is down") == 1
    one.is_active = True
    one.tell(Event.PORT_ACTIVE)
    assert one.mended.acquire(timeout=BOUND_S)
    one.fail()
    assert one.mended.acquire(timeout=BOUND_S)
    assert caplog.text.count("port 1 of verbs device none is up again") == 1
    assert one.resolver.watch.status()["port"] == "active"


def test_queue_pair_that_stays_down_is_named_once(
    address: str, addresses: Iterator[str], ask: Callable[..., Asker], caplog: pytest.LogCaptureFixture
) -> None:
    one = ask(address, next(addresses))
    one.refusal = "no such device"
    one.fail()
    for _ in range(3):
        assert one.mended.acquire(timeout=BOUND_S)  # it was tried
    one.refusal = ""
    while one.record["broken"]:
        assert one.mended.acquire(timeout=BOUND_S)
    said = "the queue pair on none has failed (status 0) and stays down: no such device; restart this device when"
    assert caplog.text.count(said) == 1
