"""The tester of one script about ordinary traffic.

Silence is proved by a READ of no bytes through another queue pair, from the same address and port: the response shows
that the device has handled all packets before. It is asked twice, because a device may work at several queue pairs at
once. So a device must answer READ, which every RoCE device does.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from scapy.packet import Packet

from fanin_conform import datagram
from fanin_conform.listener import RECEIVE_TIMEOUT_S, Listener, Mismatch, NoFaninDevice
from fanin_conform.profile import EVERYTHING, LeftOut, Profile
from fanin_conform.targets.target import Frame, Target
from fanin_conform.verbs import packets
from fanin_conform.verbs.packets import PSN_MASK, Dissected, as_text
from fanin_wire import layers
from fanin_wire.agent import AgentError, Answer, ConnectQp, CreateQp, DestroyQp, Request
from fanin_wire.fields import BTH, DEFAULT_PKEY
from fanin_wire.rocev2 import CODES

FENCE = 0  # number of its queue pair at the agent; those of scripts follow
ROUNDS = 2
NO_QUEUE_PAIRS = ("NOT_SUPPORTED", "WRONG_REQUEST")  # answers of an agent without them
PSN = BTH.byte_offset("psn")
CONSTANT = {"version": 0, "pkey": DEFAULT_PKEY, "resv6": 0, "resv7": 0}
ANY = object()  # an expected field that may have any value
MAX_SECONDS = 10.0  # that a script may spend where time is real


class Expected(NamedTuple):
    """A packet that must come to a queue pair of the tester. Other fields may have any value."""

    qpn: int
    name: str
    fields: dict[str, Any]
    payload: bytes = b""

    def __str__(self) -> str:
        shown = [f"{name}={as_text(name, value)}" for name, value in self.fields.items() if value is not ANY]
        data = f"{len(self.payload)} bytes: {self.payload[:16].hex()}" if self.payload else ""
        return " ".join([self.name, *shown, *([data] if data else [])])

    def differences(self, seen: Dissected) -> list[str]:
        """The fields of a packet that are not as expected."""
        wrong = [
            f"{name} is {as_text(name, seen.fields[name])}, not {as_text(name, value)}"
            for name, value in self.fields.items()
            if value is not ANY and seen.fields[name] != value
        ]
        if seen.payload != self.payload:
            wrong.append(f"payload is {seen.payload[:16].hex()}, not {self.payload[:16].hex()}")
        return wrong


class VerbsTester(Listener):
    """The tester of ordinary traffic. local: the address that it sends from."""

    def __init__(self, target: Target, seed: int | str, profile: Profile = EVERYTHING) -> None:
        super().__init__(target, seed, profile)
        assert target.agent is not None
        self._agent, self.local = target.agent, target.addresses[0]
        self.queue_pairs = FENCE + 1
        self._fence_qpn, self._fence_psn = self.number(24), self.number(24)
        self._fence = b""  # the packet that asks, but for its PSN

    # The host of the device

    def ask(self, request: Request) -> Answer:
        """A request of the agent. Raises Mismatch if it fails."""
        try:
            return self._agent.ask(request)
        except AgentError as error:
            raise Mismatch(f"the agent: {error}") from None

    # The network

    def send(self, packet: Packet | bytes, *, source: str = "") -> None:
        """Send a packet: scapy layers from the BTH on, or the bytes of a datagram."""
        source = source or self.local
        data = packet if isinstance(packet, bytes) else datagram.build(packet, source, self.target.address)
        self.log.append(f"{source} > device: {packets.dissect(data) or data.hex()}")
        self.target.send(source, data)

    def expect(self, *expected: Expected, clause: str = "") -> list[Dissected]:
        """These packets come, in this order to each queue pair of the tester, and no others."""
        clauses = tuple(clause.split())
        left = self.everything(len(expected))
        found = []
        for each in expected:
            own = [packet for packet in left if packet.fields["dqpn"] == each.qpn]
            if not own or own[0].name != each.name:
                raise Mismatch(f"expected {each}\nseen     {own[0] if own else 'nothing'}", clauses)
            if wrong := each.differences(own[0]):
                raise Mismatch(f"expected {each}\nseen     {own[0]}\n         {'; '.join(wrong)}", clauses)
            left.remove(own[0])
            found.append(own[0])
        if left:
            raise Mismatch(f"expected nothing more\nseen     {left[0]}", clauses)
        return found

    def nothing(self, clause: str = "") -> None:
        self.expect(clause=clause)

    def everything(self, wanted: int = 0) -> list[Dissected]:
        """All packets until the fence answers, and at least `wanted`."""
        seen: list[Dissected] = []
        for _ in range(ROUNDS):
            self._ask_fence()
            while (packet := self._next()) is not None and not self._is_fence(packet):
                seen.append(packet)
            if packet is None:
                raise Mismatch("the device no longer answers READ through another queue pair", ("18.2-8",))
        while len(seen) < wanted:
            packet = self._next()
            if packet is None:
                break
            seen.append(packet)
        return seen

    def wait(self, seconds: float, until: Callable[[list[Dissected]], bool] = lambda _: False) -> list[Dissected]:
        """Packets for so long, or until there are enough. Raises LeftOut if this takes long in real time."""
        if not self.target.is_virtual and seconds > MAX_SECONDS:
            raise LeftOut(f"time below {MAX_SECONDS:.0f} s for this: {seconds:.0f} s")
        seen: list[Dissected] = []
        end = self.target.now() + seconds
        while (left := end - self.target.now()) > 1e-6 and not until(seen):
            packet = self._next(left)
            if packet is not None:
                seen.append(packet)
        return seen

    def _next(self, seconds: float = RECEIVE_TIMEOUT_S) -> Dissected | None:
        frame = self._receive(seconds)
        if frame is None:
            return None
        packet = self.checked(frame)
        if not self._is_fence(packet):
            self.log.append(f"device > {frame.destination}: {packet}")
        return packet

    def checked(self, frame: Frame) -> Dissected:
        """Check the demands on every packet of a device."""
        packet = packets.dissect(frame.data)
        if packet is None:
            raise Mismatch(f"not a packet of ordinary traffic: {frame.data[:64].hex()}", ("18.1-1",))
        if not packets.icrc_is_right(frame.source, frame.destination, frame.source_port, frame.data):
            raise Mismatch(f"wrong ICRC: {packet}", ("18.1-2",))
        for name, value in CONSTANT.items():
            if packet.fields[name] != value:
                raise Mismatch(f"{name} is {packet.fields[name]}, not {value}: {packet}", ("18.1-1",))
        if (len(packet.payload) + len(packet.padding)) % 4:
            raise Mismatch(f"{len(packet.payload)} bytes and {len(packet.padding)} of padding: {packet}", ("18.1-3",))
        return packet

    # The fence

    def join_fence(self) -> None:
        """Open its queue pair. Raises NoFaninDevice without an answer, LeftOut if the agent has no queue pairs."""
        try:
            made = self._agent.ask(CreateQp(qp=FENCE))
        except AgentError as error:
            if error.name not in NO_QUEUE_PAIRS:
                raise
            raise LeftOut(f"queue pairs of ordinary traffic ({error})") from None
        asked = layers.BTH(opcode=CODES["RC_RDMA_READ_REQUEST"], dqpn=made["qpn"], ackreq=1) / layers.RETH()
        self._fence = datagram.build(asked, self.local, self.target.address)
        path = ConnectQp(
            qp=FENCE, address=self.local, qpn=self._fence_qpn, receive_psn=self._fence_psn, rights=("REMOTE_READ",)
        )
        self.ask(path)
        self._ask_fence()
        while frame := self._receive(RECEIVE_TIMEOUT_S):
            packet = packets.dissect(frame.data)
            if packet and self._is_fence(packet):
                return
        raise NoFaninDevice(self.target.address)

    def _ask_fence(self) -> None:
        asked = bytearray(self._fence)
        asked[PSN : BTH.size] = self._fence_psn.to_bytes(3)
        data = datagram.with_icrc(self.local, self.target.address, datagram.TESTER_PORT, bytes(asked))
        self.target.send(self.local, data)
        self._fence_psn = (self._fence_psn + 1) & PSN_MASK

    def _is_fence(self, packet: Dissected) -> bool:
        return packet.fields["dqpn"] == self._fence_qpn

    def close(self) -> None:
        """Destroy all queue pairs, and discard further packets."""
        for number in range(FENCE + 1, self.queue_pairs):
            with contextlib.suppress(AgentError):  # the verdict is known
                self._agent.ask(DestroyQp(qp=number))
        with contextlib.suppress(Mismatch):
            self.everything()
        with contextlib.suppress(AgentError):
            self._agent.ask(DestroyQp(qp=FENCE))
