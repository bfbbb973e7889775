"""Captures of running fabrics, for tests: what happens in a block, and the blocks of the file that comes of it."""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.tap import listen
from fanin_tools.tap.capture import Tally, capture
from fanin_tools.tap.reader import Wanted
from fanin_wire.abi import TapFlag
from tests.e2e.fabrics import BOUND_S

PACKETS = Wanted(TapFlag.PACKETS)


@contextlib.contextmanager
def capturing(running: Running, path: Path, wanted: Wanted = PACKETS, **options: Any) -> Iterator[Tally]:
    """The packets of all devices in the block go into the file `path`; the tally is filled in at its end."""
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
    """Packets that each interface of a capture has seen, and how many of them were missed."""
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
