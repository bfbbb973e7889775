"""The files by which Linux shows itself, /proc and /sys. A container or a hardened service may see them in part."""

from pathlib import Path

from fanin_tools.errors import ToolError

MOUNT = {"/proc": "mount -t proc proc /proc", "/sys": "mount -t sysfs sysfs /sys"}
PROBE = Path("/proc/self/stat")


def missing(error: OSError) -> ToolError | None:
    """The error for a file of the kernel that can not be read; None if it is another file."""
    path = str(error.filename or "")
    folder = next((each for each in MOUNT if path.startswith(f"{each}/")), None)
    if folder is None:
        return None
    remedy = f"let this process see all of {folder} ({MOUNT[folder]}; without hidepid or subset)"
    return ToolError("NOT_SUPPORTED", f"the kernel does not show {path}: {error.strerror}", remedy)


def require_proc() -> None:
    """Raise ToolError NOT_SUPPORTED where processes can not be looked up: all would seem to have ended."""
    try:
        PROBE.read_bytes()
    except OSError as error:
        raise missing(error) or error from None
