"""Who is told what comes of links."""

from typing import Protocol

from fanin.errors import FaninError
from fanin_torch.messages.frame import Frame
from fanin_torch.messages.message import Message
from fanin_torch.messages.progress import Owner


class Listener(Owner, Protocol):
    """The messages of a group. The caller holds their lock."""

    def arrive(self, frame: Frame) -> None:
        """What is no part of a link's own protocol has come."""

    def claim(self, frame: Frame) -> Message | None:
        """The receive that waits for a message of which the header has come. `got` follows."""

    def got(self, message: Message, error: FaninError | None) -> None:
        """It has come, or will not."""

    def lose(self, rank: int, error: FaninError) -> None:
        """Nothing goes between this rank and that one any more."""
