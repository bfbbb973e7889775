"""The driver core (C, `core/`) as Python calls it: loaded with dlopen, the GIL released in every call but those of
`interpreter_library`."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cffi

from fanin.errors import DriverMissing, FaninError
from fanin_wire import abi
from fanin_wire.status import status_entry

LIBRARY_PATH = Path(__file__).with_name("libfanin.so")
HEADER_PATH = Path(__file__).with_name("core") / "fanin.h"
SLICE_MS = 100  # longest stay in a C call, so that Ctrl-C gets through


def _declarations() -> str:
    return re.sub(r"^#.*$", "", HEADER_PATH.read_text(), flags=re.M)


ffi = cffi.FFI()
ffi.include(abi.ffi)
ffi.cdef(_declarations())

# What this package makes and casts. cffi reads the name of a type at its first use, with a lock that it takes by hand:
# an exception amid that (of Ctrl-C, or of a signal handler) would leave it taken for ever, or a struct without its
# size. So all are read at import.
TYPES = (
    *("char *", "char[]", "size_t *", "uint32_t *", "uint64_t *", "uintptr_t", "uintptr_t *", "void *", "void **"),
    *("struct fanin_address[]", "struct fanin_arguments *", "struct fanin_attach_reply *", "struct fanin_context **"),
    *("struct fanin_cqe[]", "struct fanin_join *", "struct fanin_join_reply *", "struct fanin_prepared *"),
    *("struct fanin_repeat *", "struct fanin_request **", "struct fanin_slots *", "struct fanin_stream *"),
    "struct fanin_wqe *",
)
for _type in TYPES:
    ffi.typeof(_type)


@functools.cache
def library() -> Any:
    """The loaded driver core; DriverMissing if there is none.

    cffi makes each function at its first use, with a lock that it also has while it reads the name of a type. The
    garbage collector may come amid that, and gives memory back, which would then wait for the lock for ever; so all
    functions are made here.
    """
    core = _loaded(ffi.dlopen)
    for name in dir(core):
        getattr(core, name)
    return core


@functools.cache
def interpreter_library() -> Any:
    """The same, for the functions that work on Python's objects (`core/again.c`): called with the GIL."""
    return _loaded(ctypes.PyDLL)


def _loaded(load: Callable[[str], Any]) -> Any:
    try:
        return load(str(LIBRARY_PATH))
    except OSError as error:
        remedy = "Build it: install a C compiler (Debian: gcc), then `pip install -e .` in the project's folder."
        raise DriverMissing(f"the driver core can not be loaded ({error})", remedy=remedy) from None


def check(status: int, detail: str = "", **remedies: str) -> None:
    """Raise the exception of a status other than SUCCESS. remedies: by status name, in place of the general ones."""
    if status:
        raise FaninError.of(status, detail, remedies.get(status_entry(status).name, ""))
