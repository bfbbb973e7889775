"""The interface of a connection to another rank."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fanin.errors import FaninError
from fanin_torch.messages.frame import Frame
from fanin_torch.messages.meeting import Meeting
from fanin_torch.messages.message import Message
from fanin_torch.messages.progress import Progress

AtEnd = Callable[[FaninError | None], None]  # called at the end, perhaps before the call that began it returns


class Link(Protocol):
    """The connection to one rank. The caller holds the lock of the messages, except for `connect`. eager: bytes of the
    longest message that is sent at once."""

    eager: int

    def connect(self, meeting: Meeting) -> None:
        """Wait for the other side; then both can send. Raises FaninError."""

    def send(self, header: bytes, data: np.ndarray | None, then: AtEnd) -> None:
        """Send a frame. data: must not change until `then` is called."""

    def offer(self, message: Message) -> tuple[int, int]:
        """Let the other side fetch a message: key and address for the header. Raises FaninError."""

    def fetch(self, message: Message, offer: Frame, then: AtEnd) -> None:
        """Read what was offered into the message's memory."""

    def release(self, message: Message) -> None:
        """Let go of a message that was offered or fetched, at its end."""


class Links(Protocol):
    """The connections of one kind. progress: of what they receive."""

    progress: Progress

    def link(self, rank: int) -> Link:
        """Connect one more rank. Raises FaninError."""

    def probe(self, ranks: set[int]) -> None:
        """Look whether these connected ranks still exist."""

    def fail(self, error: FaninError) -> None:
        """End all that was begun."""

    def close(self) -> None:
        """Give back what they use, after progress has ended."""
