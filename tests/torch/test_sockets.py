"""Messages between ranks of one host, which are threads here, even if a rank misbehaves."""

import itertools
import os
import random
import resource
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch, which `make torch` installs")

from fanin.errors import FaninError, Flushed, InvalidRequest, PeerLost, Timeout  # noqa: E402
from fanin_torch.messages import ANY, Messages, meeting, progress, socket_links  # noqa: E402
from fanin_torch.messages.frame import EAGER, HEADER, Frame, Kind  # noqa: E402
from fanin_torch.messages.message import Message  # noqa: E402
from tests.waiting import BOUND_S, TORCH_BOUND_S, eventually  # noqa: E402

LONG = socket_links.EAGER_BY_SOCKET + 1  # bytes of a message that is fetched
SIZES = [0, 1, EAGER - 1, EAGER, EAGER + 1, LONG - 1, LONG]


@pytest.fixture
def ranks() -> Iterator[list[Messages]]:
    """Three of one group."""
    store = torch.distributed.HashStore()
    made = [Messages(None, store, rank, ["here"] * 3, TORCH_BOUND_S) for rank in range(3)]
    yield made
    for messages in made:
        messages.close()


class Lost:
    """A listener of links. ranks: that were lost. offers: that end with them."""

    def __init__(self) -> None:
        self.ranks: list[int] = []
        self.offers: list[tuple[socket_links.SocketLink, Message]] = []

    def arrive(self, frame: Frame) -> None:
        raise AssertionError(frame)

    claim = arrive

    def lose(self, rank: int, error: FaninError) -> None:
        self.ranks.append(rank)
        for link, message in self.offers:
            link.release(message)

    def has_pending(self) -> bool:
        return True

    def look(self) -> None: ...

    def fail(self, error: FaninError) -> None:
        raise AssertionError(error)


@contextmanager
def held(messages: Messages) -> Iterator[None]:
    """Another thread holds the lock."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with messages._lock:
            is_held.set()
            is_over.wait()

    with ThreadPoolExecutor(1) as other:
        other.submit(hold)
        is_held.wait()
        try:
            yield
        finally:
            is_over.set()


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
    with pytest.raises(InvalidRequest, match="this process has left"):
        ranks[0].send(out, 1, 0)


def test_a_rank_that_leaves_ends_long_messages(ranks: list[Messages]) -> None:
    pending = [ranks[0].send(pattern(LONG), 1, 0), ranks[1].send(pattern(LONG), 0, 0)]
    eventually(lambda: ranks[0]._arrivals, bool)
    ranks[0].close()
    with pytest.raises(Flushed):
        pending[0].wait()
    with pytest.raises(PeerLost):
        pending[1].wait()


@pytest.mark.parametrize("size", [LONG - 1, LONG])
def test_the_memory_of_a_late_receive_is_the_programs_again(ranks: list[Messages], size: int) -> None:
    """A later message goes to the next receive."""
    into = np.zeros(size, np.uint8)
    ranks[1].timeout = 0.0
    with pytest.raises(Timeout):
        ranks[1].receive(into, 0, 0).wait()
    ranks[1].timeout = TORCH_BOUND_S
    send = ranks[0].send(pattern(size), 1, 0)
    ranks[1].receive(np.zeros(size, np.uint8), 0, 0).wait()
    send.wait()
    assert not into.any()


def test_a_receive_that_ends_in_the_midst_of_a_message(ranks: list[Messages], monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is discarded, and later messages are received as usual."""
    size = 4_000_000
    into, out = np.zeros(size, np.uint8), pattern(size)
    ended: list[np.ndarray] = []

    def read(link: socket_links.SocketLink, body: socket_links.Body) -> None:
        if body.got > size // 4 and not body.message.done:
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
    """It may have been faster."""
    users = iter([os.geteuid() + 1])  # of those that connect
    monkeypatch.setattr(
        meeting, "_user", lambda file: next(users, os.geteuid()) if file.getsockname() else os.geteuid()
    )
    receive = ranks[0].receive(np.zeros(1, np.uint8), 1, 0)
    link = ranks[0]._peers[1].link
    name = eventually(lambda: link.socket.getsockname() if link.socket else b"")
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(name)
        send = ranks[1].send(np.zeros(1, np.uint8), 0, 0)
        send.wait()
        receive.wait()
        assert stranger.recv(1) == b""


def test_a_socket_of_another_user_is_not_used(ranks: list[Messages], monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid() + 1
    monkeypatch.setattr(meeting, "_user", lambda _: user)
    ranks[0].send(np.zeros(1, np.uint8), 1, 0)
    with pytest.raises(PeerLost, match=f"socket: user {user} has it"):
        ranks[1].receive(np.zeros(1, np.uint8), 0, 0).wait()


@pytest.mark.process
@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize("is_locked", [True, False])
def test_a_child_keeps_no_connection(ranks: list[Messages], is_connected: bool, is_locked: bool) -> None:
    """The end of a rank is seen though its forked child lives, even one that was forked while it connected. The child
    is refused as a rank, whatever other threads did at the fork."""
    out, into = np.ones(1, np.uint8), np.zeros(1, np.uint8)
    first = ranks[0].send(out, 1, 0)
    if is_connected:
        ranks[1].receive(into, 0, 0).wait()
    with held(ranks[0]) if is_locked else nullcontext():
        child = os.fork()
    if child == 0:
        try:
            ranks[0].send(out, 1, 0)
        except InvalidRequest:
            ranks[0].close()
            signal.pause()
        os._exit(1)
    try:
        if not is_connected:
            ranks[1].receive(into, 0, 0).wait()
        first.wait()
        ranks[0].close()
        with pytest.raises(PeerLost, match="rank 0 has ended or left"):
            ranks[1].receive(into, 0, 5).wait()
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_the_first_message_wakes_who_waits(ranks: list[Messages], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread connects and sends it."""
    monkeypatch.setattr(progress, "LOOK_SECONDS", 1000.0)
    send = ranks[0].send(np.zeros(1, np.uint8), 1, 0)
    with ThreadPoolExecutor(1) as other:
        waits = other.submit(send.wait)
        try:
            ranks[1].receive(np.zeros(1, np.uint8), 0, 0).wait()
            waits.result(BOUND_S)  # else only its own time would end it
        finally:
            ranks[0].close()


def test_connects_beyond_a_thousand_open_files(ranks: list[Messages]) -> None:
    """`select` has no room for these."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    with open(os.devnull) as file:
        copies = [os.dup(file.fileno()) for _ in range(1100)]
        try:
            ranks[0].send(np.zeros(1, np.uint8), 1, 0)
            ranks[1].receive(np.zeros(1, np.uint8), 0, 0).wait()
        finally:
            for copy in copies:
                os.close(copy)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_has_come_is_read_though_nothing_can_be_sent(ranks: list[Messages]) -> None:
    """The sender has left, which the first message to it shows."""
    out, into = pattern(1000), np.zeros(1000, np.uint8)
    ranks[1].receive(np.zeros(0, np.uint8), 0, 1)
    ranks[0].receive(np.zeros(0, np.uint8), 1, 1)
    eventually(lambda: ranks[0]._peers[1].is_connected and ranks[1]._peers[0].is_connected)
    with held(ranks[1]):
        ranks[0].send(out, 1, 0).wait()
        ranks[0].close()
        link, errors = ranks[1]._peers[0].link, []
        link.send(b"x", None, errors.append)  # before anybody reads
        assert errors == [link._send_error]
    ranks[1].receive(into, 0, 0).wait()
    assert np.array_equal(into, out)


def test_a_side_that_ends_while_both_exchange_long_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """One read brings the wanted data, and a WANT that can not be answered any more."""
    lock, lost, ended = threading.RLock(), Lost(), []
    links = socket_links.SocketLinks(lock, lost)
    link = links.link(7)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link._keep(ours)
    with lock:
        links.register(link, ours)
        into = Message(np.zeros(100, np.uint8), 7, 0, 60.0, links.progress)
        link.fetch(into, Frame(7, Kind.OFFER, 0, 0, 100, 0, 5), lambda error: link.send(b"x" * 40, None, ended.append))
        lost.offers = [(link, Message(np.zeros(100, np.uint8), 7, 0, 60.0, links.progress, number=9))]
        link.offer(lost.offers[0][1])
        body = HEADER.pack(Kind.BODY, 0, 0, 0, 0, 5) + bytes(100)
        theirs.sendall(body + HEADER.pack(Kind.WANT, 0, 0, 0, 0, 9))
        theirs.close()
        while not lost.ranks:
            links.poll()
    assert (lost.ranks, len(ended), link._offers) == ([7], 1, {})
    links.progress.close()
    links.close()


def send_for_ever(source: Messages, destination: Messages) -> None:
    for size in itertools.cycle((1, EAGER + 1, LONG)):
        destination.receive(np.zeros(size, np.uint8), 0, 0)
        source.send(np.zeros(size, np.uint8), 1, 0).wait()


def test_close_in_a_signal_handler(ranks: list[Messages]) -> None:
    """At whatever point it interrupts a wait."""
    random.seed(seed := 20261130)
    print(f"seed {seed}")
    store, previous = torch.distributed.HashStore(), signal.getsignal(signal.SIGALRM)
    try:
        for number in range(40):
            own = torch.distributed.PrefixStore(str(number), store)
            pair = [Messages(None, own, rank, ["here"] * 2, 60.0) for rank in (0, 1)]
            signal.signal(signal.SIGALRM, lambda *_: pair[0].close())  # noqa: B023 - that of this round
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 2e-2))
            with pytest.raises((Flushed, InvalidRequest)):
                send_for_ever(*pair)
            pair[1].close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_a_connection_that_meets_the_end_of_its_group(ranks: list[Messages], monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that a signal handler's close() has overtaken is flushed, whatever its connection meets."""
    store = torch.distributed.PrefixStore("left", torch.distributed.HashStore())
    left = Messages(None, store, 0, ["here"] * 2, 60.0)

    def connect(link: object, meeting: object) -> None:
        left._is_closed = True
        raise ValueError("I/O operation on closed epoll object")

    monkeypatch.setattr("fanin_torch.messages.socket_links.SocketLink.connect", connect)
    with pytest.raises(Flushed, match="the group was left"):
        left.send(np.zeros(1, np.uint8), 1, 0).wait(60)


def test_a_handler_that_has_interrupted_a_message_sends_none(ranks: list[Messages]) -> None:
    pending = ranks[0].receive(np.zeros(1, np.uint8), 1, 0)
    with ranks[0]._lock:  # as the interrupted call
        for call in (pending.wait, lambda: ranks[0].send(np.zeros(1, np.uint8), 1, 0)):
            with pytest.raises(InvalidRequest, match="signal handler"):
                call()


def test_a_long_message_from_a_rank_that_stands_still_ends_by_time(ranks: list[Messages]) -> None:
    ranks[0].timeout = 0.5
    ranks[1].send(pattern(LONG), 0, 0)
    ranks[0].receive(np.zeros(1, np.uint8), 1, 1)
    eventually(lambda: ranks[0]._arrivals)
    with held(ranks[1]):
        receive = ranks[0].receive(np.zeros(LONG, np.uint8), 1, 0)
        eventually(receive.test)
    with pytest.raises(Timeout):
        receive.wait()


def test_an_interrupted_look_at_one_rank_loses_nothing_of_another(
    ranks: list[Messages], monkeypatch: pytest.MonkeyPatch
) -> None:
    into = [np.zeros(1, np.uint8), np.zeros(1, np.uint8)]
    for other in (1, 2):
        ranks[other].send(np.zeros(1, np.uint8), 0, 5)
        ranks[0].receive(np.zeros(1, np.uint8), other, 5).wait()
    seen: list[int] = []

    def read(link: socket_links.SocketLink) -> None:
        seen.append(link.rank)
        if len(seen) == 2:
            raise KeyboardInterrupt
        actual(link)

    actual = socket_links.SocketLink.read
    with ranks[0]._lock:
        for other in (1, 2):
            ranks[other].send(np.full(1, other, np.uint8), 0, 0).wait()
        monkeypatch.setattr(socket_links.SocketLink, "read", read)
        with pytest.raises(KeyboardInterrupt):
            ranks[0]._sockets.progress._take()
    monkeypatch.undo()
    for other in (1, 2):
        ranks[0].receive(into[other - 1], other, 0).wait()
    assert [int(array[0]) for array in into] == [1, 2]


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
