"""The devices that a command listens to, and for how long."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric import lifecycle
from fanin_tools.tap.reader import Tap, Wanted
from fanin_wire.fields import FIRST_OFFLOAD_OPCODE, Opcode
from fanin_wire.tap import ALL_KINDS, MAX_UNITS, MIN_UNITS, ORDINARY_KIND, UNIT

ORDINARY, REMOTE = "ordinary", "rdma://"
KINDS = {code.name.lower(): code - FIRST_OFFLOAD_OPCODE for code in Opcode} | {ORDINARY: ORDINARY_KIND}
MIB = 1 << 20


def sockets_of(devices: Sequence[str], fabric: str) -> list[Path]:
    """Control sockets of devices: of a fabric by name, of all if none is named, or paths, with a slash.

    Raises ToolError NO_DEVICE if there is no such fabric, NOT_SUPPORTED for a device over RDMA, whose rings can not be
    mapped; UsageError if the fabric has no such device.
    """
    if remote := [device for device in devices if device.startswith(REMOTE)]:
        cause = f"{', '.join(remote)}: a device shows its records on its own host alone"
        raise ToolError("NOT_SUPPORTED", cause, "run this command on that host, with -d PATH of the control socket")
    paths = [Path(device) for device in devices if "/" in device]
    named = [device for device in devices if "/" not in device]
    if paths and not named:
        return paths
    found = lifecycle.find(fabric)
    if found is None:
        cause = f"no fabric {fabric} is up"
        raise ToolError("NO_DEVICE", cause, "bring it up (fanin fabric up), or give the path of a control socket")
    present = [device.name for device in found.fabric.daemons]
    if unknown := [name for name in named if name not in present]:
        raise UsageError(f"fabric {fabric} has no device {', '.join(unknown)}", f"its devices: {', '.join(present)}")
    return [*paths, *(found.state.socket(name) for name in named or present)]


def kinds_of(names: Sequence[str]) -> int:
    """The bitmap of kinds of packets; all for no names. Raises UsageError for an unknown one."""
    if unknown := [name for name in names if name.lower() not in KINDS]:
        raise UsageError(f"there is no kind of packet {', '.join(unknown)}", f"the kinds: {', '.join(KINDS)}")
    return sum(1 << KINDS[name] for name in {name.lower() for name in names}) or ALL_KINDS


def units_of(mebibytes: int) -> int:
    """Of a ring of about so many MiB: the next power of two that devices take."""
    wanted = max(MIN_UNITS, min(MAX_UNITS, mebibytes * MIB // UNIT))
    return 1 << (wanted - 1).bit_length()


@contextlib.contextmanager
def listening(sockets: Sequence[Path], wanted: Wanted) -> Iterator[list[Tap]]:
    """For the time of the block. Raises as `Tap`."""
    with contextlib.ExitStack() as held:
        yield [held.enter_context(contextlib.closing(Tap(path, wanted))) for path in sockets]


@contextlib.contextmanager
def bound(seconds: float | None, command: Sequence[str]) -> Iterator[Callable[[], bool]]:
    """For the block: whether the time is over, or the command that runs meanwhile has ended. Raises UsageError if there
    is no such program, ToolError PROGRAM_FAILED at the end of the block if it has failed."""
    if not command:
        end = None if seconds is None else time.monotonic() + seconds
        yield lambda: end is not None and time.monotonic() >= end
        return
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        cause = f"{command[0]} can not be started: {error.strerror}"
        raise UsageError(cause, "put -- before the program, and give its path") from error
    with process:
        end = None if seconds is None else time.monotonic() + seconds
        try:
            yield lambda: process.poll() is not None or (end is not None and time.monotonic() >= end)
        finally:
            process.terminate()
        code = process.wait()
    if code > 0:
        raise ToolError("PROGRAM_FAILED", f"{command[0]} ended with exit code {code}", "see its error output above")
