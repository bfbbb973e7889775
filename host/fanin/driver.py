"""libfanin (C, `core/`) as Python calls it through cffi: for joining, for memory, and for `fanin.verbs`.

Every call releases the GIL. Collectives use the extension `fanin._binding`, which is linked with the same library.
"""

import functools
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cffi

from fanin.errors import DriverMissing, FaninError
from fanin_wire import abi
from fanin_wire.abi import Status
from fanin_wire.status import status_entry

LIBRARY_PATH = Path(__file__).with_name("libfanin.so")
HEADER_PATH = Path(__file__).with_name("core") / "fanin.h"
SLICE_MS = 100  # longest stay in a C call, so that Ctrl-C gets through
MEANWHILE_MS = 5  # between two calls of `meanwhile`


def declarations(header: Path) -> str:
    """A header without its preprocessor lines and its part for C++."""
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif$", "", header.read_text(), flags=re.M | re.S)
    return re.sub(r"^#.*$", "", text, flags=re.M)


ffi = cffi.FFI()
ffi.include(abi.ffi)
ffi.cdef(declarations(HEADER_PATH))
ffi.cdef("void free(void *memory);")  # of the C library

# The types that this package makes and casts, all read at import: at first use cffi reads a type under a lock, and an
# exception meanwhile (of Ctrl-C, of a signal handler) would leave it locked for ever, or a struct without its size.
TYPES = (
    *("char *", "char[]", "size_t *", "uint32_t *", "uintptr_t", "void *", "void **"),
    *("struct fanin_address[]", "struct fanin_attach_reply *", "struct fanin_choice[]", "struct fanin_communicator *"),
    *("struct fanin_communicator **", "struct fanin_context **", "struct fanin_cqe[]", "struct fanin_cursor *"),
    *("struct fanin_job *", "struct fanin_join *", "struct fanin_join_reply *", "struct fanin_membership_request **"),
    *("struct fanin_ordinary_qp *", "struct fanin_qp_attributes *", "struct fanin_qp_init *"),
    *("struct fanin_receive_wqe *", "struct fanin_send_wqe *", "struct fanin_wc *"),
    *("struct fanin_place[]", "struct fanin_wqe *", "uint32_t[]"),
)
for _type in TYPES:
    ffi.typeof(_type)


def build_it() -> str:
    from fanin_wire.installation import install_command  # seldom needed

    return f"Build it: install a C compiler (Debian: gcc), then `{install_command()}`."


@functools.cache
def library() -> Any:
    """The loaded driver core; DriverMissing if there is none.

    All functions are made here: cffi makes them at first use, under the lock of its types. The garbage collector, which
    gives memory back through them, may run while the lock is held, and would wait for it for ever.
    """
    try:
        core = ffi.dlopen(str(LIBRARY_PATH))
    except OSError as error:
        raise DriverMissing(f"the driver core can not be loaded ({error})", remedy=build_it()) from None
    for name in dir(core):
        getattr(core, name)
    return core


def complaint() -> str:
    """Why the library refused this thread's last refused call."""
    return ffi.string(library().fanin_complaint()).decode(errors="replace")


def check(status: int, detail: str = "", **remedies: str) -> None:
    """Raise the exception of a status other than SUCCESS. remedies: by status name, instead of the general ones."""
    if status:
        raise FaninError.of(status, detail, remedies.get(status_entry(status).name, ""))


def because() -> str:
    """Why this thread's last call failed, after a colon, or "". For calls that forget earlier reasons."""
    return f": {complaint()}" if complaint() else ""


def refused(status: int) -> str:
    """Why the library refused this thread's last call, after a colon; "" if the refusal was not the library's."""
    is_refusal = status in (Status.INVALID_REQUEST, Status.NOT_SUPPORTED, Status.TIMEOUT)
    return because() if is_refusal else ""


def in_slices(wait: Callable[[int], int], timeout: float | None, meanwhile: Callable[[], None] | None = None) -> int:
    """Call `wait(ms)`, which stays at most so many milliseconds in C, until its status is not PENDING or time is out.

    Returns the last status. None: no limit. `meanwhile` is called between two waits.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    slice_ms = MEANWHILE_MS if meanwhile else SLICE_MS
    while True:
        left = slice_ms if deadline is None else math.ceil(max(0.0, deadline - time.monotonic()) * 1000)
        status = int(wait(min(left, slice_ms)))
        if status != Status.PENDING or left == 0:
            return status
        if meanwhile:
            meanwhile()
