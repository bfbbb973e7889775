"""The planner of the shim as Python calls it: the C functions that need no MPI."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cffi

import fanin.mpi
from fanin.driver import ffi as core
from fanin_wire.abi import constant

FOLDER = Path(fanin.mpi.__file__).parent


def declarations(header: str) -> str:
    """A header of the shim without what cffi's parser does not take."""
    text = re.sub(r"/\*.*?\*/", "", (FOLDER / header).read_text(), flags=re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    return text.replace("FANIN_MAX_HOPS", str(constant("FANIN_MAX_HOPS")))


ffi = cffi.FFI()
ffi.include(core)
ffi.cdef(declarations("plan.h") + declarations("job.h"))
library: Any = ffi.dlopen(str(fanin.mpi.library_path()))
COLLECTIVES = {
    name.removeprefix("FANIN_").lower(): value
    for name, value in ffi.typeof("enum collective").relements.items()
    if name != "FANIN_COLLECTIVES"
}
