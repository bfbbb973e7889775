"""Messages between ranks of one host, which are threads here, also when a rank does not do as expected."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch, which `make torch` installs")

from fanin.errors import Flushed, InvalidRequest, PeerLost, Timeout  # noqa: E402
from fanin_torch.messages import ANY, Messages, socket_links  # noqa: E402
from fanin_torch.messages.frame import EAGER  # noqa: E402
from tests.waiting import eventually  # noqa: E402

SIZES = [0, 1, EAGER - 1, EAGER, EAGER + 1, 1_000_000]


@pytest.fixture
def ranks() -> Iterator[list[Messages]]:
    """Three of one group."""
    store = torch.distributed.HashStore()
    made = [Messages(None, store, rank, ["here"] * 3, 60.0) for rank in range(3)]
    yield made
    for messages in made:
        messages.close()


def pattern(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_expected", [True, False])
def test_every_byte_arrives(ranks: list[Messages], size: int, is_expected: bool) -> None:
    out, into = pattern(size), np.zeros(size, np.uint8)
    if is_expected:
        receive = ranks[1].receive(into, 0, 0)
    send = ranks[0].send(out, 1, 0)
    if not is_expected:
        receive = ranks[1].receive(into, ANY, 0)
    receive.wait()
    send.wait()
    assert np.array_equal(into, out)
    assert receive.source == 0


def test_more_than_a_socket_holds_waits_for_nobody(ranks: list[Messages]) -> None:
    """Both sides send all before they receive any, in another order."""
    count, outs = 40, [pattern(EAGER, seed) for seed in range(40)]
    sends = [ranks[rank].send(outs[tag], 1 - rank, tag) for tag in range(count) for rank in (0, 1)]
    for tag in reversed(range(count)):
        for rank in (0, 1):
            into = np.zeros(EAGER, np.uint8)
            ranks[rank].receive(into, 1 - rank, tag).wait()
            assert np.array_equal(into, outs[tag])
    for send in sends:
        send.wait()


def test_what_a_rank_has_sent_before_it_left_arrives(ranks: list[Messages]) -> None:
    out, into = pattern(1000), np.zeros(1000, np.uint8)
    ranks[1].receive(np.zeros(0, np.uint8), 0, 1)  # so that both connect
    ranks[0].send(out, 1, 0).wait()
    ranks[0].close()
    ranks[1].receive(into, 0, 0).wait()
    assert np.array_equal(into, out)
    with pytest.raises(PeerLost, match="rank 0 has ended or left"):
        ranks[1].receive(into, 0, 0).wait()
    with pytest.raises(PeerLost, match="rank 0 has ended or left"):
        ranks[1].send(out, 0, 0).wait()
    with pytest.raises(InvalidRequest, match="has been left"):
        ranks[0].send(out, 1, 0)


def test_a_rank_that_leaves_ends_long_messages(ranks: list[Messages]) -> None:
    pending = [ranks[0].send(pattern(EAGER + 1), 1, 0), ranks[1].send(pattern(EAGER + 1), 0, 0)]
    eventually(lambda: ranks[0]._arrivals, bool)
    ranks[0].close()
    with pytest.raises(Flushed):
        pending[0].wait()
    with pytest.raises(PeerLost):
        pending[1].wait()


def test_the_memory_of_a_late_receive_is_the_programs_again(ranks: list[Messages]) -> None:
    """What comes later goes to the next receive."""
    late, size = ranks[1], 1_000_000
    into, untouched = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    late.timeout = 0.0
    with late._lock:  # nothing comes meanwhile
        receive = late.receive(into, 0, 0)
        send = ranks[0].send(pattern(size), 1, 0)
        receive.end_if_late()
    with pytest.raises(Timeout):
        receive.wait()
    late.timeout = 60.0
    late.receive(np.zeros(size, np.uint8), 0, 0).wait()
    send.wait()
    assert np.array_equal(into, untouched)


def test_a_receive_that_ends_in_the_midst_of_a_message(ranks: list[Messages], monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest goes nowhere, and what follows is received as ever."""
    size = 4_000_000
    into, out = np.zeros(size, np.uint8), pattern(size)
    ended: list[np.ndarray] = []

    def read(link: socket_links.SocketLink, body: socket_links.Body) -> None:
        if link._got > size // 4 and not body.message.done:
            body.message.end(Timeout("by the test"))
            ended.append(into.copy())
        actual(link, body)

    actual = socket_links.SocketLink._read_body
    monkeypatch.setattr(socket_links.SocketLink, "_read_body", read)
    receive, send = ranks[1].receive(into, 0, 0), ranks[0].send(out, 1, 0)
    with pytest.raises(Timeout):
        receive.wait()
    send.wait()
    assert np.array_equal(into, ended[0])
    monkeypatch.undo()
    following = np.zeros(size, np.uint8)
    receive = ranks[1].receive(following, 0, 1)
    ranks[0].send(out, 1, 1).wait()
    receive.wait()
    assert np.array_equal(following, out)


def test_an_error_of_a_signal_handler_ends_the_connection_it_may_have_broken(
    ranks: list[Messages], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks[1].receive(np.zeros(1, np.uint8), 0, 0)
    ranks[0].send(np.zeros(1, np.uint8), 1, 0).wait()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(socket_links, "_after", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ranks[0].send(np.zeros(1, np.uint8), 1, 0)
    with pytest.raises(PeerLost, match="signal handler"):
        ranks[0].receive(np.zeros(1, np.uint8), 1, 0).wait()
    with pytest.raises(PeerLost, match="rank 0 has ended or left"):
        ranks[1].receive(np.zeros(1, np.uint8), 0, 5).wait()


def test_a_process_of_another_user_is_no_rank(ranks: list[Messages], monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr(socket_links.os, "geteuid", lambda: user + 1)
    receive, send = ranks[1].receive(np.zeros(1, np.uint8), 0, 0), ranks[0].send(np.zeros(1, np.uint8), 1, 0)
    for message in (receive, send):
        with pytest.raises(PeerLost, match=f"socket: user {user} has it"):
            message.wait()


@pytest.mark.process
def test_a_child_keeps_no_connection(ranks: list[Messages]) -> None:
    """The end of a rank is seen though a forked child of it lives; the child itself is told that it is no rank."""
    ranks[1].receive(np.zeros(1, np.uint8), 0, 0)
    ranks[0].send(np.zeros(1, np.uint8), 1, 0).wait()
    child = os.fork()
    if child == 0:
        try:
            ranks[0].send(np.zeros(1, np.uint8), 1, 0)
        except InvalidRequest:
            ranks[0].close()
            signal.pause()
        os._exit(1)
    try:
        ranks[0].close()
        with pytest.raises(PeerLost, match="rank 0 has ended or left"):
            ranks[1].receive(np.zeros(1, np.uint8), 0, 5).wait()
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_nothing_is_left_when_a_group_ends() -> None:
    store = torch.distributed.HashStore()

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = files()
    for number in range(3):
        own = torch.distributed.PrefixStore(str(number), store)
        made = [Messages(None, own, rank, ["here"] * 2, 60.0) for rank in (0, 1)]
        receive, _ = made[1].receive(np.zeros(1, np.uint8), 0, 0), made[0].send(np.zeros(1, np.uint8), 1, 0)
        receive.wait()
        for messages in made:
            messages.close()
    del made, messages, receive, _
    assert eventually(files, lambda count: count <= before) <= before
