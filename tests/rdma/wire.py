"""The wire between the guest and the NICs of the test: Ethernet frames, and their faults.

The test process is the wire: it passes each frame to and from the guest. So loss, repetition and reordering need no
rights, and come from a seed. Only packets of RoCEv2 suffer; ARP for the stations is answered here.
"""

import collections
import contextlib
import random
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fanin_wire.fields import ICRC_SIZE, UDP_PORT
from fanin_wire.icrc import icrc, verify
from fanin_wire.rocev2 import OPCODES

from .machine.guest import MAC, Guest

ETHERNET = struct.Struct("!6s6sH")
ARP = struct.Struct("!HHBBH6s4s6s4s")
IPV4 = struct.Struct("!BBHHHBBH4s4s")
UDP = struct.Struct("!HHHH")
ARP_TYPE, IPV4_TYPE = 0x0806, 0x0800
ARP_REQUEST, ARP_REPLY = 1, 2
UDP_PROTOCOL = 17
NO_FRAGMENTS = 0x4000
TTL = 64
GUEST_MAC = bytes.fromhex(MAC.replace(":", ""))
SHORTEST = 60  # bytes of a frame
LENGTH = struct.Struct("!I")
MAX_ELAPSED_NS = 50_000_000  # time in a pause of this process does not count
LAST_PACKETS = 12  # in the message of a failure
HELD_SECONDS = 0.05  # at most, for a packet to be overtaken


class Packet(NamedTuple):
    ip: bytes

    @property
    def source(self) -> bytes:
        return self.ip[12:16]

    @property
    def destination(self) -> bytes:
        return self.ip[16:20]

    @property
    def transport(self) -> bytes:
        """From the BTH to before the ICRC."""
        return self.ip[IPV4.size + UDP.size : -ICRC_SIZE]

    @property
    def name(self) -> str:
        code = self.transport[0]
        return OPCODES[code].name if code in OPCODES else f"opcode {code:#04x}"

    def __str__(self) -> str:
        """Its opcode, its sequence number, and whether it asks for an acknowledgement."""
        asks = ", asks" if self.transport[8] & 0x80 else ""
        return f"{self.name} {int.from_bytes(self.transport[9:12])}{asks}"


def packet(
    source: bytes, destination: bytes, transport: bytes, *, port: int = UDP_PORT, identification: int = 0
) -> Packet:
    """A packet with a right ICRC around BTH and payload. Addresses are 4 bytes each."""
    udp_length = UDP.size + len(transport) + ICRC_SIZE
    total = IPV4.size + udp_length
    head = IPV4.pack(0x45, 0, total, 0, NO_FRAGMENTS, TTL, UDP_PROTOCOL, 0, source, destination)
    head = head[:10] + checksum(head) + head[12:]
    bare = head + UDP.pack(UDP_PORT, UDP_PORT, udp_length, 0) + transport + bytes(ICRC_SIZE)
    return Packet(bare[:-ICRC_SIZE] + icrc(bare))


def checksum(header: bytes) -> bytes:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (total ^ 0xFFFF).to_bytes(2)


class Faults(NamedTuple):
    """Shares of the packets in each direction that are lost, repeated, and overtaken by up to `overtaken_by` others."""

    loss: float = 0
    repetition: float = 0
    reordering: float = 0
    overtaken_by: int = 3


class Station(Protocol):
    """A NIC on the wire."""

    address: bytes

    def receive(self, packets: Sequence[Packet], now: int) -> None:
        """Packets arrive, in a batch."""

    def take(self, now: int) -> list[Packet]:
        """Do the due work. Returns packets to send."""

    def deadline(self) -> int:
        """Time in ns of the next due work."""


class _Direction:
    """Packets under way in one direction, with their faults."""

    def __init__(self, random_numbers: random.Random) -> None:
        self._random = random_numbers
        self.held: list[list] = []  # [packet, packets that may still overtake it, time at which it goes on]

    def pass_on(self, packet: Packet, faults: Faults, now: float) -> list[Packet]:
        """The packets that arrive when one is sent."""
        if self._random.random() < faults.loss:
            return []
        arriving = [packet]
        if self._random.random() < faults.repetition:
            arriving.append(packet)
        if self._random.random() < faults.reordering:
            self.held.append([packet, self._random.randint(1, faults.overtaken_by), now + HELD_SECONDS])
            return []
        for held in self.held:
            held[1] -= 1
        return arriving + self.due(now)

    def due(self, now: float) -> list[Packet]:
        """Packets that have been held back long enough."""
        due = [held[0] for held in self.held if held[1] <= 0 or held[2] <= now]
        self.held = [held for held in self.held if held[1] > 0 and held[2] > now]
        return due


class Wire:
    """The network of a guest. `log`: all packets before faults, while `logging` is set. counts: by name, for a
    failure's message."""

    def __init__(self, guest: Guest, seed: int) -> None:
        self.guest = guest
        self.seed = seed
        self.faults = Faults()
        self.log: list[Packet] = []
        self.logging = False
        self.counts: collections.Counter[str] = collections.Counter()
        self._recent: collections.deque[str] = collections.deque(maxlen=LAST_PACKETS)
        self._stations: dict[bytes, Station] = {}
        self._random = random.Random(seed)
        self._to_guest, self._from_guest = _Direction(self._random), _Direction(self._random)
        self._input, self._output = bytearray(), bytearray()
        self._now, self._last = 1_000_000_000, time.monotonic_ns()
        guest.serve = self.step

    def attach(self, station: Station) -> None:
        self._stations[station.address] = station

    def detach(self, station: Station) -> None:
        """Take a NIC off the wire: for the guest it is dead."""
        del self._stations[station.address]

    @property
    def now(self) -> int:
        """Time in ns, without pauses of this process."""
        time_now = time.monotonic_ns()
        self._now += min(time_now - self._last, MAX_ELAPSED_NS)
        self._last = time_now
        return self._now

    # Steps

    def run(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        """Run until a condition holds. Raises GuestFailed, with the counts, after `seconds` of this clock."""
        end = self.now + int(seconds * 1e9)
        while not done():
            if self.now > end:
                raise self.guest.failure(f"and the NIC did not come to this in {seconds:.0f} s: {what}; {self}")
            self.step(0.05)

    def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step(0.02)

    def step(self, seconds: float, descriptors: Sequence[int] = ()) -> None:
        """One turn: wait for a frame, for `descriptors` or for due work, for up to some time; then handle it."""
        self._serve()
        until = min((station.deadline() for station in self._stations.values()), default=self._now)
        if until > self._now:
            seconds = min(seconds, (until - self._now) / 1e9)
        if self._to_guest.held or self._from_guest.held:
            seconds = min(seconds, HELD_SECONDS)
        socket_number = self.guest.frames.fileno()
        writers = [socket_number] if self._output else []
        select.select([socket_number, *descriptors], writers, [], max(seconds, 0))
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            self._input += self.guest.frames.recv(1 << 20)
        self._serve()

    def _serve(self) -> None:
        arriving: dict[bytes, list[Packet]] = collections.defaultdict(list)
        now = time.monotonic()
        for frame in self._frames():
            for found in self._look_at(frame):
                self._note("from the guest", found)
                for passed in self._from_guest.pass_on(found, self.faults, now):
                    arriving[passed.destination].append(passed)
        for passed in self._from_guest.due(now):
            arriving[passed.destination].append(passed)
        for address, station in self._stations.items():
            if packets := arriving.get(address):
                station.receive(packets, self.now)
            for sent in station.take(self.now):
                self._note("to the guest", sent)
                self.send(sent)
        for passed in self._to_guest.due(now):
            self._put(passed)
        self._flush()

    def send(self, sent: Packet) -> None:
        for passed in self._to_guest.pass_on(sent, self.faults, time.monotonic()):
            self._put(passed)

    def _note(self, direction: str, seen: Packet) -> None:
        self.counts[f"{seen.name} {direction}"] += 1
        self._recent.append(f"{self._now / 1e9:.3f} s {direction}: {seen}")
        if self.logging:
            self.log.append(seen)

    # Frames

    def _frames(self) -> list[bytes]:
        """The whole frames that have arrived."""
        found, at = [], 0
        while len(self._input) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._input, at)
            if len(self._input) - at < LENGTH.size + length:
                break
            found.append(bytes(self._input[at + LENGTH.size : at + LENGTH.size + length]))
            at += LENGTH.size + length
        del self._input[:at]
        return found

    def _look_at(self, frame: bytes) -> list[Packet]:
        """The packet of RoCEv2 in a frame, if any. An ARP request is answered."""
        *_, kind = ETHERNET.unpack_from(frame)
        body = frame[ETHERNET.size :]
        if kind == ARP_TYPE:
            self._answer_arp(body)
        elif kind == IPV4_TYPE and body[9] == UDP_PROTOCOL and int.from_bytes(body[22:24]) == UDP_PORT:
            whole = body[: int.from_bytes(body[2:4])]
            if verify(whole):
                return [Packet(whole)]
            self.counts["bad ICRC from the guest"] += 1
        else:
            self.counts[f"other frames of type {kind:#06x} from the guest"] += 1
        return []

    def _answer_arp(self, body: bytes) -> None:
        *_, operation, sender_mac, sender, _, target = ARP.unpack_from(body)
        if operation == ARP_REQUEST and target in self._stations:
            answer = ARP.pack(1, IPV4_TYPE, 6, 4, ARP_REPLY, mac_of(target), target, sender_mac, sender)
            self._put_frame(ETHERNET.pack(sender_mac, mac_of(target), ARP_TYPE) + answer)

    def _put(self, sent: Packet) -> None:
        self._put_frame(ETHERNET.pack(GUEST_MAC, mac_of(sent.source), IPV4_TYPE) + sent.ip)

    def _put_frame(self, frame: bytes) -> None:
        frame = frame.ljust(SHORTEST, b"\0")
        self._output += LENGTH.pack(len(frame)) + frame

    def _flush(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._output:
                del self._output[: self.guest.frames.send(self._output[: 1 << 20])]

    def __str__(self) -> str:
        counts = dict(sorted(self.counts.items()))
        last = "".join(f"{line}\n" for line in self._recent)
        return f"seed {self.seed}, {self.faults}, {counts}, now {self._now / 1e9:.3f} s; the last packets:\n{last}"


def mac_of(address: bytes) -> bytes:
    return b"\x52\x54" + address


def address_bytes(text: str) -> bytes:
    return socket.inet_aton(text)
