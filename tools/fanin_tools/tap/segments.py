"""The life of segments on some devices, from their taps: one list of steps on the machine's clock."""

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fanin_tools.tap.reader import Tap, records
from fanin_wire.abi import MID_BITS
from fanin_wire.tap import SEGMENT, Record, Step

POLL_SECONDS = 0.01  # between looks at the rings
RECORD = struct.Struct("<QBBHIIIII")
assert RECORD.size == SEGMENT.itemsize
OF_MANY = (Step.POSTED, Step.REDUCED, Step.ENDED)
MESSAGE_MASK = (1 << MID_BITS) - 1


class Event(NamedTuple):
    """A step of `positions` positions from `position` on, in one lane of a device. message: its number; who: a Step."""

    time: int  # ns
    device: str
    lane: int
    step: Step
    jid: int
    position: int
    message: int
    positions: int
    who: int


def record(taps: Sequence[Tap], has_ended: Callable[[], bool]) -> tuple[list[Event], int]:
    """All steps until `has_ended`, all devices have gone, or Ctrl-C or SIGTERM; and how many were missed. In order of
    time, those of a lane as they happened."""
    pieces: list[tuple[Tap, list[bytes]]] = []

    def look() -> bool:
        found = [(tap, tap.take()) for tap in taps]
        pieces.extend(found)
        return any(any(piece) for _, piece in found)

    try:
        while not has_ended() and not all(tap.has_ended for tap in taps):
            if not look():
                time.sleep(POLL_SECONDS)
    except (KeyboardInterrupt, SystemExit):  # the usual end of a trace
        pass
    look()
    missed = sum(tap.missed for tap in taps)
    events = [
        event for tap, lanes in pieces for lane, piece in enumerate(lanes) for event in _events(tap.name, lane, piece)
    ]
    return sorted(events, key=lambda event: event.time), missed


def _events(device: str, lane: int, piece: bytes) -> Iterator[Event]:
    for kind, place in records(piece):
        if kind == Record.SEGMENT:
            when, _, step, _, jid, position, mid, count, who = RECORD.unpack_from(piece, place)
            yield Event(when, device, lane, Step(step), jid, position, mid & MESSAGE_MASK, count, who)


class Segment:
    """One position of a job in one lane of a device, once its slot is open. Steps outside the trace are None."""

    def __init__(self, opened: Event) -> None:
        self.opened = opened
        self.message = opened.message
        self.arrivals: list[Event] = []  # RANK_IN and NODE_IN
        self.complete: int | None = None
        self.sent: list[int] = []
        self.result: int | None = None
        self.written: list[Event] = []
        self.freed: int | None = None

    def take(self, event: Event) -> None:
        """A later step."""
        if event.step in (Step.RANK_IN, Step.NODE_IN):
            self.arrivals.append(event)
        elif event.step == Step.COMPLETE:
            self.complete = event.time
        elif event.step == Step.SENT:
            self.sent.append(event.time)
        elif event.step == Step.RESULT:
            self.result = self.result or event.time
        elif event.step == Step.WRITTEN:
            self.written.append(event)
        elif event.step == Step.FREED:
            self.freed = event.time
        if event.step in (Step.RANK_IN, Step.NODE_IN, Step.COMPLETE):
            self.message = event.message  # when a slot is opened, it still has the previous position's


def segments_of(events: Sequence[Event]) -> list[Segment]:
    """Those that went through slots, in the order in which their slots were opened."""
    found: list[Segment] = []
    open_ones: dict[tuple[str, int, int, int], Segment] = {}
    for event in events:
        place = event.device, event.lane, event.jid, event.position
        if event.step == Step.OPENED:
            open_ones[place] = Segment(event)
            found.append(open_ones[place])
        elif event.step == Step.ENDED:
            for held in [held for held in open_ones if held[:3] == place[:3]]:
                open_ones.pop(held).freed = event.time
        elif event.step not in OF_MANY and place in open_ones:
            open_ones[place].take(event)
            if event.step == Step.FREED:
                del open_ones[place]
    return found


class Call(NamedTuple):
    """A message of a job on one device. On a switch, which has no posts, it begins with the first contribution."""

    device: str
    jid: int
    message: int
    begin: int  # ns
    end: int  # ns: the last result
    segments: int
    posted: dict[int, int]  # rank -> ns
    last: dict[str, int]  # "rank 1", "node 2" -> segments for which its contribution was the last of several

    def posted_last(self) -> str:
        """The rank that posted last, and how long after the first; "" for less than two."""
        if len(self.posted) < 2:
            return ""
        rank = max(self.posted, key=lambda rank: self.posted[rank])
        return f"rank {rank}, {(self.posted[rank] - min(self.posted.values())) / 1e6:.3f} ms"

    def last_in(self) -> str:
        """Whose contribution was the last for most segments, and for how many; "" if only one is needed."""
        if not self.last:
            return ""
        who = max(self.last, key=lambda who: self.last[who])
        return f"{who}, {self.last[who]} of {self.segments}"


def calls_of(events: Sequence[Event]) -> list[Call]:
    """The messages that have ended in the trace, the slowest first."""
    posted: dict[tuple[str, int, int], dict[int, int]] = {}
    times: dict[tuple[str, int, int], list[int]] = {}  # of the first step, and of the last result
    counts: dict[tuple[str, int, int], int] = {}
    last: dict[tuple[str, int, int], dict[str, int]] = {}
    for event in events:
        call = event.device, event.jid, event.message
        if event.step == Step.POSTED:
            posted.setdefault(call, {}).setdefault(event.who, event.time)
        elif event.step in (Step.WRITTEN, Step.REDUCED, Step.RESULT):
            times.setdefault(call, [event.time, event.time])[1] = event.time
        if event.step == Step.REDUCED:
            counts[call] = counts.get(call, 0) + event.positions
    for segment in segments_of(events):
        call = segment.opened.device, segment.opened.jid, segment.message
        counts[call] = counts.get(call, 0) + 1
        if call in times:
            times[call][0] = min(times[call][0], segment.opened.time)
        if segment.complete is not None and len(segment.arrivals) > 1:
            latest = segment.arrivals[-1]
            who = f"{'rank' if latest.step == Step.RANK_IN else 'node'} {latest.who}"
            shares = last.setdefault(call, {})
            shares[who] = shares.get(who, 0) + 1
    found = []
    for call, (first, end) in times.items():
        ranks = posted.get(call, {})
        begin = min(first, *ranks.values()) if ranks else first
        found.append(Call(*call, begin, end, counts.get(call, 0), ranks, last.get(call, {})))
    return sorted(found, key=lambda call: call.begin - call.end)
