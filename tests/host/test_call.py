"""From a call to work requests: flags, what goes inline, where the pieces lie."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fanin.call import SIGNAL_INTERVAL, Call
from fanin.collectives import COLLECTIVES, Who, collective
from fanin.verbs.regions import RegionTable
from fanin_wire.abi import LKEY_PROCESS, SQ_DEPTH, DType, Op, WqeFlag

SIGNALED, FENCE = WqeFlag["SIGNALED"], WqeFlag["FENCE"]
MANY = 5 * SIGNAL_INTERVAL // 2


def gathered(sizes: tuple[int, ...]) -> Call:
    return Call("allgatherv", collective("allgather"), sizes, np.zeros(sizes[0], "u1"), np.zeros(sum(sizes), "u1"))


def test_last_message_is_signalled_and_some_on_the_way():
    """Else a call of more messages than the queue holds would never be known to have made room."""
    works = gathered(tuple(range(1, MANY + 1))).works(0, RegionTable())
    signalled = [number for number, work in enumerate(works, start=1) if work.flags & SIGNALED]
    assert signalled == [SIGNAL_INTERVAL, 2 * SIGNAL_INTERVAL, MANY]
    assert SIGNAL_INTERVAL < SQ_DEPTH // 2


def test_fence_stands_before_the_first_message():
    call = dataclasses.replace(gathered((1, 2, 3)), fence=True)
    assert [work.flags for work in call.works(0, RegionTable())] == [FENCE, 0, SIGNALED]
    assert dataclasses.replace(call, sizes=(0, 0, 0), source=None, destination=None).works(0, RegionTable()) == []


@pytest.mark.parametrize("nbytes", [1, 6, 16, 17])
@pytest.mark.parametrize("row", COLLECTIVES, ids=lambda row: row.name)
def test_few_bytes_go_inline(row, nbytes):
    """All that this rank brings; nothing, where only the root brings something."""
    sizes = (nbytes,) * (3 if row.divided else 1)
    source = np.zeros(nbytes if row.brings.own else sum(sizes), "u1")
    brought = source.size if row.brings.who is Who.EVERYONE else 0
    assert Call(row.name, row, sizes, source, None, root=1).works(0, RegionTable())[0].inline == (0 < brought <= 16)


def test_text_has_all_that_must_be_alike_on_all_ranks():
    """Who compares the errors of two ranks sees what differs."""
    parts, small = np.zeros(6, "i2"), np.zeros(2, "f4")
    texts = [
        str(Call(*arguments))
        for arguments in (
            ("allreduce", collective("allreduce"), (8,), small, small, small, 0, Op["MAX"], DType["F32"]),
            ("broadcast", collective("broadcast"), (8,), None, small, small, 2),
            ("gatherv", collective("gather"), (2, 4, 6), parts, None, None, 1),
            ("allgather", collective("allgather"), (8, 8), small),
            ("barrier", collective("barrier"), ()),
        )
    ]
    assert texts == [
        "allreduce (MAX, 8 bytes of f32)",
        "broadcast (8 bytes of float32, root 2)",
        "gatherv (12 bytes of int16, root 1, parts of 2, 4, 6 bytes)",
        "allgather (16 bytes of float32)",
        "barrier",
    ]
    many = Call("allgatherv", collective("allgather"), tuple(range(9)), parts)
    assert str(many).endswith("parts of 0, 1, 2, 3, 4, 5, 6, 7, ... bytes)")


@pytest.mark.parametrize("root", [True, np.int64(1), np.uint8(1)], ids=lambda root: type(root).__name__)
def test_a_root_may_be_any_integer(root):
    """The ranks need not give it alike."""
    row, array = collective("broadcast"), np.zeros(2, "f4")
    usual, other = (Call("broadcast", row, (8,), array, root=each) for each in (1, root))
    assert other.agreement == usual.agreement
    assert str(other) == str(usual)


def test_pieces_lie_in_their_buffers():
    regions = RegionTable()
    source, destination = np.zeros(4, "u1"), np.zeros(9, "u1")
    regions.add(destination.ctypes.data, 9, 5)
    call = Call("allgatherv", collective("allgather"), (2, 4, 3), source, destination)
    first, second = call.works(1, regions)
    start = destination.ctypes.data
    assert [(work.length, work.block) for work in (first, second)] == [(2, 2), (7, 4)]
    assert first.address_list[0][1:] == (start, 0, 0, 0, 1)
    assert second.address_list[0] == (source.ctypes.data, start + 2, 0, 1, 0, 2)
    assert (second.source_lkey, second.destination_lkey) == (LKEY_PROCESS, 5)


@pytest.mark.parametrize(("timeout", "milliseconds"), [(None, 0), (0, 1), (0.25, 250), (1e9, (1 << 32) - 1)])
def test_deadline(timeout, milliseconds):
    call = dataclasses.replace(gathered((4, 4)), timeout=timeout)
    assert [work.deadline_ms for work in call.works(0, RegionTable())] == [milliseconds]
