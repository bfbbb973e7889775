"""The reader of a device's tap: it asks for the rings over the control socket, and empties them."""

import contextlib
import json
import mmap
import os
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fanin_nic.native import shared_words
from fanin_tools.errors import ToolError
from fanin_wire import abi
from fanin_wire.tap import ALL_KINDS, PACKET, RING_HEAD, UNIT, Record

REPLY_LIMIT = 1 << 16  # bytes
TAG = 1
HEAD_BYTES = RING_HEAD.itemsize
PRODUCER, MISSED, CONSUMER = (RING_HEAD.fields[name][1] for name in ("producer", "missed", "consumer"))  # type: ignore[index]
UNITS_OFFSET, KIND_OFFSET = PACKET.fields["units"][1], PACKET.fields["kind"][1]  # type: ignore[index]
DEFAULT_UNITS = 1 << 19  # 16 MiB


@dataclass(frozen=True)
class Wanted:
    """What to record. flags: of abi.TapFlag; jid: with ONE_JOB; kinds: bits of struct fanin_tap; units: of a ring."""

    flags: int
    jid: int = 0
    kinds: int = ALL_KINDS
    units: int = DEFAULT_UNITS


class Tap:
    """An open tap. `name`: of the device; `reasons`: why packets were dropped, by the number in their records. Raises
    ToolError NO_DEVICE if no device answers, or the status with which it refuses."""

    def __init__(self, path: Path, wanted: Wanted, timeout_seconds: float = 5.0) -> None:
        self._units = wanted.units
        with contextlib.ExitStack() as undo:
            self._connection = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            self._connection.settimeout(timeout_seconds)
            described, descriptor = _open(self._connection, path, wanted)
            self.name, self.lanes = str(described["name"]), int(described["lanes"])
            self.reasons: list[str] = described["reasons"]
            try:
                self._memory = mmap.mmap(descriptor, self.lanes * (HEAD_BYTES + self._units * UNIT))
            finally:
                os.close(descriptor)
            undo.pop_all()
        self._address = int(np.frombuffer(self._memory, np.uint8).ctypes.data)
        self._consumed = [0] * self.lanes

    @property
    def has_ended(self) -> bool:
        """The device has gone."""
        readable, _, _ = select.select([self._connection], [], [], 0)
        return bool(readable)

    @property
    def missed(self) -> int:
        """Records without room so far."""
        return sum(shared_words.load_acquire(self._ring(lane) + MISSED) for lane in range(self.lanes))

    def take(self) -> list[bytes]:
        """Recorded since the last call: for each lane whole records (`records` reads them)."""
        return [b"".join(self._take(lane)) for lane in range(self.lanes)]

    def _ring(self, lane: int) -> int:
        return self._address + lane * (HEAD_BYTES + self._units * UNIT)

    def _take(self, lane: int) -> Iterator[bytes]:
        """One piece, or two where the ring wraps."""
        ring, consumed = self._ring(lane), self._consumed[lane]
        produced = shared_words.load_acquire(ring + PRODUCER)
        count, first = (produced - consumed) % (1 << 32), consumed % self._units
        start = ring - self._address + HEAD_BYTES
        before_end = min(count, self._units - first)
        yield self._memory[start + first * UNIT : start + (first + before_end) * UNIT]
        yield self._memory[start : start + (count - before_end) * UNIT]
        self._consumed[lane] = produced
        shared_words.store_release(ring + CONSUMER, produced)

    def close(self) -> None:
        """What has not been taken is lost."""
        self._memory.close()
        self._connection.close()


def records(piece: bytes) -> Iterator[tuple[int, int]]:
    """Kind and place of each record of a lane from `Tap.take`."""
    place = 0
    while place < len(piece):
        units = int.from_bytes(piece[place + UNITS_OFFSET : place + UNITS_OFFSET + 2], "little")
        if (kind := piece[place + KIND_OFFSET]) != Record.FILLER:
            yield kind, place
        place += units * UNIT


def _open(connection: socket.socket, path: Path, wanted: Wanted) -> tuple[dict[str, Any], int]:
    """The tap's description, and the descriptor of its rings."""
    request = np.zeros(1, abi.TAP)
    request["head"]["version"], request["head"]["tag"] = abi.ABI_VERSION, TAG
    request["head"]["type"] = abi.MessageType.TAP
    for name in ("flags", "jid", "kinds", "units"):
        request[name] = getattr(wanted, name)
    try:
        connection.connect(str(path))
        connection.send(request.tobytes())
        reply, descriptors, _, _ = socket.recv_fds(connection, REPLY_LIMIT, 1, socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        cause = f"{path}: {error.strerror or error}"
        raise ToolError("NO_DEVICE", cause, "see fanin fabric status, start devices with fanin fabric up") from error
    size = abi.MESSAGE.itemsize
    if len(reply) < size:
        raise ToolError("NO_DEVICE", f"{path} closed the connection without an answer", "see the log of the device")
    status = int(np.frombuffer(reply, abi.MESSAGE, count=1)[0]["status"])
    if status or not descriptors:
        raise ToolError(
            abi.Status(status).name, f"{path} does not offer a tap", REMEDIES.get(status, "see the log of the device")
        )
    return json.loads(reply[size:]), descriptors[0]


REMEDIES = {
    int(abi.Status.NO_RESOURCES): "another capture or trace of this device runs: end it first",
    int(abi.Status.NOT_SUPPORTED): "restart the fabric with this installation",
    int(abi.Status.VERSION_MISMATCH): "restart the fabric with this installation",
}
