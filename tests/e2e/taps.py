"""Captures and traces of running fabrics, during a block, and the blocks of a capture file."""

import contextlib
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.tap import listen
from fanin_tools.tap.capture import Tally, capture
from fanin_tools.tap.reader import Wanted
from fanin_tools.tap.segments import Event, record
from fanin_wire.abi import TapFlag
from tests.e2e.fabrics import Statuses, held, statuses
from tests.waiting import BOUND_S, eventually

PACKETS = Wanted(TapFlag.PACKETS)


@contextlib.contextmanager
def capturing(running: Running, path: Path, wanted: Wanted = PACKETS, **options: Any) -> Iterator[Tally]:
    """All devices' packets go into the file `path`; the tally is filled in at the end of the block."""
    done, tally = threading.Event(), Tally()

    def work() -> None:
        vars(tally).update(vars(capture(taps, path, done.is_set, **options)))

    with listen.listening(listen.sockets_of([], running.fabric.name), wanted) as taps:
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield tally
        finally:
            done.set()
            thread.join(BOUND_S)
    assert not thread.is_alive()


def statistics_of(path: Path) -> list[tuple[int, int]]:
    """Packets that each interface has seen and missed."""
    data, place, found = path.read_bytes(), 0, []
    while place < len(data):
        kind, length = struct.unpack_from("<II", data, place)
        assert data[place + length - 4 : place + length] == data[place + 4 : place + 8]
        if kind == 5:
            interface, first, first_length, seen, second, second_length, missed = struct.unpack_from(
                "<I8xHHQHHQ", data, place + 8
            )
            assert (interface, first, first_length, second, second_length) == (len(found), 4, 8, 5, 8)
            found.append((seen, missed))
        place += length
    return found


@contextlib.contextmanager
def tracing(running: Running) -> Iterator[list[Event]]:
    """The steps of segments on all devices; the list is filled in at the end of the block. None is missed."""
    done, events, missed = threading.Event(), list[Event](), list[int]()

    def work() -> None:
        found, left_out = record(taps, done.is_set)
        events.extend(found)
        missed.append(left_out)

    with listen.listening(listen.sockets_of([], running.fabric.name), Wanted(TapFlag.SEGMENTS)) as taps:
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield events
        finally:
            done.set()
            thread.join(BOUND_S)
    assert missed == [0]


def packets_of(running: Running, found: Statuses) -> Counter[tuple[str, str]]:
    """Packets that each device counted as sent to the others and received from them."""
    others = {device.address for device in running.fabric.devices}
    return Counter(
        {
            (device, way): sum(link[f"{way}_packets"] for address, link in status["links"].items() if address in others)
            for device, status in found.items()
            for way in ("tx", "rx")
        }
    )


def settled(running: Running) -> Counter[tuple[str, str]]:
    """The same, when no device has a job and no packet is in flight."""

    def is_over(found: Statuses) -> bool:
        counted = packets_of(running, found)
        sent = sum(count for (_, way), count in counted.items() if way == "tx")
        return sent * 2 == counted.total() and not held(found)

    return packets_of(running, eventually(lambda: statuses(running), is_over))
