"""Who is told what comes of links."""

from __future__ import annotations

from typing import Protocol

from fanin.errors import FaninError
from fanin_torch.messages.frame import Frame


class Listener(Protocol):
    """The messages of a group. The caller holds their lock."""

    def arrive(self, frame: Frame) -> None:
        """What is no part of a link's own protocol has come."""

    def lose(self, rank: int, error: FaninError) -> None:
        """Nothing goes between this rank and that one any more."""

    def look(self) -> None:
        """At what nothing tells of, such as time-outs: a few times a second."""

    def fail(self, error: FaninError) -> None:
        """Nothing comes by some links any more: every message ends."""
