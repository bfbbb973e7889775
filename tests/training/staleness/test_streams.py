"""Streams between nodes with scripted devices: a message arrives when its source and its receiver have posted it."""

from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fanin_train.staleness.streams import DONE, Streams

NODES, COUNT = 3, 4


class Broadcast:
    """A message: the nodes with posted memory. It arrives at each at once, and ends at the source after the last."""

    def __init__(self) -> None:
        self.root: int | None = None
        self.memory: dict[int, np.ndarray] = {}
        self.waiting: set[int] = set()

    def post(self, rank: int, memory: np.ndarray, root: int) -> None:
        self.memory[rank] = memory
        self.waiting.add(rank)
        if rank == root:
            self.root = root
        if self.root is not None:
            for each in self.waiting - {root}:
                self.memory[each][:] = self.memory[root]
            self.waiting &= {root}

    def has_ended(self, rank: int) -> bool:
        return len(self.memory) == NODES if rank == self.root else rank in self.memory and rank not in self.waiting


class Devices:
    def __init__(self) -> None:
        self.messages: dict[int, defaultdict[int, Broadcast]] = {
            stream: defaultdict(Broadcast) for stream in range(NODES)
        }

    def communicator(self, rank: int, base: tuple[int, ...]) -> Any:
        """Of a node. Its duplicates are the streams, in the order of their sources."""
        streams = iter(range(NODES))

        def dup() -> Any:
            stream = next(streams)
            posted = base[stream]

            def ibroadcast(memory: np.ndarray, root: int) -> Any:
                nonlocal posted
                posted += 1
                message = self.messages[stream][posted]
                message.post(rank, memory, root)

                def wait() -> None:
                    assert message.has_ended(rank), f"node {rank} would wait for ever"

                return SimpleNamespace(test=lambda: message.has_ended(rank), wait=wait)

            return SimpleNamespace(alloc=np.zeros, ibroadcast=ibroadcast)

        return SimpleNamespace(rank=rank, size=NODES, dup=dup)

    def streams(self, window: int, base: tuple[int, ...]) -> list[Streams]:
        dtype = np.dtype(np.float32)
        return [Streams(self.communicator(rank, base), COUNT, dtype, window, base) for rank in range(NODES)]


def send(streams: Streams, number: int) -> None:
    streams.room(number)[:] = number
    streams.send(number)


def taken(streams: Streams, source: int) -> Iterator[int]:
    """The numbers of messages from a source, each a gradient of its number."""
    for each in streams.arrivals():
        assert each.source == source
        assert each.gradient is not None
        assert each.gradient.tolist() == [each.number] * COUNT
        yield each.number


def test_a_receiver_that_is_far_behind_in_a_stream_gets_all_of_it() -> None:
    """After a loss a source repeats from the position of the slowest receiver. A node that has more may be so far that
    the bound alone would allow more than fits its memory."""
    receiver, source, other = Devices().streams(window=2, base=(6, 3, 6))
    for each in (receiver, source, other):
        each.accept(9)
    found: list[int] = []
    for number in range(4, 12):
        if number == 10:  # the receivers look for the first time
            found += taken(receiver, 1)
            list(other.arrivals())
        send(source, number)
    found += taken(receiver, 1)
    assert found == list(range(4, 12))


def test_a_node_that_computes_no_more_gets_everything_until_all_are_done() -> None:
    receiver, source, other = Devices().streams(window=1, base=(0, 0, 0))
    receiver.accept(None)
    other.accept(None)
    for number in range(1, 10):
        send(source, number)
        assert list(taken(receiver, 1)) == [number]
        assert len(list(other.arrivals())) == 1
    source.send(10, DONE)
    (last,) = receiver.arrivals()
    assert (last.source, last.number, last.gradient) == (1, 10, None)
    assert not list(receiver.arrivals())


@given(window=st.integers(0, 3), base=st.integers(0, 5), ahead=st.integers(0, 9), script=st.data())
def test_every_message_comes_once_and_whole(window: int, base: int, ahead: int, script: st.DataObject) -> None:
    """For any times of sends and looks, and any lead of the receiver over the source's messages."""
    bases = (0, base, 0)
    receiver, source, other = Devices().streams(window, bases)
    finished = base + ahead
    other.accept(None)
    receiver.accept(finished)
    sent, found = base, list[int]()
    for act in script.draw(st.lists(st.sampled_from(["send", "look", "finish"]), max_size=60)):
        list(other.arrivals())
        if act == "look":
            found += taken(receiver, 1)
        elif act == "finish" and found and finished < found[-1] + window:
            finished += 1
            receiver.accept(finished)
        elif act == "send" and sent < min(finished + window, (found or [base])[-1] + 2 * window + 2):
            sent += 1
            send(source, sent)
    list(other.arrivals())
    found += taken(receiver, 1)
    assert found == list(range(base + 1, sent + 1))
