"""Gradients from node to node: one stream of broadcasts for each source, whose window is the bound.

A stream is its own job, so that no source waits for another. Message n is the gradient of order n. A receiver posts
requests up to number `finished + stale_max`: a source that is further ahead finds no request at the slowest receiver,
and its broadcast does not end. So the devices hold the bound, whatever the source believes. A receiver with untaken
messages posts fewer requests, as far as its memory goes.

| bytes | content of a message |
| --- | --- |
| 0 to 7 | number, from 1 on; the sender's clock |
| 8 to 15 | 0: a gradient; 1: the sender is done, and nothing follows |
| 16 on | the gradient, in the type of the parameters |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import fanin
from fanin.errors import FaninError
from fanin.memory.buffers import aligned
from fanin_train.errors import TrainingError

HEADER = 16
GRADIENT, DONE = 0, 1
MAX_SOURCES = 63  # each has a job at every device of its path


class Arrival(NamedTuple):
    """A message of a source. gradient: in the memory of the stream until it is reused; None: the source is done."""

    source: int
    number: int
    gradient: np.ndarray | None


class Slot:
    """Registered memory for one message."""

    def __init__(self, memory: np.ndarray, dtype: np.dtype) -> None:
        self.memory = memory
        self.header = self.memory[:HEADER].view(np.int64)
        self.gradient = self.memory[HEADER:].view(dtype)
        self.request: fanin.Request | None = None


class Stream:
    """The broadcasts of one source, at one rank. base: the number before its first message."""

    def __init__(
        self, parent: fanin.Communicator, source: int, count: int, dtype: np.dtype, depth: int, base: int
    ) -> None:
        self.source, self.communicator = source, parent.dup()
        size = HEADER + count * dtype.itemsize
        memory = self.communicator.alloc((depth, aligned(size)), np.uint8)  # one region: a device takes few of a rank
        self.slots = [Slot(memory[number, :size], dtype) for number in range(depth)]
        self.posted = self.ended = base
        self.bound: int | None = base  # of a receiver: the last number that it may get; None: any
        self.is_done = False

    def slot(self, number: int) -> Slot:
        """The memory of a message."""
        return self.slots[number % len(self.slots)]

    def post(self, number: int) -> None:
        """Send, or receive, the next message."""
        slot = self.slot(number)
        slot.request = self.communicator.ibroadcast(slot.memory, root=self.source)
        self.posted = number

    def accept(self) -> None:
        """Post requests up to the bound, as far as there is memory. Without a bound half of the memory suffices: all
        ranks step equally often, and the other half holds what waits to be applied."""
        depth = len(self.slots)
        end = self.ended + depth // 2 if self.bound is None else min(self.bound, self.ended + depth)
        while self.posted < end and not self.is_done:
            self.post(self.posted + 1)

    def end(self, wait: bool = False) -> bool:
        """Whether the oldest message under way has ended; with `wait` it has, if one is under way."""
        if self.ended == self.posted:
            return False
        request = self.slot(self.ended + 1).request
        assert request is not None
        if wait:
            request.wait()
        elif not request.test():
            return False
        self.ended += 1
        return True


class Streams:
    """All streams of a job of `communicator.size` nodes. All ranks make them at the same time.

    count, dtype: of a gradient. window: stale_max. base: by rank, the number before the first message of its stream.
    """

    def __init__(
        self, communicator: fanin.Communicator, count: int, dtype: np.dtype, window: int, base: tuple[int, ...]
    ) -> None:
        if communicator.size > MAX_SOURCES:
            raise TrainingError(f"{communicator.size} nodes are too many streams", f"use up to {MAX_SOURCES} nodes")
        self.rank, self.window = communicator.rank, window
        depth = 2 * window + 2  # a fixed step takes gradients that are `window` old, while `window` newer ones arrive
        self._streams: list[Stream] = []
        try:
            for source in range(communicator.size):
                self._streams.append(Stream(communicator, source, count, dtype, depth, base[source]))
        except FaninError:
            self.abort()
            raise
        self._own = self._streams[self.rank]
        self._others = [stream for stream in self._streams if stream is not self._own]

    def room(self, number: int) -> np.ndarray:
        """Memory for `send` of a gradient of this order. Waits until all nodes have the last message in it."""
        while number - self._own.ended > len(self._own.slots):
            self._own.end(wait=True)
        return self._own.slot(number).gradient

    def send(self, number: int, kind: int = GRADIENT) -> None:
        """Send the message in the room of this number; kind DONE: nothing follows."""
        self.room(number)
        self._own.slot(number).header[:] = number, kind
        self._own.post(number)
        while self._own.end():
            pass

    @property
    def sent(self) -> int:
        return self._own.posted

    def own_gradient(self, number: int) -> np.ndarray:
        """The gradient of an order that has been sent, if recent."""
        return self._own.slot(number).gradient

    def accept(self, finished: int | None) -> None:
        """Allow the messages that the bound allows to a node that has finished this order; None: all, since it computes
        no more."""
        for stream in self._others:
            stream.bound = None if finished is None else finished + self.window
            stream.accept()

    def arrivals(self, wait_for: int | None = None) -> Iterator[Arrival]:
        """Arrived messages; with `wait_for`, at least one of this source."""
        for stream in self._others:
            wait = stream.source == wait_for
            while not stream.is_done and stream.end(wait):
                wait = False
                slot = stream.slot(stream.ended)
                number, kind = slot.header.tolist()
                stream.is_done = kind == DONE
                yield Arrival(stream.source, number, None if stream.is_done else slot.gradient)
                stream.accept()

    def drain(self) -> None:
        """Wait until the others have all that this node has sent."""
        while self._own.end(wait=True):
            pass

    def close(self) -> None:
        """Leave when the others have all messages of this node."""
        self.drain()
        for stream in self._streams:
            stream.communicator.close()

    def abort(self) -> None:
        """Leave at once."""
        for stream in self._streams:
            stream.communicator.abort()
