"""Drain devices: they take no new job, and end when those that run have ended."""

import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric import device_query, lifecycle, simulated_switch, state
from fanin_tools.fabric.state import FabricState
from fanin_tools.progress import steady

CREDENTIALS = "3i"  # struct ucred of socket(7): pid, uid, gid
ASK_SECONDS = 5.0


def drain(name: str, device: str | None, seconds: float | None) -> list[str]:
    """Drain the fabric `name`, or one daemon of it, wait until it has ended, and take a whole fabric down. Returns the
    names of the devices.

    seconds: to wait at most; None: no limit. Raises ToolError NO_FABRIC, and TIMEOUT if jobs run on, while the devices
    continue to drain; UsageError NO_DEVICE for an unknown daemon; as `drain_devices`.
    """
    folder = FabricState(name)
    fabric = folder.required_description()
    names = [each.name for each in fabric.daemons]
    if device is not None and device not in names:
        cause = f"fabric {name} has no daemon {device!r}"
        raise UsageError(cause, f"name one of {', '.join(names)}", name="NO_DEVICE")
    wanted = [device] if device else names
    if simulated := [each.name for each in simulated_switch.devices(fabric) if each.name in wanted]:
        cause = f"{simulated[0]} is the switch in Verilog, which can not be drained"
        raise ToolError("NOT_SUPPORTED", cause, f"end it at once: fanin fabric down --name {name}")
    processes = folder.processes()
    descriptors = {}
    for each in wanted:
        if each in processes and processes[each].alive:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                descriptors[each] = os.pidfd_open(processes[each].pid)
    _drain(descriptors, {each: folder.socket(each) for each in descriptors}, seconds)
    if device is None:
        with state.locked():
            if folder.processes() == processes:  # else another fabric of this name is up by now
                lifecycle.remove(folder)
    return wanted


def drain_devices(sockets: Mapping[str, Path], seconds: float | None) -> None:
    """Drain the devices with these control sockets, by name, and wait until all have ended. Raises ToolError NO_DEVICE,
    PERMISSION_DENIED, or TIMEOUT with what still runs."""
    descriptors: dict[str, int] = {}
    try:
        for name, path in sockets.items():
            descriptors[name] = _process_at(path)
    except ToolError:
        for descriptor in descriptors.values():
            os.close(descriptor)
        raise
    _drain(descriptors, sockets, seconds)


def _drain(descriptors: Mapping[str, int], sockets: Mapping[str, Path], seconds: float | None) -> None:
    """Drain processes, and close their descriptors. All are signalled before the first is waited for, so that each
    refuses a job that forms meanwhile."""
    end = None if seconds is None else time.monotonic() + seconds
    try:
        for name, descriptor in descriptors.items():
            _tell(descriptor, sockets[name])
        with steady("waiting for the end of jobs, and of devices", total=len(descriptors)) as waiting:
            for done, (name, descriptor) in enumerate(descriptors.items()):
                waiting.update(done)
                left = None if end is None else max(0.0, end - time.monotonic())
                if not select.select([descriptor], [], [], left)[0]:
                    raise _unfinished(name, sockets[name], seconds)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _process_at(path: Path) -> int:
    """A descriptor of the device at a socket, readable when its process has ended.

    The kernel names the process that listens there, so it can be no other, even in a container, where its number
    differs.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(ASK_SECONDS)
        try:
            connection.connect(str(path))
        except OSError as error:
            raise _absent(path, error) from error
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(CREDENTIALS))
        pid = struct.unpack(CREDENTIALS, credentials)[0]
        try:
            return os.pidfd_open(pid)
        except (OSError, ValueError) as error:  # 0: the process is in a container that is not visible from here
            cause = f"the process of the device at {path} can not be reached from here"
            raise ToolError("NO_DEVICE", cause, "call the command where the device runs") from error


def _tell(descriptor: int, path: Path) -> None:
    """path: its control socket."""
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGUSR1)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        cause = f"the device at {path} runs as another user"
        raise ToolError("PERMISSION_DENIED", cause, "run as that user, or as root") from error


def _absent(path: Path, error: OSError) -> ToolError:
    cause = f"{path}: {error.strerror or error}"
    if isinstance(error, PermissionError):
        return ToolError("PERMISSION_DENIED", cause, "run as the user of the device, or as root")
    return ToolError("NO_DEVICE", cause, "give the path of the control socket of a running device")


def _unfinished(name: str, path: Path, seconds: float | None) -> ToolError:
    try:
        jobs = len(device_query.query_status(path)["jobs"])
    except ToolError as error:
        jobs_text = f"it does not say what runs ({error.name})"
    else:
        jobs_text = f"it has {jobs} jobs"
    cause = f"{name} has not ended within {seconds:g} s: {jobs_text}"
    return ToolError(
        "TIMEOUT", cause, "it still drains: wait again with the same command, or end it at once by SIGTERM"
    )
