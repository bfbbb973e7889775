"""Headers of messages of tensors, which the other node has written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fanin_cluster.handoff.channel import HandoffFailed
from fanin_cluster.handoff.stage import Entry, entries_of

CAPACITY = 1 << 10


def header(size: Any, *tensors: Any) -> bytes:
    return json.dumps({"size": size, "tensors": tensors}).encode().ljust(4096, b"\0")


def test_what_a_header_says() -> None:
    size, entries = entries_of(header(80, ["<f4", [2, 2], 0], ["|u1", [16], 64]), CAPACITY)
    assert (size, entries) == (80, [Entry("<f4", (2, 2), 0), Entry("|u1", (16,), 64)])


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"[]",
        header("x"),
        header(64, ["|O", [1], 0]),
        header(64, ["torch.nothing", [1], 0]),
        header(64, ["torch.save", [1], 0]),
        header(64, ["no type", [1], 0]),
        header(64, ["<f4"]),
    ],
)
def test_a_header_that_can_not_be_read(wrong: bytes) -> None:
    with pytest.raises(HandoffFailed, match="the header of a message can not be read"):
        entries_of(wrong, CAPACITY)


@pytest.mark.parametrize(
    "wrong",
    [
        header(CAPACITY + 1),
        header(-1),
        header(64, ["<f4", [17], 0]),
        header(64, ["<f4", [-1, -1], 0]),
        header(64, ["<f4", [1], -4]),
        header(64, ["<f4", [1], 61]),
    ],
)
def test_tensors_that_are_not_in_the_message(wrong: bytes) -> None:
    with pytest.raises(HandoffFailed, match="does not hold its tensors"):
        entries_of(wrong, CAPACITY)
