"""Pieces of a region do not overlap, and all come back."""

from hypothesis import given
from hypothesis import strategies as st

from fanin.memory.buffers import ALIGNMENT, Arena

LENGTH = 8 * ALIGNMENT
PLACES = LENGTH // ALIGNMENT


@given(st.lists(st.one_of(st.integers(1, LENGTH + 1), st.floats(0, 1, exclude_max=True))))
def test_the_first_place_that_is_long_enough(steps: list[int | float]) -> None:
    """A length is taken; a share of one chooses a piece to return. The model: a line of places, each taken or free."""
    arena, line, pieces = Arena(LENGTH), "." * PLACES, list[tuple[int, int]]()
    for step in steps:
        if isinstance(step, int):
            count = -(-step // ALIGNMENT)
            place = line.find("." * count)
            assert arena.take(step) == (place * ALIGNMENT if place >= 0 else None)
            if place >= 0:
                pieces.append((place, step))
                line = line[:place] + "x" * count + line[place + count :]
        elif pieces:
            place, length = pieces.pop(int(step * len(pieces)))
            arena.give_back(place * ALIGNMENT, length)
            count = -(-length // ALIGNMENT)
            line = line[:place] + "." * count + line[place + count :]
        assert arena.is_free == ("x" not in line)


def test_a_region_that_ends_within_a_line() -> None:
    arena = Arena(ALIGNMENT + 1)
    assert arena.take(ALIGNMENT + 1) == 0
    assert arena.take(1) is None
    arena.give_back(0, ALIGNMENT + 1)
    assert arena.is_free
