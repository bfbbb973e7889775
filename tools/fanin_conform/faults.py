"""Devices with one fault: a target that changes packets in one direction."""

from collections.abc import Callable
from typing import NamedTuple

from fanin_conform import datagram
from fanin_conform.agents.agent import Agent
from fanin_conform.targets.target import Frame, Target
from fanin_wire.abi import ContributorClass, DType, Status
from fanin_wire.agent import Answer, Request
from fanin_wire.fields import BTH, CETH, CLASS_MASK, CLASS_SHIFT, ICRC_SIZE, TRANSPORT_SIZE, WIRE_VERSION, Flag, Opcode

Change = Callable[[bytearray], "bytearray | None"]  # of BTH to the last byte before the ICRC; None: the packet is lost


class Fault(NamedTuple):
    """clause: the broken demand. inward, outward: changes of packets to and from the device. host: of the answers of
    the agent of a NIC."""

    name: str
    clause: str
    inward: Change | None = None
    outward: Change | None = None
    host: Callable[[Answer], Answer] | None = None


def get(data: bytearray, field: str) -> int:
    return datagram.unpack(CETH, bytes(data[BTH.size :]))[field] if len(data) >= TRANSPORT_SIZE else 0


def put(data: bytearray, field: str, value: int) -> bytearray:
    """Write a field of whole bytes of the CETH."""
    start, width = BTH.size + CETH.byte_offset(field), CETH.field(field).bits // 8
    data[start : start + width] = value.to_bytes(width)
    return data


def setting(code: Opcode, field: str, value: int) -> Change:
    """Packets of an opcode get this value in a field."""
    return lambda data: put(data, field, value) if data[0] == code and len(data) >= TRANSPORT_SIZE else data


def without(code: Opcode, flag: int) -> Change:
    return lambda data: put(data, "flags", get(data, "flags") & ~flag) if data[0] == code else data


def losing(code: Opcode) -> Change:
    return lambda data: None if data[0] == code else data


def _rounded(data: bytearray) -> bytearray:
    if data[0] == Opcode.RESULT and get(data, "dtype") == DType.F32 and get(data, "length") >= 4:
        data[TRANSPORT_SIZE] ^= 1
    return data


def _always_data_wanted(data: bytearray) -> bytearray:
    if data[0] == Opcode.CONTRIBUTION:
        put(data, "flags", get(data, "flags") | Flag.WANTS_RESULT)
    return data


def _padding(data: bytearray) -> bytearray:
    if data[0] == Opcode.RESULT and datagram.unpack(BTH, bytes(data))["padcount"]:
        data[-1] = 0xFF
    return data


def _reserved(data: bytearray) -> bytearray:
    data[8] |= 1
    return data


def fixed_version(data: bytearray) -> bytearray:
    """The faulty device ignores the version."""
    return put(data, "version", WIRE_VERSION) if len(data) >= TRANSPORT_SIZE else data


def _fixed_slot(data: bytearray) -> bytearray:
    if data[0] == Opcode.CONTRIBUTION and len(data) >= TRANSPORT_SIZE:
        put(data, "seg", get(data, "position") % 8)
    return data


def _bytes_of_class_one(data: bytearray) -> bytearray:
    flags, classes = get(data, "flags"), CLASS_MASK << CLASS_SHIFT
    if data[0] == Opcode.CONTRIBUTION and flags & Flag.HAS_DATA and get(data, "dtype") == DType.NONE:
        put(data, "flags", flags & ~classes | ContributorClass.ONE << CLASS_SHIFT)
    return data


def class_of_four(data: bytearray) -> bytearray:
    """The faulty device treats the reserved class as ALL."""
    flags, classes = get(data, "flags"), CLASS_MASK << CLASS_SHIFT
    if data[0] in (Opcode.CONTRIBUTION, Opcode.RESULT) and flags & classes == classes:
        put(data, "flags", flags & ~classes | ContributorClass.ALL << CLASS_SHIFT)
    return data


FAULTS = (
    Fault("the last bit of a sum is wrong", "12-14", outward=_rounded),
    Fault("results say that nobody has contributed", "7.1-10", outward=setting(Opcode.RESULT, "contributions", 0)),
    Fault("everybody gets the data", "7.1-11", inward=_always_data_wanted),
    Fault("padding is not zero", "2-13", outward=_padding),
    Fault("a reserved bit is set", "2-11", outward=_reserved),
    Fault("a field that is not named is set", "2.2-1", outward=setting(Opcode.NEED, "contributions", 1)),
    Fault("NEED has no token", "4-11", outward=setting(Opcode.NEED, "token", 0)),
    Fault("WAIT names nobody", "8-19", outward=setting(Opcode.WAIT, "node_bitmap", 0)),
    Fault("PROBE is not answered", "8-17", inward=losing(Opcode.PROBE)),
    Fault("LEAVE is not acknowledged", "10.4-2", outward=losing(Opcode.LEAVE_ACK)),
    Fault("unknown jobs get no NAK", "5-12", outward=losing(Opcode.NAK)),
    Fault("nobody is told of an abort", "11-2", outward=losing(Opcode.ABORT)),
    Fault("an abort names nobody", "7.1-6", outward=setting(Opcode.ABORT, "node_bitmap", 0)),
    Fault("every abort says ABORTED", "11-3", outward=setting(Opcode.ABORT, "status", Status.ABORTED)),
    Fault("the version is not looked at", "5-6", inward=fixed_version),
    Fault("seg is not looked at", "5-21", inward=_fixed_slot),
    Fault("the reserved class counts as ALL", "5-21", inward=class_of_four),
    Fault("bytes of any class count as ONE", "12-34", inward=_bytes_of_class_one),
    Fault("a status does not poison", "7.1-7", inward=setting(Opcode.CONTRIBUTION, "status", 0)),
    Fault("mid is not compared", "7.1-6", inward=setting(Opcode.CONTRIBUTION, "mid", 3)),
    Fault("a LEAVE has never a status", "11-3", inward=setting(Opcode.LEAVE, "status", 0)),
    # Below another switch
    Fault("the CONFIG has no token", "4-14", outward=setting(Opcode.CONFIG, "token", 0)),
    Fault("a partial never wants the result", "7.1-14", outward=without(Opcode.CONTRIBUTION, Flag.WANTS_RESULT)),
    Fault("members above are not counted anew", "4-24", outward=setting(Opcode.ABORT, "seg", 1)),
    Fault("the parent's NEED is not looked at", "8-22", inward=losing(Opcode.NEED)),
    Fault("the parent's WAIT is not looked at", "11-22", inward=losing(Opcode.WAIT)),
    Fault("a question above has no token", "8-14", outward=setting(Opcode.PROBE, "token", 0)),
    Fault("the parent is not told of the end", "10.4-3", outward=losing(Opcode.LEAVE)),
    # Groups, data ahead, silence
    Fault("HEARS_GROUP is not looked at", "7.4-2", inward=without(Opcode.CONTRIBUTION, Flag.HEARS_GROUP)),
    Fault("nobody is invited to the group", "7.4-8", outward=losing(Opcode.KEEPALIVE)),
    Fault("an invitation names one child", "4-22", outward=setting(Opcode.KEEPALIVE, "node_bitmap", 1)),
    Fault("nothing goes ahead", "7.5-4", inward=without(Opcode.CONTRIBUTION, Flag.AHEAD)),
    Fault("AHEAD is not passed on", "7.5-3", outward=without(Opcode.CONTRIBUTION, Flag.AHEAD)),
    Fault("no keep-alives are sent", "10.5-1", outward=losing(Opcode.KEEPALIVE)),
    Fault("the lost device is not named", "11-15", outward=setting(Opcode.ABORT, "rank_bitmap", 0)),
)


class FaultyAgent:
    """An agent with changed answers."""

    def __init__(self, sound: Agent, change: Callable[[Answer], Answer]) -> None:
        self._sound, self._change = sound, change

    def ask(self, request: Request) -> Answer:
        return self._change(self._sound.ask(request))

    def close(self) -> None:
        self._sound.close()


class FaultyTarget:
    """A target with a fault. Changed packets get a right ICRC."""

    def __init__(self, sound: Target, fault: Fault) -> None:
        self.name, self.address, self.addresses = fault.name, sound.address, sound.addresses
        self.has_port, self._sound, self._fault = sound.has_port, sound, fault
        self.is_virtual, self.group, self.agent = sound.is_virtual, sound.group, sound.agent
        self.controls = sound.controls
        if sound.agent and fault.host:
            self.agent = FaultyAgent(sound.agent, fault.host)

    def send(self, source: str, data: bytes) -> None:
        """A packet with a wrong ICRC stays as it is."""
        if self._fault.inward and datagram.icrc_is_right(source, self.address, datagram.TESTER_PORT, data):
            changed = self._fault.inward(bytearray(data[:-ICRC_SIZE]))
            if changed is None:
                return
            data = datagram.with_icrc(source, self.address, datagram.TESTER_PORT, bytes(changed) + bytes(ICRC_SIZE))
        self._sound.send(source, data)

    def receive(self, seconds: float) -> Frame | None:
        """The next packet that the fault leaves."""
        while frame := self._sound.receive(seconds):
            changed = self._fault.outward(bytearray(frame.data[:-ICRC_SIZE])) if self._fault.outward else None
            if self._fault.outward and changed is None:
                continue
            if changed is None:
                return frame
            whole = bytes(changed) + bytes(ICRC_SIZE)
            return frame._replace(data=datagram.with_icrc(frame.source, frame.destination, frame.source_port, whole))
        return None

    def drain(self) -> None:
        self._sound.drain()

    def stand_still(self, seconds: float) -> None:
        self._sound.stand_still(seconds)

    def script_ends(self) -> None:
        self._sound.script_ends()

    def now(self) -> float:
        return self._sound.now()

    def close(self) -> None:
        self._sound.close()
