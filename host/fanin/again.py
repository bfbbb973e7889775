"""Again: the call that came last, or the one that followed it then, done once more by the driver core alone.

Where several processes share a core, the Python of a short call costs several times what it takes in a loop of its own
(docs/performance.md; that it is the caches is thought). So there is none of it in such a call: the blocking collectives
are methods in C (`core/repeatable.c`), which find it among Python's own objects, and post it and wait for it
(`core/again.c`). Whatever else comes goes the way of the Python function, their form.

The attributes that it looks at are slots of their classes: each lies at the same place in all objects of its class,
where it can be read without Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from fanin.busy import busy
from fanin.direct import DirectCalls
from fanin.driver import ffi, interpreter_library
from fanin.errors import DriverMissing
from fanin.fastpath import FastPath
from fanin.prepared import Attempt, Remembered
from fanin.sameness import knows_arrays
from fanin.stream import Stream

F = TypeVar("F", bound=Callable)

# Of struct fanin_slots all but `again`: the attributes, each with the class that has it as a slot.
SLOTS: dict[str, tuple[type, str]] = {
    "last": (DirectCalls, "last"),
    "follower": (Remembered, "follower"),
    "address": (Remembered, "address"),
    "prepared": (Attempt, "address"),
    "values": (Attempt, "values"),
    "result": (Attempt, "new"),
    "current": (FastPath, "current"),
    "stopped": (Stream, "stopped"),
}
WORD = ffi.sizeof("uintptr_t")
HEAD = ffi.typeof("enum fanin_object").relements["FANIN_OBJECT_HEAD"]


def repeatable(form: F, arguments: Callable) -> F:
    """The form of a collective, as a method that is done again without it where that can be. `arguments`: what makes
    its request. Without the driver core, or where that knows nothing of this interpreter's objects: the form."""
    make = _function("fanin_repeatable")
    if make is None:
        return form
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object] * 2
    method: F = make(form, arguments)
    return method


def look_into(groups: type) -> None:
    """Tell the driver core where the attributes lie. groups: the class of communicators; until it is known nothing is
    done again."""
    tell = _function("fanin_look_into")
    if tell is None:
        return
    slots = ffi.new("struct fanin_slots *", {"again": place_of(groups, "_again")})
    for name, (owner, attribute) in SLOTS.items():
        setattr(slots, name, place_of(owner, attribute))
    tell.restype, tell.argtypes = None, [ctypes.py_object, ctypes.c_void_p]
    tell(groups, int(ffi.cast("uintptr_t", slots)))


def place_of(owner: type, attribute: str) -> int:
    """Bytes from the beginning of an object to a slot of its class: seen in an object that has a mark there."""
    probe: Any = object.__new__(owner)
    mark = object()
    setattr(probe, attribute, mark)
    words = ffi.unpack(ffi.cast("uintptr_t *", id(probe)), owner.__basicsize__ // WORD)
    return WORD * words.index(id(mark))


def _function(name: str) -> Any:
    """Of the driver core; None where it can not look at the objects of this interpreter."""
    if not knows_interpreter():
        return None
    try:
        function = getattr(interpreter_library(), name, None)
    except DriverMissing:
        return None  # nothing can be done without it, and whoever tries is told
    # It may be older than this file, or NumPy newer than both.
    return function if function is not None and knows_arrays() else None


def parts(direct: DirectCalls, stream: Stream) -> tuple:
    """What the driver core must know of a communicator: its attribute `_again`."""
    return direct, stream, stream.fast, busy, stream.lock.acquire, stream.lock.release, direct.go_on


def knows_interpreter() -> bool:
    """Whether this is CPython with a global lock."""
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return sys.implementation.name == "cpython" and has_lock and object.__basicsize__ == HEAD
