"""The kernel's files, /proc and /sys, which a container or a hardened service may lack in part."""

from pathlib import Path

from fanin_tools.errors import ToolError

MOUNT = {"/proc": "mount -t proc proc /proc", "/sys": "mount -t sysfs sysfs /sys"}
PROBE = Path("/proc/self/stat")


def missing(error: OSError) -> ToolError | None:
    """The error for a file of the kernel that can not be read; None for other files."""
    path = str(error.filename or "")
    folder = next((each for each in MOUNT if path.startswith(f"{each}/")), None)
    if folder is None:
        return None
    remedy = f"let this process see all of {folder} ({MOUNT[folder]}; without hidepid or subset)"
    return ToolError("NOT_SUPPORTED", f"the kernel does not show {path}: {error.strerror}", remedy)


def require_proc() -> None:
    """Raise ToolError NOT_SUPPORTED if processes can not be looked up: all would seem to have ended."""
    try:
        PROBE.read_bytes()
    except OSError as error:
        raise missing(error) or error from None
