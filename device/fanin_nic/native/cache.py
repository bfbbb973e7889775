"""Where the machine code of compiled device code is kept.

All processes of a user and all copies of the same sources share a folder (`locator`; record 0094 says why). Its name
carries a digest of the sources, because numba notices a change of a function's own file only, not of the functions that
it calls. If the user's folder can not be written, one below the folder of temporary files serves: forked devices
outlive the process that compiled, and need the code as long as they run. A complete folder for this processor
(`is_complete`, `target`) serves read-only too, as in a container image; what it lacks is compiled in each process and
not kept.
"""

import hashlib
import os
import stat
import tempfile
from pathlib import Path

import fanin_wire

ENVIRONMENT_VARIABLE = "FANIN_CACHE_DIR"


class CacheUnavailable(Exception):
    """No folder for compiled code can be written. cause: the folders that were tried. The message has the remedy."""

    remedy = f"set {ENVIRONMENT_VARIABLE} to a folder that you can write"

    def __init__(self, cause: str) -> None:
        super().__init__(f"{cause}; {self.remedy}")
        self.cause = cause


def compiled_sources() -> list[Path]:
    """The files whose content ends up in machine code: those of fanin_wire and of this package."""
    device, wire = Path(__file__).parents[1], Path(fanin_wire.__file__).parent
    return sorted([*device.rglob("*.py"), *wire.glob("*.py"), *wire.glob("*.h")])


def source_digest(sources: list[Path] | None = None) -> str:
    """Digest over source files; by default over `compiled_sources`."""
    digest = hashlib.sha256()
    for path in compiled_sources() if sources is None else sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_root() -> Path | None:
    """$FANIN_CACHE_DIR, else $XDG_CACHE_HOME/fanin, else ~/.cache/fanin; None without a home."""
    if explicit := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(explicit)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "fanin"
    try:
        return Path.home() / ".cache" / "fanin"
    except RuntimeError:
        return None


def substitute_root() -> Path | None:
    """Stands in for a `cache_root` that can not be written; None without a folder for temporary files."""
    try:
        return Path(tempfile.gettempdir()) / f"fanin-cache-{os.getuid()}"
    except OSError:
        return None


def choose_cache_folder(*, ready_made: bool = True) -> Path:
    """Folder of the compiled code of exactly these sources, made if missing. With `ready_made` a complete one may be
    read-only. Raises CacheUnavailable: none can be written."""
    name, own, substitute = f"compiled-{source_digest()}", cache_root(), substitute_root()
    if own is not None and (can_be_written(own / name) or (ready_made and is_complete(own / name))):
        return own / name
    if substitute is not None and _is_private(substitute) and can_be_written(substitute / name):
        return substitute / name
    tried = f"neither in {own or 'a home'} nor in {substitute or 'a folder for temporary files'}"
    raise CacheUnavailable(f"compiled code can be kept {tried}")


def completion_mark(folder: Path) -> Path:
    """The file that exists when all that a device runs is in a cache folder; `daemon.precompile` makes it."""
    return folder / "complete"


def is_complete(folder: Path) -> bool:
    return os.access(completion_mark(folder), os.R_OK)


def _is_private(folder: Path) -> bool:
    """Whether no other user can write the folder, since devices run the code in it. It is made if missing."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def can_be_written(folder: Path) -> bool:
    """Whether files can be written into a folder, which is made if missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")
            probe.flush()
    except OSError:
        return False
    return True
