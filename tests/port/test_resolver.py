"""The resolver learns a queue pair from the device that it has asked, and from nobody else."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from fanin_nic.port.descriptors import DESTINATION, PEER, PEER_SLOTS
from fanin_nic.port.verbs.records import VERBS
from fanin_nic.port.verbs.resolver import Resolver
from fanin_wire.resolution import RESOLUTION_PORT, Kind, Message, decode, encode

SECONDS = 30.0
ROW, LANE = 5, 0
HANDLE = 77


class Asker:
    """A resolver, whose queue pair is one in name only, with one other device in its table."""

    def __init__(self, address: str, other: str, number: int) -> None:
        self.record, self.destinations = np.zeros(1, VERBS), np.zeros(PEER_SLOTS + 1, DESTINATION)
        self.peers = np.zeros(PEER_SLOTS + 1, PEER)
        self.peers["address"][ROW] = int(ipaddress.IPv4Address(other))
        self.wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.handles: dict[str, int] = {}
        pair = SimpleNamespace(
            name="none",
            address=address,
            number=number,
            record=self.record,
            state=int(self.record.ctypes.data),
            destinations=self.destinations,
            wake_fd=self.wake_fd,
            handles=self.handles,
            address_handle=lambda there: self.handles.setdefault(there, HANDLE),
        )
        self.resolver = Resolver(pair, LANE, self.peers)  # type: ignore[arg-type]

    def want(self) -> None:
        """As the compiled code does it."""
        self.destinations["wanted"][ROW] = 1
        os.eventfd_write(self.wake_fd, 1)

    def learnt(self, good: Callable[[int], bool]) -> int:
        """The number of the other's queue pair, when it is `good`. Until there is one, it is wanted again and again, as
        packets do it."""
        end = time.monotonic() + SECONDS
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
    found.settimeout(SECONDS)
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
        peer.sendto(encode(Message(Kind.ANSWER, LANE, question.token, 96)), to)  # nothing is asked any more
        stranger.sendto(encode(Message(Kind.QUESTION, LANE, 5)), to)
        answer = decode(stranger.recv(100))  # behind the last one
        assert answer == Message(Kind.ANSWER, LANE, 5, 1)
        assert one.learnt(bool) == 17
