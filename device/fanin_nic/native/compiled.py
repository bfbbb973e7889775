"""The one decorator of compiled device code, and where its machine code is cached.

The cache is shared by all processes of a user. Its folder carries a digest of the device's sources, because numba
notices a change of a function's own file only, not of the functions that it calls. Where no folder can be written, a
private temporary one serves for the life of the process.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numba import config, njit, types
from numba.np import numpy_support

import fanin_wire

ENVIRONMENT_VARIABLE = "FANIN_CACHE_DIR"


def compiled_sources() -> list[Path]:
    """The files whose content ends up in machine code: fanin_wire and this package, but for the simulator."""
    device, wire = Path(__file__).parents[1], Path(fanin_wire.__file__).parent
    sources = [path for path in device.rglob("*.py") if path.parent.name != "sim"]
    return sorted([*sources, *wire.glob("*.py"), *wire.glob("*.h")])


def source_digest() -> str:
    """Digest over `compiled_sources`."""
    digest = hashlib.sha256()
    for path in compiled_sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """Folder for caches: $FANIN_CACHE_DIR, else $XDG_CACHE_HOME/fanin, else ~/.cache/fanin."""
    if explicit := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fanin"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def choose_cache_folder() -> Path:
    """Folder of the compiled code of exactly these sources; made if it is missing."""
    folder = cache_root() / f"compiled-{source_digest()}"
    if _writable(folder):
        return folder
    temporary = Path(tempfile.mkdtemp(prefix="fanin-compiled-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


CACHE_FOLDER = choose_cache_folder()
config.CACHE_DIR = str(CACHE_FOLDER)

compiled = njit(nogil=True, cache=True, error_model="numpy")


def compiled_for(*arguments: Any, returns: Any = types.void) -> Any:
    """Decorator of a compiled function that many call: it is compiled once, for these arguments (dtypes of records, or
    numba types), and not anew for each kind of integer that a caller happens to have."""
    kinds = [numpy_support.from_dtype(kind) if isinstance(kind, np.dtype) else kind for kind in arguments]
    return njit(returns(*kinds), nogil=True, cache=True, error_model="numpy")
