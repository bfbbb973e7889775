"""A trace for Perfetto (ui.perfetto.dev) and chrome://tracing: the Trace Event Format, times in microseconds.

Each device is a process. Its counter shows the slots in use. Each rank has a track with its calls. Below, each row is a
slot in use: a segment from its first contribution to its release, with what it waited for inside. A job needs as many
rows as it has segments in flight, not as its message has.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fanin_tools.tap.segments import Event, Segment, segments_of
from fanin_wire.tap import Step

COUNTER = "slots in use"
RANKS, ROWS, LANE = 1, 1000, 100_000  # numbers of tracks: of rank 0, of the first row of a lane, from lane to lane


def trace(events: Sequence[Event], devices: Iterable[str]) -> dict[str, Any]:
    """The trace of events in order of time, on `devices`."""
    numbers = {device: number for number, device in enumerate(devices, 1)}
    found = [_name("process_name", numbers[device], 0, device) for device in numbers]
    start = events[0].time if events else 0
    found += _occupancy(events, numbers, start)
    found += _calls(events, numbers, start)
    found += _segments(segments_of(events), numbers, start)
    return {"traceEvents": found, "displayTimeUnit": "ns"}


def _name(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _slice(process: int, track: int, name: str, begin: int, end: int, start: int, **arguments: Any) -> dict[str, Any]:
    times = {"ts": (begin - start) / 1000, "dur": (end - begin) / 1000}
    return {"ph": "X", "name": name, "pid": process, "tid": track, **times, "args": arguments}


def _occupancy(events: Sequence[Event], numbers: dict[str, int], start: int) -> list[dict[str, Any]]:
    """Slots in use on each device, by job, whenever their number changes."""
    used: dict[str, dict[int, Counter[int]]] = {device: {} for device in numbers}  # by job and lane
    found = []
    for event in events:
        if event.step not in (Step.OPENED, Step.FREED, Step.ENDED):
            continue
        lanes = used[event.device].setdefault(event.jid, Counter())
        if event.step == Step.ENDED:
            lanes[event.lane] = 0
        else:
            lanes[event.lane] = max(0, lanes[event.lane] + (1 if event.step == Step.OPENED else -1))
        jobs = {f"job {jid}": counts.total() for jid, counts in used[event.device].items()}
        when = (event.time - start) / 1000
        found.append({"ph": "C", "name": COUNTER, "pid": numbers[event.device], "ts": when, "args": jobs})
    return found


def _calls(events: Sequence[Event], numbers: dict[str, int], start: int) -> list[dict[str, Any]]:
    """Of each rank, from its post to its last result."""
    begun: dict[tuple[str, int, int, int], int] = {}
    ended: dict[tuple[str, int, int, int], int] = {}
    reduced: dict[tuple[str, int, int], int] = {}
    for event in events:
        if event.step == Step.POSTED:
            begun.setdefault((event.device, event.who, event.jid, event.message), event.time)
        elif event.step == Step.WRITTEN:
            ended[event.device, event.who, event.jid, event.message] = event.time
        elif event.step == Step.REDUCED:
            reduced[event.device, event.jid, event.message] = event.time
    ranks = {(device, rank) for device, rank, _, _ in begun}
    found = [_name("thread_name", numbers[device], RANKS + rank, f"rank {rank}") for device, rank in sorted(ranks)]
    for (device, rank, jid, message), begin in begun.items():
        end = ended.get((device, rank, jid, message), reduced.get((device, jid, message)))
        if end is not None:
            name = f"message {message}"
            found.append(_slice(numbers[device], RANKS + rank, name, begin, end, start, jid=jid))
    return found


def _segments(segments: Sequence[Segment], numbers: dict[str, int], start: int) -> list[dict[str, Any]]:
    """Rows of slots. A segment takes the lowest free row; one that is not released in the trace is left out."""
    free: dict[tuple[str, int], list[int]] = {}
    busy: dict[tuple[str, int], list[tuple[int, int]]] = {}
    found = []
    for segment in segments:
        first, end = segment.opened, segment.freed
        if end is None:
            continue
        lane = first.device, first.lane
        rows, used = free.setdefault(lane, []), busy.setdefault(lane, [])
        while used and used[0][0] <= first.time:
            heapq.heappush(rows, heapq.heappop(used)[1])
        process, base = numbers[first.device], ROWS + first.lane * LANE
        if rows:
            row = heapq.heappop(rows)
        else:
            row = len(used)
            found.append(_name("thread_name", process, base + row, f"lane {first.lane} slot {row}"))
        heapq.heappush(used, (end, row))
        found += _slices(segment, end, process, base + row, start)
    return found


def _slices(segment: Segment, end: int, process: int, track: int, start: int) -> list[dict[str, Any]]:
    """A segment, and inside it the contributions, the result, and the release."""
    opened = segment.opened.time
    said = {
        f"{'rank' if event.step == Step.RANK_IN else 'node'} {event.who} in": (event.time - opened) / 1000
        for event in segment.arrivals
    }
    sent = [(when - opened) / 1000 for when in segment.sent]
    name = f"position {segment.opened.position}"
    found = [
        _slice(
            process, track, name, opened, end, start, jid=segment.opened.jid, message=segment.message, **said, sent=sent
        )
    ]
    places = [opened, segment.complete, segment.result, end]
    for name, begin, until in zip(("contributions", "result", "release"), places, [*places[1:3], end], strict=False):
        if begin is not None and until is not None and until > begin:
            found.append(_slice(process, track, name, begin, until, start))
    return found
