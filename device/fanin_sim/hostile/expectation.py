"""What must become of a packet."""

from dataclasses import dataclass, field


@dataclass
class Expectation:
    """What must become of a packet.

    reasons: counters, one of which counts it; "" stands for a packet that is taken.
    completions: (wr_id, status) of the requests that end, in order.
    may_change: whether the state of the device may change.
    """

    reasons: tuple[str, ...] = ("",)
    completions: list[tuple[int, int]] = field(default_factory=list)
    may_change: bool = True


def dropped(*reasons: str) -> Expectation:
    """A packet that changes nothing."""
    return Expectation(reasons, may_change=False)
