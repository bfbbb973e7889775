"""How long messages are cut: each byte once, in few parts."""

import pytest

from fanin_wire.geometry import MAX_PARTS, PART_BYTES, part_length, part_sizes


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1, MAX_PARTS * PART_BYTES, MAX_PARTS * PART_BYTES + 1])
def test_parts_add_up_to_the_message_and_are_few(size: int) -> None:
    sizes = part_sizes(size)
    assert sum(sizes) == size
    assert len(sizes) <= MAX_PARTS
    assert set(sizes[:-1]) <= {part_length(size)}


def test_parts_of_very_long_messages_are_twice_as_long() -> None:
    assert part_length(MAX_PARTS * PART_BYTES) == PART_BYTES
    assert part_length(MAX_PARTS * PART_BYTES + 1) == 2 * PART_BYTES
