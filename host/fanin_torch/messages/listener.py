"""The interface of a group's messages for its links."""

from typing import Protocol

from fanin.errors import FaninError
from fanin_torch.messages.frame import Frame
from fanin_torch.messages.message import Message
from fanin_torch.messages.progress import Owner


class Listener(Owner, Protocol):
    """The caller holds the lock of the messages."""

    def arrive(self, frame: Frame) -> None:
        """A frame has come that is not part of the link's own protocol."""

    def claim(self, frame: Frame) -> Message | None:
        """The receive that waits for the message of a header. `got` follows."""

    def got(self, message: Message, error: FaninError | None) -> None:
        """The message has come, or with an error never will."""

    def lose(self, rank: int, error: FaninError) -> None:
        """The connection to that rank is lost."""
