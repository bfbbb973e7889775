"""RoCE devices with one fault: in packets of one direction, or in the device's work."""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from fanin_conform.faults import Change, Fault
from fanin_conform.targets.engine import EngineNicTarget
from fanin_conform.targets.transport import Sent, TransportDevice
from fanin_conform.verbs.packets import PSN_MASK, dissect
from fanin_nic.transport.transport import Transport
from fanin_wire.fields import AETH, BTH, DEFAULT_PKEY, ICRC_SIZE
from fanin_wire.rocev2 import CODES, CREDITS_INVALID, OPCODES, Acknowledge, Nak, Operation, Part, syndrome
from fanin_wire.verbs import Access, Attribute

EVERYTHING = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
ATOMICS = (Operation.COMPARE_SWAP, Operation.FETCH_ADD)
ACK = syndrome(Acknowledge.ACK, CREDITS_INVALID)
SMALL = 4096  # regions that are shorter are those of the scripts


def _read(data: bytes | bytearray, name: str) -> int | None:
    """A field of a packet; None if missing."""
    packet = dissect(bytes(data) + bytes(ICRC_SIZE))
    value = packet.fields.get(name) if packet else None
    return value if isinstance(value, int) else None


def _put(data: bytearray, name: str, value: int) -> bytearray:
    at = 0
    for header in (BTH, *OPCODES[data[0]].headers):
        for field in header.fields:
            if field.name == name:
                size, shift = header.size, header.size * 8 - field.offset - field.bits
                number = int.from_bytes(data[at : at + size])
                mask = ((1 << field.bits) - 1) << shift
                data[at : at + size] = (number & ~mask | value << shift & mask).to_bytes(size)
                return data
        at += header.size
    raise KeyError(name)


def changing(name: str, change: Callable[[int], int], *operations: Operation, **where: int) -> Change:
    """Packets of some operations, or of all, get another value in a field, if others have given values."""

    def changed(data: bytearray) -> bytearray:
        value = _read(data, name) if data and data[0] in OPCODES else None
        if value is None or (operations and OPCODES[data[0]].operation not in operations):
            return data
        if any(_read(data, other) != wanted for other, wanted in where.items()):
            return data
        return _put(data, name, change(value))

    return changed


def losing(**where: int) -> Change:
    """Packets with these values of fields are lost."""

    def lost(data: bytearray) -> bytearray | None:
        return None if all(_read(data, name) == value for name, value in where.items()) else data

    return lost


def nak(code: Nak) -> int:
    return syndrome(Acknowledge.NAK, code)


def saying(code: Nak, other: Nak) -> Change:
    return changing("syndrome", lambda _: nak(other), syndrome=nak(code))


def swapped_bytes(size: int) -> Callable[[int], int]:
    return lambda value: int.from_bytes(value.to_bytes(size, "little"))


def _ack(qpn: int, psn: int) -> bytearray:
    """An ACK of RC to a queue pair, without ICRC."""
    packet = bytearray(BTH.size + AETH.size)
    packet[0] = CODES["RC_ACKNOWLEDGE"]
    for name, value in (("pkey", DEFAULT_PKEY), ("dqpn", qpn), ("psn", psn), ("syndrome", ACK)):
        _put(packet, name, value)
    return packet


def _ordinary_acks(data: bytearray) -> bytearray | None:
    value = _read(data, "syndrome")
    is_ack = value is not None and OPCODES[data[0]].operation == Operation.ACKNOWLEDGE and not value >> 5
    return None if is_ack else data


def _operands_exchanged(data: bytearray) -> bytearray:
    if data[0] == CODES["RC_COMPARE_SWAP"]:
        compare, swap = _read(data, "compare"), _read(data, "swap")
        assert compare is not None
        assert swap is not None
        _put(_put(data, "compare", swap), "swap", compare)
    return data


def _faster(value: int) -> int:
    """The shortest time for an RNR NAK."""
    return syndrome(Acknowledge.RNR_NAK, 1) if value >> 5 == Acknowledge.RNR_NAK else value


def _longest(value: int) -> int:
    return syndrome(Acknowledge.RNR_NAK, 0) if value >> 5 == Acknowledge.RNR_NAK else value


def _psn_of_nak(data: bytearray) -> bytearray:
    """A NAK of the sequence goes back one packet too few."""
    if data[0] == CODES["RC_ACKNOWLEDGE"] and _read(data, "syndrome") == nak(Nak.SEQUENCE):
        psn = _read(data, "psn")
        assert psn is not None
        _put(data, "psn", psn + 1 & PSN_MASK)
    return data


PACKET_FAULTS = (
    Fault("the partition key is not looked at", "18.1-6", inward=changing("pkey", lambda _: 0xFFFF)),
    Fault("the transport version is not looked at", "18.1-5", inward=changing("version", lambda _: 0)),
    Fault("a reserved bit is set", "18.1-1", outward=changing("resv7", lambda _: 1)),
    # Responder
    Fault("no request is acknowledged", "18.2-2", outward=_ordinary_acks),
    Fault(
        "an ACK names the next PSN",
        "18.2-2",
        outward=changing("psn", lambda psn: psn + 1 & PSN_MASK, Operation.ACKNOWLEDGE, syndrome=ACK),
    ),
    Fault("the MSN is always 0", "18.2-3", outward=changing("msn", lambda _: 0)),
    Fault("a gap is not reported", "18.2-4", outward=losing(syndrome=nak(Nak.SEQUENCE))),
    Fault(
        "a NAK names the packet that came",
        "18.2-4",
        outward=changing("psn", lambda psn: psn + 1 & PSN_MASK, syndrome=nak(Nak.SEQUENCE)),
    ),
    Fault(
        "responses to READs begin with the next PSN",
        "18.2-8",
        outward=changing("psn", lambda psn: psn + 1 & PSN_MASK, Operation.READ_RESPONSE, msn=1),
    ),
    Fault("compare and swap are exchanged", "18.2-11", inward=_operands_exchanged),
    Fault("an atomic subtracts", "18.2-11", inward=changing("swap", lambda n: -n % 2**64, Operation.FETCH_ADD)),
    Fault("atomics answer in the order of the host", "18.2-12", outward=changing("original", swapped_bytes(8))),
    Fault("an invalid request is an access error", "18.2-14", outward=saying(Nak.INVALID_REQUEST, Nak.REMOTE_ACCESS)),
    Fault("an access error is an invalid request", "18.2-20", outward=saying(Nak.REMOTE_ACCESS, Nak.INVALID_REQUEST)),
    Fault(
        "an operational error is an access error", "18.2-23", outward=saying(Nak.REMOTE_OPERATIONAL, Nak.REMOTE_ACCESS)
    ),
    Fault("the alignment of atomics is not looked at", "18.2-19", inward=changing("va", lambda va: va & ~7, *ATOMICS)),
    Fault("an RNR NAK asks for the longest time", "18.2-26", outward=changing("syndrome", _longest)),
    Fault("immediate data arrive with their bytes exchanged", "18.2-29", inward=changing("immdt", swapped_bytes(4))),
    Fault("a WRITE of no bytes is refused", "18.2-30", inward=changing("dlen", lambda n: n or 4, Operation.WRITE)),
    # Requester
    Fault("immediate data leave with their bytes exchanged", "18.3-4", outward=changing("immdt", swapped_bytes(4))),
    Fault("no acknowledgement is asked for", "18.3-5", outward=changing("ackreq", lambda _: 0, Operation.WRITE)),
    Fault("it goes back one packet too few", "18.3-9", inward=_psn_of_nak),
    Fault("it does not wait after an RNR NAK", "18.3-10", inward=changing("syndrome", _faster)),
    Fault(
        "an operational error ends a request as an access error",
        "18.3-12",
        inward=saying(Nak.REMOTE_OPERATIONAL, Nak.REMOTE_ACCESS),
    ),
    Fault("the length of a READ is that of a packet", "18.3-16", outward=changing("dlen", lambda n: min(n, 256))),
    # Datagrams
    Fault("the queue key is not looked at", "18.5-1", inward=changing("qkey", lambda _: 0x11223344)),
    Fault("a datagram has the queue key 0", "18.5-5", outward=changing("qkey", lambda _: 0)),
)


class SendsNothingAgain(TransportDevice):
    def __init__(self, address: str, kind: type[Transport] = Transport) -> None:
        super().__init__(address, kind)
        self._seen: set[bytes] = set()

    def serve(self, now: int) -> list[Sent]:
        """Send only new packets."""
        requests = (Operation.SEND, Operation.WRITE, Operation.READ_REQUEST)
        new = []
        for to, data in super().serve(now):
            if OPCODES[data[0]].operation not in requests or data not in self._seen:
                new.append((to, data))
            self._seen.add(data)
        return new


class Repeating(TransportDevice):
    """Executes a repeated request again: `again`."""

    def receive(self, data: bytes, source: int, now: int) -> list[Sent]:
        """Like a sound device, but repeated requests are executed first."""
        packet = dissect(data + bytes(ICRC_SIZE))
        if packet and packet.name.startswith("RC_"):
            for row in self.transport.tables["queue_pairs"]:
                is_behind = int(packet.fields["psn"]) - int(row["expected"]) & 1 << 23
                if row["qpn"] == packet.fields["dqpn"] and is_behind:
                    self.again(packet.name, packet.fields, packet.payload)
        return super().receive(data, source, now)

    def again(self, name: str, fields: dict[str, Any], payload: bytes) -> None:
        """Execute a repeated request."""


class RepeatsAtomics(Repeating):
    """Executes a repeated atomic."""

    def again(self, name: str, fields: dict[str, Any], payload: bytes) -> None:
        if name == "RC_FETCH_ADD":
            word = ctypes.c_uint64.from_address(fields["va"])
            word.value = (word.value + fields["swap"]) % 2**64


class RepeatsWrites(Repeating):
    """Executes a repeated WRITE."""

    def again(self, name: str, fields: dict[str, Any], payload: bytes) -> None:
        if name == "RC_RDMA_WRITE_ONLY":
            ctypes.memmove(fields["va"], payload, len(payload))


class ReportsEachGap(TransportDevice):
    """Every packet ahead gets a NAK."""

    def receive(self, data: bytes, source: int, now: int) -> list[Sent]:
        """Forget that the gap was reported."""
        sent = super().receive(data, source, now)
        self.transport.tables["queue_pairs"]["gap_reported"] = 0
        return sent


class AnswersUc(TransportDevice):
    """Messages of UC are acknowledged."""

    def receive(self, data: bytes, source: int, now: int) -> list[Sent]:
        sent = super().receive(data, source, now)
        if data[0] in OPCODES and OPCODES[data[0]].name == "UC_SEND_ONLY":
            sent.append((source, bytes(_ack(0, 0))))
        return sent


class DeliversParts(TransportDevice):
    """Missing packets of UC are not noticed."""

    def receive(self, data: bytes, source: int, now: int) -> list[Sent]:
        """Each gets the expected PSN."""
        changed = bytearray(data)
        for row in self.transport.tables["queue_pairs"]:
            if data[0] in OPCODES and OPCODES[data[0]].name.startswith("UC_") and row["qpn"] == _read(data, "dqpn"):
                _put(changed, "psn", int(row["expected"]))
        return super().receive(bytes(changed), source, now)


class CompletesWhenSent(TransportDevice):
    """A WRITE of RC is complete when its last packet has been sent."""

    def serve(self, now: int) -> list[Sent]:
        """Acknowledge itself."""
        sent = super().serve(now)
        for _, data in sent:
            opcode = OPCODES[data[0]]
            if opcode.name.startswith("RC_RDMA_WRITE") and opcode.part in (Part.LAST, Part.ONLY):
                for row in self.transport.tables["queue_pairs"]:
                    if row["qpn"] and row["remote_qpn"] == _read(data, "dqpn"):
                        packet = bytes(_ack(int(row["qpn"]), _read(data, "psn") or 0))
                        sent += super().receive(packet, int(row["destination"]), now)
        return sent


class _WrongRegions(Transport):
    longer, rights = 0, Access(0)

    def register(self, start: int, length: int, access: Access, **given: Any) -> int:
        """With another length, or other rights, for a region of a script."""
        if length < SMALL:
            length, access = length + self.longer, access | self.rights
        return super().register(start, length, access, **given)


class _OneByteMore(_WrongRegions):
    longer = 1


class _AllRights(_WrongRegions):
    rights = EVERYTHING


class _WrongAttributes(Transport):
    attribute, value = Attribute.ACCESS_FLAGS, int(EVERYTHING)

    def modify(self, index: int, state: Any, now: int, values: dict[Attribute, int] | None = None) -> None:
        """Set an attribute to this value, whatever is asked for."""
        values = dict(values or {})
        if self.attribute in values:
            values[self.attribute] = self.value
        super().modify(index, state, now, values)


class _NoLimitOfReads(_WrongAttributes):
    attribute, value = Attribute.MAX_QP_RD_ATOMIC, 16


class _OneRetry(_WrongAttributes):
    attribute, value = Attribute.RETRY_CNT, 1


class _SevenRetries(_WrongAttributes):
    attribute, value = Attribute.RETRY_CNT, 7


class _RnrWithoutEnd(_WrongAttributes):
    attribute, value = Attribute.RNR_RETRY, 7


class DeviceFault(NamedTuple):
    """clause: the broken demand. device: in place of the sound one. transport: of a sound device."""

    name: str
    clause: str
    device: type[TransportDevice] = TransportDevice
    transport: type[Transport] = Transport


DEVICE_FAULTS = (
    DeviceFault("nothing is sent again", "18.3-9", SendsNothingAgain),
    DeviceFault("nothing is sent again after a time-out", "18.3-14", SendsNothingAgain),
    DeviceFault("a lost response is not asked for", "18.3-18", SendsNothingAgain),
    DeviceFault("an atomic is carried out twice", "18.2-13", RepeatsAtomics),
    DeviceFault("a WRITE is carried out twice", "18.2-6", RepeatsWrites),
    DeviceFault("each packet ahead is reported", "18.2-5", ReportsEachGap),
    DeviceFault("UC is acknowledged", "18.4-1", AnswersUc),
    DeviceFault("a message of UC arrives in parts", "18.4-2", DeliversParts),
    DeviceFault("a WRITE is complete before its ACK", "18.3-6", CompletesWhenSent),
    DeviceFault("the last byte of a region is one too far", "18.2-21", transport=_OneByteMore),
    DeviceFault("rights of regions are not looked at", "18.2-22", transport=_AllRights),
    DeviceFault("rights of queue pairs are not looked at", "18.2-18", transport=_WrongAttributes),
    DeviceFault("any number of READs is under way", "18.3-21", transport=_NoLimitOfReads),
    DeviceFault("it gives up too early", "18.3-14", transport=_OneRetry),
    DeviceFault("it gives up too late", "18.3-15", transport=_SevenRetries),
    DeviceFault("it never gives up after RNR NAKs", "18.3-11", transport=_RnrWithoutEnd),
)


class FaultyDeviceTarget(EngineNicTarget):
    """A NIC in this process whose transport has a fault."""

    def __init__(self, count: int, fault: DeviceFault) -> None:
        self._fault = fault
        super().__init__(count)

    def _make_transport(self) -> TransportDevice:
        return self._fault.device(self.address, self._fault.transport)
