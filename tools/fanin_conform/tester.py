"""The tester of one script: it sends, and compares received packets with expected ones.

Silence is proved, not waited for (`fence`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from scapy.packet import Packet

from fanin_conform import datagram
from fanin_conform.datagram import Dissected
from fanin_conform.fence import JobFence, LeaveFence
from fanin_conform.listener import RECEIVE_TIMEOUT_S, Listener, Mismatch, NoFaninDevice
from fanin_conform.profile import EVERYTHING, LeftOut, Profile
from fanin_conform.targets.target import Frame, Target
from fanin_conform.values import ceth_text, payload_difference, payload_text
from fanin_wire import fields
from fanin_wire.fields import Opcode

ANY = object()  # an expected field that may have any value
NAK_S = 0.003
MAX_SECONDS = 10.0  # that a script may spend where time is real
MIN_SECONDS = 1e-6  # of a wait: below the resolution of clocks
# Fields of the CETH that section 4 of SPEC.md names, by opcode; all others must be 0.
PLACE = {"position", "seg", "mid", "sid"}
DATA = {*PLACE, "op", "dtype", "flags", "contributions", "status", "node_bitmap", "rank_bitmap", "segment_index"}
NAMED = {
    Opcode.CONTRIBUTION: DATA,
    Opcode.RESULT: DATA | {"token"},
    Opcode.PROBE: DATA | {"token"},
    Opcode.NEED: PLACE | {"token"},
    Opcode.WAIT: PLACE | {"token", "node_bitmap"},
    Opcode.ACK: {"position", "seg", "node_bitmap", "rank_bitmap", "token"},
    Opcode.CONFIG: {"token"},
    Opcode.CONFIG_ACK: {"token", "status", "seg", "node_bitmap", "rank_bitmap"},
    Opcode.LEAVE: {"status", "seg", "node_bitmap", "rank_bitmap"},
    Opcode.LEAVE_ACK: set[str](),
    Opcode.QUERY: {"token"},
    Opcode.STATUS: {"token", "status", "seg", "node_bitmap"},
    Opcode.ABORT: {"status", "seg", "node_bitmap", "rank_bitmap"},
    Opcode.NAK: {"status"},
    Opcode.KEEPALIVE: {"node_bitmap"},
}
REPEATED = (Opcode.CONFIG, Opcode.LEAVE)  # a device repeats them until they are answered
ALWAYS = {"version", "jid", "key", "source", "lane", "length", "segment_index"}
CONSTANT = {"solicited": 0, "migreq": 0, "version": 0, "pkey": fields.DEFAULT_PKEY, "fecn": 0, "becn": 0, "resv6": 0}
CONSTANT |= {"dqpn": fields.COLLECTIVE_QPN, "ackreq": 0, "resv7": 0}


class Expected(NamedTuple):
    """A packet that must come: its receiver and fields. Other fields must be 0."""

    to: str
    opcode: Opcode
    ceth: dict[str, Any]
    payload: Any = b""

    def __str__(self) -> str:
        named = [(each.name, self.ceth.get(each.name, 0)) for each in fields.CETH.fields]  # as packets show them
        shown = [f"{name}={ceth_text(name, value)}" for name, value in named if value not in (0, ANY)]
        known = self.payload is not ANY
        payload = payload_text(self.opcode, self.ceth, bytes(self.payload)) if known else "any payload"
        return " ".join([f"to {self.to}:", self.opcode.name, *shown, payload]).strip()

    def differences(self, seen: Dissected) -> list[str]:
        """The fields of a packet that are not as expected."""
        wrong = []
        for name in seen.ceth:
            expected = self.ceth.get(name, ANY if name in ("length", "version", "segment_index") else 0)
            if expected is not ANY and seen.ceth[name] != expected:
                wrong.append(f"{name} is {ceth_text(name, seen.ceth[name])}, not {ceth_text(name, expected)}")
        if self.payload is not ANY and seen.payload != self.payload:
            wrong.append(f"payload: {payload_difference(seen.ceth, seen.payload, bytes(self.payload))}")
        return wrong


class Tester(Listener):
    """The tester of a switch, or of a NIC in a job.

    repeats: copies of CONFIG and LEAVE that the device has sent. config_lengths: bytes of the body of each CONFIG, by
        jid.
    questions: PROBEs of a NIC, with the addresses to which they came. In real time it may ask at any time.
    kept_alive, invited: number of its KEEPALIVEs, and their (source, node_bitmap), by receiver and jid.
    """

    def __init__(self, target: Target, seed: int | str, profile: Profile = EVERYTHING) -> None:
        super().__init__(target, seed, profile)
        self._senders: dict[str, None] = {}
        jid, key = self.number(32), self.number(32)
        self._fence: JobFence | LeaveFence = (
            LeaveFence(target, jid, key, profile.lanes) if target.agent else JobFence(target, jid, key)
        )
        self.questions: list[tuple[str, Dissected]] = []
        self.jobs: list[Any] = []
        self._unread: list[Frame] = []
        self.repeats: Counter[Opcode] = Counter()
        self.config_lengths: defaultdict[int, list[int]] = defaultdict(list)
        self.kept_alive: Counter[tuple[str, int]] = Counter()
        self.invited: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        self._asked: set[tuple[str, str]] = set()

    def send(self, source: str, packet: Packet | bytes) -> None:
        """Send a packet: scapy layers from the BTH on, or the bytes of a datagram."""
        data = packet if isinstance(packet, bytes) else datagram.build(packet, source, self.target.address)
        self.log.append(f"{source} > device: {_line(data)}")
        self._senders[source] = None
        self.target.send(source, data)

    def expect(self, *expected: Expected, clause: str = "") -> list[Dissected]:
        """These packets come, in this order to each address, and no others. Returns them in the order of the arguments.

        clause: numbers of the demands at stake, with blanks between them.
        """
        clauses = tuple(clause.split())
        seen = self._until_fences(len(expected))
        left = list(seen)
        found = []
        for each in expected:
            own = [entry for entry in left if entry[0] == each.to]
            match = own[0] if own else None
            if match is None or match[1].opcode != each.opcode:
                came = match[1] if match else "nothing"
                raise Mismatch(f"expected {each}\nseen     {came}", clauses)
            if wrong := each.differences(match[1]):
                raise Mismatch(f"expected {each}\nseen     {match[1]}\n         {'; '.join(wrong)}", clauses)
            left.remove(match)
            found.append(match[1])
        if left:
            raise Mismatch(f"expected nothing more\nseen     to {left[0][0]}: {left[0][1]}", clauses)
        return found

    def nothing(self, clause: str = "") -> None:
        self.expect(clause=clause)

    def everything(self, wanted: int = 0) -> list[tuple[str, Dissected]]:
        """All packets since the last call, with their receivers; waits for so many."""
        return self._until_fences(wanted)

    def rest(self) -> None:
        """Wait some milliseconds: a device sends at most one NAK in one."""
        if frame := self._receive(NAK_S):
            self._unread.append(frame)

    # The fence

    def join_fence(self) -> None:
        """Make sure that the device answers each address. Raises NoFaninDevice."""
        for address in self.addresses:
            self._fence.join(address)
            if self._answer_of_fence() is None:
                raise NoFaninDevice(self.target.address)

    def _answer_of_fence(self) -> Dissected | None:
        """The first packet of the fence; None if none comes, or an echo of the question."""
        while frame := self._receive(RECEIVE_TIMEOUT_S):
            packet = datagram.dissect(frame.data)
            if packet is None:
                return None
            if self._fence.has(packet) and packet.opcode != Opcode.KEEPALIVE:  # which may come by the group
                return packet if packet.opcode in self._fence.answers else None
        return None

    def _until_fences(self, wanted: int) -> list[tuple[str, Dissected]]:
        """All packets until the device has answered each address that has sent, and `wanted` have come.

        A NIC sends for its host, too: then every address asks.
        """
        asking = self.addresses if self.target.agent else list(self._senders)
        tokens = {self.number(32): address for address in asking}
        self._senders.clear()
        for token, address in tokens.items():
            self._fence.ask(address, token)
        seen: list[tuple[str, Dissected]] = []
        while tokens or len(seen) < wanted:
            frame = self._unread.pop(0) if self._unread else self._receive(RECEIVE_TIMEOUT_S)
            if frame is None:
                if tokens:
                    raise Mismatch(*self._fence.silence)
                break
            packet = self.checked(frame)
            if self._fence.has(packet):
                tokens.pop(self._fence.token_of(packet), "")
            elif self._is_new(frame.destination, packet):
                self.log.append(f"device > {frame.destination}: {packet}")
                seen.append((frame.destination, packet))
        return seen

    def _is_new(self, to: str, packet: Dissected) -> bool:
        """Whether a script must expect a packet: not KEEPALIVE, a copy of a CONFIG or LEAVE, or a PROBE of a NIC."""
        if packet.opcode == Opcode.PROBE and self.target.agent:
            self.log.append(f"device > {to}: {packet}")
            self.questions.append((to, packet))
            return False
        if packet.opcode == Opcode.KEEPALIVE:
            self.kept_alive[to, packet.ceth["jid"]] += 1
            self.invited[to, packet.ceth["jid"]].append((packet.ceth["source"], packet.ceth["node_bitmap"]))
            return False
        if packet.opcode not in REPEATED:
            return True
        if all(packet.ceth["jid"] != job.jid for job in self.jobs):
            return False  # of a script before
        if packet.opcode == Opcode.CONFIG:
            self.config_lengths[packet.ceth["jid"]].append(len(packet.payload))
            packet = packet._replace(payload=datagram.without_padding(packet.payload))
        alike = packet.ceth | {"segment_index": 0, "length": 0}  # it may share a super-packet
        same = to, str(packet._replace(ceth=alike))
        if same in self._asked:
            self.repeats[Opcode(packet.opcode)] += 1
            return False
        self._asked.add(same)
        return True

    def spend(self, seconds: float, alive: Iterable[tuple[Any, int]] = (), step: float = 0.25) -> list[Any]:
        """Let time pass. The fence and the children `alive`, (job, bit), send KEEPALIVE; all others are silent.

        Returns packets as `everything` does. Raises LeftOut if this takes long in real time.
        """
        if not self.target.is_virtual and seconds > MAX_SECONDS:
            raise LeftOut(f"time below {MAX_SECONDS:.0f} s for this: {seconds:.0f} s")
        seen, living = [], list(alive)
        for _ in range(round(seconds / step)):
            self._fence.keep_alive()
            for job, bit in living:
                job.send(Opcode.KEEPALIVE, bit)
            end = self.target.now() + step
            while (left := end - self.target.now()) > MIN_SECONDS:
                if frame := self._receive(left):
                    packet = self.checked(frame)
                    if not self._fence.has(packet) and self._is_new(frame.destination, packet):
                        self.log.append(f"device > {frame.destination}: {packet}")
                        seen.append((frame.destination, packet))
        return seen + self._until_fences(0)

    def checked(self, frame: Frame) -> Dissected:
        """Check the demands on every packet of a device."""
        packet = datagram.dissect(frame.data)
        if packet is None or packet.opcode not in list(Opcode):
            raise Mismatch(f"not a packet of the protocol: {frame.data[:64].hex()}", ("4-2",))
        if not datagram.icrc_is_right(frame.source, frame.destination, frame.source_port, frame.data):
            raise Mismatch(f"wrong ICRC: {packet}", ("3-1",))
        if frame.source_port != datagram.DEVICE_PORT + packet.ceth["lane"]:
            raise Mismatch(f"source port {frame.source_port}: {packet}", ("2-5",))
        for name, value in CONSTANT.items():
            if packet.bth[name] != value:
                raise Mismatch(f"BTH.{name} is {packet.bth[name]:#x}, not {value:#x}: {packet}", ("2-11",))
        if packet.ceth["version"] != fields.WIRE_VERSION:
            raise Mismatch(f"version {packet.ceth['version']}: {packet}", ("4-2",))
        if len(packet.payload) != packet.ceth["length"] or len(packet.padding) != -packet.ceth["length"] % 4:
            raise Mismatch(f"length: {packet}", ("2-14",))
        if any(packet.padding) or packet.bth["padcount"] != len(packet.padding):
            raise Mismatch(f"padding {packet.padding.hex()}: {packet}", ("2-13", "2-14"))
        for name, value in packet.ceth.items():
            if value and name not in NAMED[Opcode(packet.opcode)] | ALWAYS:
                raise Mismatch(f"{name} must be 0: {packet}", ("2.2-1",))
        return packet

    def close(self) -> None:
        """Leave all jobs of the script, in any state, and discard further packets."""
        for job in self.jobs:
            job.leave_quietly()
        for _ in range(self._fence.leave()):
            self._answer_of_leave()

    def _answer_of_leave(self) -> None:
        while frame := self._receive(RECEIVE_TIMEOUT_S):
            packet = datagram.dissect(frame.data)
            if packet and packet.opcode == Opcode.LEAVE_ACK and self._fence.has(packet):
                return


def _line(data: bytes) -> str:
    packet = datagram.dissect(data)
    return str(packet) if packet else data.hex()
