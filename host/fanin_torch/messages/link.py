"""What a way to another rank is."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fanin.errors import FaninError
from fanin_torch.messages.frame import Frame
from fanin_torch.messages.meeting import Meeting
from fanin_torch.messages.message import Message
from fanin_torch.messages.progress import Progress

AtEnd = Callable[
    [FaninError | None], None
]  # of something that was begun; perhaps before the call that began it returns


class Link(Protocol):
    """The way to one rank. The caller holds the lock of the messages, but for `connect`. eager: bytes of the longest
    message that goes at once."""

    eager: int

    def connect(self, meeting: Meeting) -> None:
        """Wait for the other side: afterwards both can send. Raises FaninError."""

    def send(self, header: bytes, data: np.ndarray | None, then: AtEnd) -> None:
        """A frame. data: must not change until `then` is called."""

    def offer(self, message: Message) -> tuple[int, int]:
        """Let the other side fetch a message: key and address for the header. Raises FaninError."""

    def fetch(self, message: Message, offer: Frame, then: AtEnd) -> None:
        """Get what was offered to where the message has its memory."""

    def release(self, message: Message) -> None:
        """A message that was offered or fetched has ended."""


class Links(Protocol):
    """The ways of one kind. progress: of what comes by them."""

    progress: Progress

    def link(self, rank: int) -> Link:
        """To one more rank. Raises FaninError."""

    def probe(self, ranks: set[int]) -> None:
        """Look whether these, which are connected, are still there."""

    def fail(self, error: FaninError) -> None:
        """End what was begun."""

    def close(self) -> None:
        """Give back what they use. Progress has ended."""
