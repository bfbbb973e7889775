"""A capture: the packets of some devices, as a pcapng file.

A device has no link header, and its super-packets are no packets of the network. So each packet gets the IP and UDP
headers that the network gives it, with its place in the super-packet as identification, which its ICRC covers.
"""

import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fanin_tools.quantities import counted
from fanin_tools.tap import pcapng
from fanin_tools.tap.reader import Tap, records
from fanin_wire.fields import IPV4_UDP_SIZE, UDP_PORT
from fanin_wire.tap import PACKET, UNIT, Record

POLL_SECONDS = 0.01  # between looks at the rings
APPLICATION = "fanin capture"
# Drops that belong to the protocol: duplicates, late packets, and data ahead for others.
USUAL = {"drop_duplicate", "drop_stale", "drop_ended", "drop_not_addressed"}
RECORD = struct.Struct("<QBBHIIIHHI")
assert RECORD.size == PACKET.itemsize
IPV4 = struct.Struct(">BBHHHBBHII")
UDP = struct.Struct(">HHHH")
VERSION_AND_LENGTH, DONT_FRAGMENT, TTL, UDP_PROTOCOL = 0x45, 0x4000, 64, 17


@dataclass(frozen=True)
class Packet:
    """time: of CLOCK_MONOTONIC; drop: the counter of the reason why a device dropped it, or ""."""

    interface: int
    time: int
    direction: int
    drop: str
    data: bytes


@dataclass
class Tally:
    """Packets in the file, dropped ones among them, their reasons, and records that were missed."""

    packets: int = 0
    dropped: int = 0
    missed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        found = counted(self.packets, "packet")
        if self.dropped:
            told = ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common())
            usual = "as usual" if self.reasons.keys() <= USUAL else "see docs/errors.md"
            found += f"; {self.dropped} of them dropped, {usual}: {told}"
        return f"{found}; {self.missed} missed, make --buffer larger" if self.missed else found


def headers(source: int, destination: int, source_port: int, identification: int, length: int) -> bytes:
    """Of a packet with `length` bytes behind them. RoCEv2 leaves the UDP checksum out."""
    whole = length + IPV4_UDP_SIZE
    ip = [VERSION_AND_LENGTH, 0, whole, identification, DONT_FRAGMENT, TTL, UDP_PROTOCOL, 0, source, destination]
    ip[7] = _checksum(IPV4.pack(*ip))
    return IPV4.pack(*ip) + UDP.pack(source_port, UDP_PORT, length + UDP.size, 0)


def _checksum(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def packets_of(interface: int, tap: Tap) -> Iterator[Packet]:
    """Recorded since the last call."""
    for piece in tap.take():
        for kind, place in records(piece):
            if kind not in (Record.RECEIVED, Record.SENT):
                continue
            when, _, reason, _, length, source, destination, port, number, _ = RECORD.unpack_from(piece, place)
            data = piece[place + UNIT : place + UNIT + length]
            direction = pcapng.INBOUND if kind == Record.RECEIVED else pcapng.OUTBOUND
            whole = headers(source, destination, port, number, length) + data
            yield Packet(interface, when, direction, tap.reasons[reason], whole)


def capture(
    taps: Sequence[Tap],
    path: Path,
    has_ended: Callable[[], bool],
    *,
    only_dropped: bool = False,
    last: int | None = None,
) -> Tally:
    """Write the packets of open taps to `path` until `has_ended`, all devices have gone, or Ctrl-C or SIGTERM.
    only_dropped: packets that a device has dropped. last: keep only the last so many."""
    tally, kept, seen = Tally(), deque[Packet](maxlen=last), [0] * len(taps)
    offset = time.time_ns() - time.monotonic_ns()
    with path.open("wb") as file:
        writer = pcapng.Writer(file, APPLICATION, [tap.name for tap in taps])
        file.flush()

        def write(packet: Packet) -> None:
            writer.packet(packet.interface, packet.time + offset, packet.direction, packet.data, packet.drop)
            tally.packets += 1
            tally.dropped += packet.drop != ""
            tally.reasons.update([packet.drop] if packet.drop else [])

        def look() -> int:
            found = [packet for number, tap in enumerate(taps) for packet in packets_of(number, tap)]
            for packet in found:
                seen[packet.interface] += 1
            wanted = [packet for packet in found if packet.drop or not only_dropped]
            for packet in sorted(wanted, key=lambda packet: packet.time):
                kept.append(packet) if last is not None else write(packet)
            return len(found)

        try:
            while not has_ended() and not all(tap.has_ended for tap in taps):
                if not look():
                    time.sleep(POLL_SECONDS)
        except (KeyboardInterrupt, SystemExit):  # the usual end of a capture
            pass
        finally:
            look()
            for packet in kept:
                write(packet)
            tally.missed = sum(tap.missed for tap in taps)
            for number, tap in enumerate(taps):
                writer.statistics(number, time.time_ns(), seen[number] + tap.missed, tap.missed)
    return tally
