"""Progress: how far a collective is, as its device reports it (step S6 of the flow)."""

from typing import NamedTuple


class Progress(NamedTuple):
    """One collective under way. A segment is done when its result has reached its place in this process."""

    name: str
    done: int  # segments
    segments: int  # of all its messages; 0: not known yet
    waiting_for: tuple[int, ...]  # ranks that its first incomplete segment waits for, as far as the device knows

    def __str__(self) -> str:
        waiting = f", waiting for ranks {list(self.waiting_for)}" if self.waiting_for else ""
        return f"{self.name}: {self.done} of {self.segments} segments{waiting}"
