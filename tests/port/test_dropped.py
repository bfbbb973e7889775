"""Drops of the kernel at a socket are counted; a system that does not count says so and goes on."""

import socket

import pytest

from fanin_nic.port import sockets

pytestmark = pytest.mark.unit


class ShortAnswer:
    """A socket as of qemu-user: 4 bytes of SO_MEMINFO for any request."""

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, sockets.SO_MEMINFO)
        return bytes(min(size, 4))


def test_packets_without_room_are_counted() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # the kernel's least
        receiver.bind(("127.0.0.1", 0))
        assert sockets.dropped_at(receiver) == 0
        for _ in range(100):
            sender.sendto(bytes(1000), receiver.getsockname())
        assert 0 < sockets.dropped_at(receiver) <= 100


def test_a_short_answer_counts_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    sockets._warn_of_uncounted.cache_clear()
    assert [sockets.dropped_at(ShortAnswer()) for _ in range(2)] == [0, 0]  # type: ignore[arg-type]
    assert caplog.text.count("SO_MEMINFO") == 1
