"""The methods in C that the blocking collectives are: they look like the functions that they stand for."""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
import types
import weakref

import numpy as np
import pytest

from fanin import Communicator, again
from fanin.errors import DriverMissing
from fanin.forms import Collectives


class TestMethod:
    """It looks like the function that it stands for."""

    def test_what_help_and_editors_ask(self):
        method = Communicator.allreduce
        assert method.__name__ == "allreduce"
        assert method.__qualname__ == "Communicator.allreduce"
        assert method.__doc__.startswith("Combine")
        assert list(inspect.signature(method).parameters)[:3] == ["self", "array", "out"]
        assert inspect.isfunction(method)
        assert inspect.getsourcefile(method) == inspect.getsourcefile(Communicator.iallreduce)
        assert "Communicator.allreduce" in repr(method)

    def test_it_is_made_by_nobody_else(self):
        with pytest.raises(TypeError):
            type(Collectives.__dict__["allreduce"])()

    def test_weak_references(self, alone):
        assert weakref.ref(Communicator.allreduce)() is Collectives.__dict__["allreduce"]
        assert weakref.WeakMethod(alone.allreduce)() == alone.allreduce
        method = again.repeatable(functools.partial(len), print)
        reference = weakref.ref(method)
        del method
        assert reference() is None

    def test_bound_and_not_bound(self, alone):
        array = np.ones(3)
        assert isinstance(alone.allreduce, types.MethodType)
        for _ in range(3):
            assert Communicator.allreduce(alone, array, out=array) is array
            assert alone.allreduce(array, **{"out": array}) is array
            assert alone.allreduce(*[array, array]) is array

    @pytest.mark.parametrize("arguments", [(), (1, 2, 3, 4, 5, 6, 7, 8, 9)])
    def test_wrong_arguments(self, ready, arguments):
        with pytest.raises(TypeError):
            ready[0].allreduce(*arguments)
        with pytest.raises(TypeError, match="self"):
            Communicator.allreduce()
        with pytest.raises(TypeError, match="unexpected"):
            ready[0].barrier(unexpected=1)

    def test_of_something_else(self):
        """Which has no calls that could be done again."""
        with pytest.raises(AttributeError, match="direct"):
            Communicator.allreduce(object(), np.ones(3))

    @pytest.mark.parametrize("parts", [None, True, (), (1, 2, 3)])
    def test_of_one_with_an_attribute_of_that_name(self, ready, parts, forms):
        communicator, array = ready
        communicator._again = parts
        assert communicator.allreduce(array, out=array) is array
        assert forms == ["run"]

    def test_overridden(self, device, make_job):
        class Counting(Communicator):
            calls = 0

            def allreduce(self, *arguments, **named):
                self.calls += 1
                return super().allreduce(*arguments, **named)

        with Counting(make_job(1), 0, device.socket) as communicator:
            array = np.ones(3)
            for _ in range(4):
                communicator.allreduce(array, out=array)
        assert communicator.calls == 4

    def test_a_class_derived_from_it(self, device, make_job, forms):
        """Its objects have the slots where those of its base class have them."""

        class Derived(Communicator):
            __slots__ = "another", "zone"

        with Derived(make_job(1), 0, device.socket) as communicator:
            communicator.another = communicator.zone = None
            array = np.ones(3)
            for _ in range(4):
                communicator.allreduce(array, out=array)
        assert forms == ["run", "run"]

    @pytest.mark.parametrize(("owner", "attribute"), [(Communicator, "_again"), *again.SLOTS.values()])
    def test_where_slots_are(self, owner, attribute):
        """In each object, whatever else it has."""
        some, other = object.__new__(owner), object.__new__(owner)
        for one, value in ((some, "x"), (other, "y")):
            setattr(one, attribute, value)
        place = again.place_of(owner, attribute)
        read = [ctypes.py_object.from_address(id(one) + place).value for one in (some, other)]
        assert read == ["x", "y"]

    def test_what_is_no_slot(self):
        with pytest.raises(ValueError, match="not in"):
            again.place_of(Communicator, "rank")

    def test_attributes_without_a_value(self, ready, forms):
        """Python says what is missing; the driver core looks for nothing behind it."""
        communicator, array = ready
        del communicator.direct.last
        with pytest.raises(AttributeError, match="last"):
            communicator.allreduce(array, out=array)
        assert forms == ["run"]

    def test_one_that_was_not_begun(self):
        """Nothing is known of its calls."""
        with pytest.raises(AttributeError, match="direct"):
            object.__new__(Communicator).allreduce(np.ones(3))

    def test_without_a_global_lock(self, monkeypatch):
        """It would look at objects that others change."""
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
        assert again.repeatable(len, print) is len

    def test_without_the_driver_core(self, monkeypatch):
        def missing():
            raise DriverMissing("none")

        monkeypatch.setattr(again, "interpreter_library", missing)
        assert again.repeatable(len, print) is len

    def test_with_it(self):
        assert again.repeatable(len, print) is not len
        assert again.repeatable(len, print)([1, 2]) == 2
