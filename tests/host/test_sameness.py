"""Sameness: which arguments are taken for those of a call before, by key and at a glance."""

from __future__ import annotations

import numpy as np
import pytest

from fanin.driver import library
from fanin.reductions import allreduce
from fanin.sameness import MOST_DIMENSIONS, Sight, key_of


def arguments(*args, **kwargs):
    """As a call has them."""
    return (*args, allreduce, *kwargs, *kwargs.values())


def is_seen(sight, values):
    """Whether they are known again."""
    return bool(library().fanin_same_arguments(sight.c, id(values)))


class Either:
    """By key, or at a glance: whether values are the same as others that are to be known."""

    @pytest.fixture
    def memory(self):
        return bytearray(24)

    def same(self, known, values):
        raise NotImplementedError

    def test_again(self, memory):
        array = np.ndarray(6, "f4", memory)
        values = arguments(array, op="sum", root=3)
        assert self.same(values, arguments(array, op="sum", root=3))

    def test_same_memory(self, memory):
        first, second = np.ndarray(6, "f4", memory), np.ndarray(6, "f4", memory)
        assert self.same(arguments(first), arguments(second))

    @pytest.mark.parametrize(("shape", "dtype"), [(5, "f4"), (6, "i4"), (6, ">f4"), ((2, 3), "f4"), ((6, 1), "f4")])
    def test_other_shape_or_type(self, memory, shape, dtype):
        first, second = np.ndarray(6, "f4", memory), np.ndarray(shape, dtype, memory)
        assert not self.same(arguments(first), arguments(second))

    def test_other_memory(self):
        first, second = np.zeros(6), np.zeros(6)
        assert not self.same(arguments(first), arguments(second))
        assert not self.same(arguments(first, second), arguments(second, first))

    def test_read_only(self, memory):
        first, second = np.ndarray(6, "f4", memory), np.ndarray(6, "f4", memory)
        second.flags.writeable = False
        assert not self.same(arguments(first), arguments(second))

    def test_not_contiguous(self):
        array = np.zeros((4, 4))
        assert not self.same(arguments(array[:, 0].copy()), arguments(array[:, 0]))
        square = np.zeros((2, 2))
        assert not self.same(arguments(square), arguments(square.T))

    def test_names_and_values_count(self):
        known = arguments(1, None, op="sum")
        for other in (
            arguments(1, None, root="sum"),
            arguments(1, None, op="max"),
            arguments(1, None),
            arguments(1, None, "op", "sum"),
            arguments(1, None, "sum"),
            arguments(2, None, op="sum"),
            arguments(True, None, op="sum"),
            arguments(1.0, None, op="sum"),
            arguments(1, op="sum"),
            arguments(),
        ):
            assert not self.same(known, other)
            assert not self.same(other, known)
        assert not self.same(arguments(1), arguments(1, op="sum"))


class TestKey(Either):
    """Calls with equal keys are the same call."""

    def same(self, known, values):
        return key_of(allreduce, known) == key_of(allreduce, values)

    @pytest.mark.parametrize("value", [np.zeros((4, 4))[:, 0], [1.0, 2.0], np.float64(1), np.add, print])
    def test_what_has_none(self, value):
        assert key_of(allreduce, arguments(value)) is None


class TestSight(Either):
    """What is known at a glance is the same call."""

    def same(self, known, values):
        return is_seen(Sight(known), values)

    @pytest.mark.parametrize("name", ["resized", "written", "typed"])
    def test_changed_in_place(self, name):
        array = np.zeros(6, "f4")
        sight = Sight(arguments(array))
        assert is_seen(sight, arguments(array))
        if name == "resized":
            array.resize((3, 2))  # which numpy refuses while anybody else holds the array
        elif name == "written":
            array.flags.writeable = False
        else:
            array.dtype = np.dtype("i4")
        assert not is_seen(sight, arguments(array))

    def test_an_object_in_the_place_of_another(self):
        """An address that is known is that of the next object perhaps: of another kind, or of an array elsewhere."""
        array = np.zeros(6)
        sight, place, data = Sight(arguments(array)), id(array), array.ctypes.data
        del array
        others = [np.zeros(6) for _ in range(100)]
        assert place in map(id, others)
        assert not any(is_seen(sight, arguments(other)) for other in others if other.ctypes.data != data)
        assert not any(is_seen(sight, arguments(other)) for other in (1, "text", None, object(), [], np.float64(0)))

    def test_an_array_is_no_value(self):
        array = np.zeros(6)
        assert not is_seen(Sight(arguments("sum")), arguments(array))

    def test_a_kind_of_array(self, memory):
        """Which may mean something else by its memory."""

        class FaultKind(np.ndarray):
            pass

        assert not self.same(arguments(np.ndarray(6, "f4", memory)), arguments(FaultKind(6, "f4", memory)))

    def test_more_dimensions_than_are_noted(self):
        fits, more = np.zeros((1,) * MOST_DIMENSIONS), np.zeros((1,) * (MOST_DIMENSIONS + 1))
        assert is_seen(Sight(arguments(fits)), arguments(fits))
        assert not is_seen(Sight(arguments(more)), arguments(more))

    def test_every_dimension_counts(self):
        shape = [2] * MOST_DIMENSIONS
        memory = bytearray(8 << MOST_DIMENSIONS)
        sight = Sight(arguments(np.ndarray(shape, "f4", memory)))
        for place in range(MOST_DIMENSIONS):
            other = [*shape[:place], 3, *shape[place + 1 :]]
            assert not is_seen(sight, arguments(np.ndarray(other, "f4", memory)))
        assert is_seen(sight, arguments(np.ndarray(shape, "f4", memory)))
