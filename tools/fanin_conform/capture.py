"""A capture of a run: each packet of the tester and of the device, written by scapy as a file for Wireshark."""

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from scapy.packet import Raw
from scapy.utils import PcapNgWriter

from fanin_conform import datagram
from fanin_conform.targets.target import Frame, Target

RAW_IP = 101  # LINKTYPE_RAW: a socket has no link layer
CHECKSUM = slice(10, 12)  # of the IPv4 header


class Capture:
    """A file of the format pcapng, for several targets at once. Raises OSError if it can not be written."""

    def __init__(self, file: Path) -> None:
        self._writer: Any = PcapNgWriter(str(file))
        self._writer.linktype = RAW_IP
        self._writer.write_header(None)
        self._lock = threading.Lock()

    def of(self, target: Target, comment: str) -> Target:
        """Wrap a target: its packets are written with a comment, such as the name of the script."""
        return cast(Target, _Captured(target, functools.partial(self._write, target, comment)))

    def _write(self, target: Target, comment: str, source: str, destination: str, port: int, data: bytes) -> None:
        """A datagram as the IPv4 packet that section 3 of SPEC.md rebuilds for the ICRC."""
        packet = Raw(_with_checksum(datagram.whole(source, destination, port, data)))
        packet.comment = comment.encode()
        packet.time = target.now() if target.is_virtual else time.time()
        with self._lock:
            self._writer.write_packet(packet)

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()


def _with_checksum(packet: bytes) -> bytes:
    total = sum(int.from_bytes(packet[at : at + 2]) for at in range(0, datagram.IP_SIZE, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return packet[: CHECKSUM.start] + (~total & 0xFFFF).to_bytes(2) + packet[CHECKSUM.stop :]


class _Captured:
    """A target that passes each packet to `write`: source, destination, source port, datagram."""

    def __init__(self, target: Target, write: Callable[[str, str, int, bytes], None]) -> None:
        self._target, self._write = target, write

    def send(self, source: str, data: bytes) -> None:
        self._write(source, self._target.address, datagram.TESTER_PORT, data)
        self._target.send(source, data)

    def receive(self, seconds: float) -> Frame | None:
        frame = self._target.receive(seconds)
        if frame:
            self._write(frame.source, frame.destination, frame.source_port, frame.data)
        return frame

    def __getattr__(self, name: str) -> Any:
        """Everything else belongs to the target."""
        return getattr(self._target, name)
