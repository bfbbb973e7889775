"""Again: the call that came last, or the one that followed it then, done once more by the driver core alone.

Where several processes share a core, the Python of a short call costs several times what it takes in a loop of its own
(docs/performance.md; that it is the caches is thought). So there is none of it in such a call: the blocking collectives
are methods in C (`core/repeatable.c`), which find it among Python's own objects, and post it and wait for it
(`core/again.c`). Whatever else comes goes the way of the Python function, their form.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from fanin.busy import busy
from fanin.driver import ffi, interpreter_library
from fanin.errors import DriverMissing
from fanin.sameness import knows_arrays

if TYPE_CHECKING:
    from fanin.direct import DirectCalls
    from fanin.stream import Stream

F = TypeVar("F", bound=Callable)

HEAD = ffi.typeof("enum fanin_object").relements["FANIN_OBJECT_HEAD"]


def repeatable(form: F, arguments: Callable) -> F:
    """The form of a collective, as a method that is done again without it where that can be. `arguments`: what makes
    its request. Without the driver core, or where that knows nothing of this interpreter's objects: the form."""
    if not knows_interpreter():
        return form
    try:
        make = getattr(interpreter_library(), "fanin_repeatable", None)
    except DriverMissing:
        return form  # nothing can be done without it, and whoever tries is told
    if make is None or not knows_arrays():  # it is older than this file, or NumPy newer than both
        return form
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object] * 2
    method: F = make(form, arguments)
    return method


def parts(direct: DirectCalls, stream: Stream) -> tuple:
    """What the driver core must know of a communicator: its attribute `_again`."""
    return direct, stream, stream.fast, busy, stream.lock.acquire, stream.lock.release, direct.go_on


def knows_interpreter() -> bool:
    """Whether this is CPython with a global lock."""
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return sys.implementation.name == "cpython" and has_lock and object.__basicsize__ == HEAD
