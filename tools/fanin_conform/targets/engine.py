"""The engine of a switch or a NIC in this process, in virtual time: a run takes only computing time."""

import ipaddress
from collections import deque

from fanin_conform import datagram
from fanin_conform.agents.agent import Agent
from fanin_conform.agents.engine import EngineAgent
from fanin_conform.agents.transport import TransportAgent
from fanin_conform.targets.target import Frame
from fanin_conform.targets.transport import Sent, TransportDevice
from fanin_nic.engine import events
from fanin_nic.engine.engine import Limits, Timing
from fanin_sim.fabric.device import Device, Packet
from fanin_wire.agent import Answer, OfVerbs, Request
from fanin_wire.fields import FIRST_OFFLOAD_OPCODE, ICRC_SIZE, Opcode

ADDRESS, FIRST = "10.0.0.1", ipaddress.IPv4Address("10.0.1.1")
GROUP = "239.0.0.1"
LIMITS = Limits(
    jobs=16, slots=1024, queues=1, requests=8, regions=1, actions=512, max_chunk=4096, max_lease=256, shared=1
)
NIC_LIMITS = LIMITS._replace(queues=64, requests=64, regions=64, shared=0)
START_NS = 10**9


class EngineTarget:
    """See `target.Target`."""

    name, address, has_port, is_virtual, group = "engine", ADDRESS, False, True, GROUP
    controls = frozenset({"drain", "pause"})
    agent: Agent | None = None

    def __init__(self, count: int) -> None:
        self.addresses = [str(FIRST + number) for number in range(count)]
        self._device = self._make()
        self._now, self._missed = START_NS, 0
        self._waiting: deque[Frame] = deque()

    def _make(self) -> Device:
        return Device(ADDRESS, is_switch=True, group=GROUP, limits=LIMITS, timing=Timing())

    def send(self, source: str, data: bytes) -> None:
        """Drops a packet with a wrong ICRC, as the engine's port would."""
        if not datagram.icrc_is_right(source, ADDRESS, datagram.TESTER_PORT, data):
            return
        self._arrive(int(ipaddress.IPv4Address(source)), data[:-ICRC_SIZE])

    def _arrive(self, source: int, data: bytes) -> None:
        """Take a packet without its ICRC."""
        self._take(self._device.receive(Packet(source, self._device.address, Opcode.ACK, 0, data), self._now))
        self._device.engine.batch_end(self._now)
        self._pump()

    def receive(self, seconds: float) -> Frame | None:
        """The next packet; time passes, at most so much."""
        end = self._now + round(seconds * 1e9)
        if self._missed:
            events.note_stall(self._device.engine.base, self._missed, self._now)
            self._missed = 0
        while not self._waiting and self._next_deadline() <= end:
            self._now = max(self._now, self._next_deadline())
            self._tick()
        if self._waiting:
            return self._waiting.popleft()
        self._now = end
        return None

    def drain(self) -> None:
        """The device takes no new job until the script ends."""
        self._device.engine.header["draining"] = 1

    def stand_still(self, seconds: float) -> None:
        """The device pauses; then it takes the packets, and its driver tells the engine."""
        self._missed = round(seconds * 1e9)
        self._now += self._missed

    def script_ends(self) -> None:
        self._device.engine.header["draining"] = 0

    def _next_deadline(self) -> int:
        return self._device.next_deadline

    def _tick(self) -> None:
        self._device.engine.tick(self._now)
        self._pump()

    def now(self) -> float:
        return self._now / 1e9

    def close(self) -> None:
        """Nothing is open."""

    def _pump(self) -> None:
        """Make the device work."""
        self._take(self._device.perform())

    def _take(self, packets: list[Packet]) -> None:
        for packet in packets:
            self._leave(packet.destination, packet.data)

    def _leave(self, destination: int, packet: bytes) -> None:
        """The device sends a packet, without ICRC yet."""
        to = str(ipaddress.IPv4Address(destination))
        data = datagram.with_icrc(ADDRESS, to, datagram.DEVICE_PORT, packet + bytes(ICRC_SIZE))
        self._waiting.append(Frame(to, ADDRESS, datagram.DEVICE_PORT, data))


class NicAgent:
    def __init__(self, collectives: EngineAgent, verbs: TransportAgent) -> None:
        self._collectives, self._verbs = collectives, verbs

    def ask(self, request: Request) -> Answer:
        return self._verbs.ask(request) if isinstance(request, OfVerbs) else self._collectives.ask(request)

    def close(self) -> None:
        """Nothing is open."""


class EngineNicTarget(EngineTarget):
    """A NIC whose agent is in this process, too. transport: for ordinary traffic."""

    name = "engine-nic"  # it hears the group of its parent: packets to the group reach it

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.transport = self._make_transport()
        collectives = EngineAgent(self._device, NIC_LIMITS.queues, self._pump, lambda: self._now)
        self.agent = NicAgent(collectives, TransportAgent(self.transport, self._serve, lambda: self._now))

    def _make(self) -> Device:
        return Device(ADDRESS, is_switch=False, limits=NIC_LIMITS, timing=Timing())

    def _make_transport(self) -> TransportDevice:
        return TransportDevice(ADDRESS)

    def _arrive(self, source: int, data: bytes) -> None:
        if data[0] >= FIRST_OFFLOAD_OPCODE:
            super()._arrive(source, data)
        else:
            self._emit(self.transport.receive(data, source, self._now))

    def _next_deadline(self) -> int:
        return min(super()._next_deadline(), self.transport.next_deadline)

    def _tick(self) -> None:
        super()._tick()
        self._emit(self.transport.tick(self._now))

    def _serve(self) -> None:
        self._emit(self.transport.serve(self._now))

    def _emit(self, packets: list[Sent]) -> None:
        for destination, packet in packets:
            self._leave(destination, packet)

    def _pump(self) -> None:
        """Ranks' posts are read as far as the windows allow."""
        device = self._device
        self._take(device.perform())
        while device.engine.serve(self._now) or device.reads:
            self._take(device.perform())
            reads, device.reads[:] = list(device.reads), []
            for read in reads:
                device.finish_read(read, self._now)
            self._take(device.perform())
