"""NICs with one fault: it changes packets in one direction, or the answers to their ranks."""

from collections.abc import Callable
from typing import Any

from fanin_conform.faults import Change, Fault, class_of_four, fixed_version, get, losing, put, setting, without
from fanin_wire.abi import Op
from fanin_wire.agent import Answer
from fanin_wire.fields import TRANSPORT_SIZE, Flag, Opcode

BIT = 2  # of the NIC at its parent, in the scripts
INDEX = 1  # of the NIC in most rings of the scripts
TOKEN = 1  # of the engine's CONFIG
LEASE = 8  # of most scripts


def changing(code: Opcode, field: str, change: Callable[[int], int]) -> Change:
    """Packets of an opcode get another value in a field."""
    return lambda data: put(data, field, change(get(data, field))) if data[0] == code else data


def _last_bit(data: bytearray) -> bytearray:
    if data[0] == Opcode.CONTRIBUTION and get(data, "length"):
        data[TRANSPORT_SIZE] ^= 1
    return data


def _seg_of_eight(data: bytearray) -> bytearray:
    return put(data, "seg", get(data, "position") % LEASE) if data[0] == Opcode.RESULT else data


def _padded(data: bytearray) -> bytearray:
    if data[0] == Opcode.CONTRIBUTION and -get(data, "length") % 4:
        data[-1] = 0xFF
    return data


def answering(name: str, value: Any) -> Callable[[Answer], Answer]:
    """Answers with a member get this value there."""
    return lambda answer: answer | {name: value} if name in answer else answer


def _always_well(answer: Answer) -> Answer:
    return answer | {"status": "SUCCESS"} if answer.get("status") and "wr" in answer else answer


def _flipped(answer: Answer) -> Answer:
    data = answer.get("data", "")
    return answer | {"data": f"{int(data[0], 16) ^ 1:x}{data[1:]}"} if data else answer


CONTRIBUTION, RESULT, ACK = Opcode.CONTRIBUTION, Opcode.RESULT, Opcode.ACK
NIC_FAULTS = (
    # What it sends for its ranks
    Fault("a bit of the data is wrong", "4-8", outward=_last_bit),
    Fault(
        "a rank of the node is not counted", "7.1-10", outward=changing(CONTRIBUTION, "contributions", lambda n: n - 1)
    ),
    Fault("seg is always 0", "4-6", outward=setting(CONTRIBUTION, "seg", 0)),
    Fault("mid is always 0", "6-10", outward=setting(CONTRIBUTION, "mid", 0)),
    Fault("sid is always 0", "6-5", outward=setting(CONTRIBUTION, "sid", 0)),
    Fault("the upper half of mid is lost", "6-12", outward=changing(CONTRIBUTION, "mid", lambda mid: mid & 0xFFFF)),
    Fault("nobody wants results", "7.1-11", outward=without(CONTRIBUTION, Flag.WANTS_RESULT)),
    Fault("everybody wants results", "4-8", outward=changing(CONTRIBUTION, "flags", lambda f: f | Flag.WANTS_RESULT)),
    Fault("it does not name itself", "4-8", outward=setting(CONTRIBUTION, "node_bitmap", 0)),
    Fault("it does not name its ranks", "4-8", outward=setting(CONTRIBUTION, "rank_bitmap", 0)),
    Fault("AHEAD is never set", "7.5-2", outward=without(CONTRIBUTION, Flag.AHEAD)),
    Fault("wide partials have no flag", "12-21", outward=without(CONTRIBUTION, Flag.WIDE)),
    Fault("poison is not told", "11-30", outward=setting(CONTRIBUTION, "status", 0)),
    Fault("MEAN goes up as SUM", "12-24", outward=setting(CONTRIBUTION, "op", int(Op.SUM))),
    Fault("padding is not zero", "2-13", outward=_padded),
    Fault("a CONTRIBUTION has a token", "2.2-1", outward=setting(CONTRIBUTION, "token", 1)),
    # What it takes from above
    Fault("seg of a RESULT is not looked at", "5-21", inward=_seg_of_eight),
    Fault("the reserved class counts as ALL", "5-21", inward=class_of_four),
    Fault("RESULTs for others are taken", "5-23", inward=changing(RESULT, "node_bitmap", lambda bits: bits | 1 << BIT)),
    Fault("a status of a RESULT is not looked at", "7.2-7", inward=setting(RESULT, "status", 0)),
    Fault("mid of data ahead is not looked at", "7.5-10", inward=changing(RESULT, "sid", lambda _: 0)),
    Fault("data ahead are lost", "7.5-18", inward=lambda data: None if get(data, "flags") & Flag.AHEAD else data),
    Fault("NEED is not looked at", "8-22", inward=losing(Opcode.NEED)),
    Fault("WAIT is not looked at", "11-22", inward=losing(Opcode.WAIT)),
    Fault("ABORT is not looked at", "11-3", inward=losing(Opcode.ABORT)),
    Fault("NAK is not looked at", "11-26", inward=losing(Opcode.NAK)),
    Fault("KEEPALIVE is not looked at", "10.5-5", inward=losing(Opcode.KEEPALIVE)),
    Fault("names are not counted", "4-23", inward=setting(Opcode.ABORT, "seg", 1)),
    Fault("the token of a CONFIG_ACK is not looked at", "10.2-6", inward=setting(Opcode.CONFIG_ACK, "token", TOKEN)),
    Fault("refusals are not looked at", "10.2-5", inward=setting(Opcode.CONFIG_ACK, "status", 0)),
    Fault("the version is not looked at", "5-6", inward=fixed_version),
    # Questions and membership
    Fault("it never asks", "8-3", outward=losing(Opcode.PROBE)),
    Fault("PROBE has no token", "8-14", outward=setting(Opcode.PROBE, "token", 0)),
    Fault("CONFIG has no token", "4-14", outward=setting(Opcode.CONFIG, "token", 0)),
    Fault("it never leaves", "10.4-1", outward=losing(Opcode.LEAVE)),
    Fault("a LEAVE has never a status", "11-2", outward=setting(Opcode.LEAVE, "status", 0)),
    Fault("a LEAVE names nobody", "4-24", outward=setting(Opcode.LEAVE, "node_bitmap", 0)),
    Fault("unknown jobs get no NAK", "5-12", outward=losing(Opcode.NAK)),
    Fault("no keep-alives are sent", "10.5-1", outward=losing(Opcode.KEEPALIVE)),
    # Rings
    Fault("hops are not acknowledged", "9-15", outward=losing(ACK)),
    Fault("a CONTRIBUTION never counts as stored", "9-18", outward=setting(ACK, "node_bitmap", 0)),
    Fault("a RESULT always counts as stored", "9-19", outward=setting(ACK, "rank_bitmap", (1 << 64) - 1)),
    Fault(
        "a node does not clear its bit", "9-7", outward=changing(CONTRIBUTION, "node_bitmap", lambda b: b | 1 << INDEX)
    ),
    Fault("wants are lost on the way", "9-12", outward=setting(CONTRIBUTION, "rank_bitmap", 0)),
    Fault("a RESULT names its own node", "9-9", outward=changing(RESULT, "node_bitmap", lambda b: b | 1 << INDEX)),
    Fault("a RESULT forgets who wants it", "9-13", outward=setting(RESULT, "rank_bitmap", 0)),
    Fault("neighbours are not told of an abort", "11-2", outward=losing(Opcode.ABORT)),
    Fault("a PROBE of the previous node is lost", "9-22", inward=losing(Opcode.PROBE)),
    Fault("op is not compared", "7.1-6", inward=setting(CONTRIBUTION, "op", int(Op.SUM))),
    Fault("nobody learns the state of the ring", "10.8-2", outward=losing(Opcode.STATUS)),
    Fault("the chain of CONFIGs ends here", "10.2-7", outward=losing(Opcode.CONFIG)),
    # What the ranks learn
    Fault("a bit of the result is wrong", "7.2-6", host=_flipped),
    Fault("every completion says SUCCESS", "11-5", host=_always_well),
    Fault("nobody is named to the ranks", "11-28", host=answering("missing", 0)),
    Fault("the lost device is not told to the ranks", "11-15", host=answering("lost_device", "")),
    Fault("the ranks hear the offer, not the lease", "10.2-2", host=answering("slots", 16)),
)
