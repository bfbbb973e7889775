"""Query a device's status over its control socket."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fanin_tools.errors import ToolError
from fanin_wire import abi

REPLY_LIMIT = 1 << 20  # bytes: JSON with all counters, jobs and links of a device
STATUS_TAG = 1


def query_status(path: Path, timeout_seconds: float = 5.0) -> dict[str, Any]:
    """The STATUS reply of the device at `path`.

    Raises ToolError NO_DEVICE if no device answers, VERSION_MISMATCH if it has another version of the host interface,
    or the status with which it refuses.
    """
    with status_connection(path, timeout_seconds) as status:
        return status


@contextmanager
def profiling(path: Path, timeout_seconds: float = 5.0) -> Iterator[None]:
    """Let the device profile itself during the block; `query_status` then has "profile". Raises as that does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(timeout_seconds)
        _decode(path, _exchange(connection, path, abi.MessageType.PROFILE))
        yield


@contextmanager
def status_connection(path: Path, timeout_seconds: float = 5.0) -> Iterator[dict[str, Any]]:
    """As `query_status`, with the connection open for the time of the block. The device serves connections in order, so
    it has seen the end of all that were closed before."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(timeout_seconds)
        yield _decode(path, _exchange(connection, path))


def _exchange(connection: socket.socket, path: Path, kind: int = abi.MessageType.STATUS) -> bytes:
    request = np.zeros(1, abi.MESSAGE)
    request["version"] = abi.ABI_VERSION
    request["type"] = kind
    request["tag"] = STATUS_TAG
    try:
        connection.connect(str(path))
        connection.send(request.tobytes())
        return connection.recv(REPLY_LIMIT)
    except PermissionError as error:
        cause = f"this user may not open {path}"
        remedy = "run as the user of the device, or start it as yours (docs/deployment.md)"
        raise ToolError("PERMISSION_DENIED", cause, remedy) from error
    except OSError as error:
        cause = f"{path}: {error.strerror or error}"
        raise ToolError("NO_DEVICE", cause, "see fanin fabric status, start devices with fanin fabric up") from error


def _decode(path: Path, reply: bytes) -> dict[str, Any]:
    size = abi.MESSAGE.itemsize
    if len(reply) < size:
        raise ToolError("NO_DEVICE", f"{path} closed the connection without an answer", "see the log of the device")
    head = np.frombuffer(reply, abi.MESSAGE, count=1)[0]
    if head["version"] != abi.ABI_VERSION:
        cause = f"{path} speaks version {head['version']} of the host interface, this command {abi.ABI_VERSION}"
        raise ToolError("VERSION_MISMATCH", cause, "restart the fabric with this installation")
    if head["status"] != abi.Status.SUCCESS:
        name = abi.Status(head["status"]).name
        raise ToolError(
            name, f"{path} refused a {abi.MessageType(head['type']).name} request", "see the log of the device"
        )
    return json.loads(reply[size:])
