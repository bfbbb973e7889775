"""Packets about a position: the slot rule, contributions, results, and answers to PROBE (sections 5 to 8)."""

from fanin_reference import arithmetic, membership, spec
from fanin_reference.device import Device
from fanin_reference.job import NOBODY, Job, Named, Slot, State
from fanin_reference.packets import Dropped, Packet
from fanin_reference.times import DETECTION_S, JUST_SENT_S

COMPARED_FIELDS = ("op", "dtype", "class", "mid", "sid")
HAS_DATA, WANTS, WIDE, HEARS, CLASS = (
    spec.FLAGS[name] for name in ("HAS_DATA", "WANTS_RESULT", "WIDE", "HEARS_GROUP", "class")
)


def about(device: Device, job: Job, packet: Packet) -> None:
    """Item 10 of section 5, then the slot rule: section 6."""
    if job.state != State.ACTIVE or packet.seg != packet.position % job.slots:
        raise Dropped("5-21")
    head = _head(packet)
    brings = _checked(job, packet, head)
    slot = job.table[packet.seg]
    before = slot.position if slot.position is not None else (packet.seg - job.slots) % 2**32
    ahead = (packet.position - before) % 2**32
    if ahead >= 2**31:
        raise Dropped("6-33")
    if ahead not in (0, job.slots) or (ahead == 0 and slot.position is None):
        raise Dropped("6-37")
    if ahead and not slot.is_final:
        raise Dropped("6-36")
    if packet.opcode == "PROBE":
        _probe(device, job, slot, packet, new=ahead != 0)
    else:
        _contribution(device, job, slot, packet, head, brings, new=ahead != 0)


def _head(packet: Packet) -> dict[str, int]:
    head = {name: packet.ceth.get(name, 0) for name in COMPARED_FIELDS}
    head["class"] = (packet.flags & CLASS) >> spec.CLASS_SHIFT
    return head


def _checked(job: Job, packet: Packet, head: dict[str, int]) -> bool:
    """[5-21]. Returns whether the packet brings data."""
    brings = bool(packet.flags & HAS_DATA)
    wrong = packet.length > job.chunk or head["class"] > spec.ALL or (head["class"] == spec.NONE and brings)
    if brings and head["class"] == spec.ALL:
        wrong |= not arithmetic.is_computed(packet.op, packet.dtype)
    if wrong:
        raise Dropped("5-21")
    return brings and not packet.status


def _contribution(
    device: Device, job: Job, slot: Slot, packet: Packet, head: dict[str, int], brings: bool, *, new: bool
) -> None:
    """Section 7.1."""
    bit = packet.source
    if new:
        slot = job.table[packet.seg] = Slot(packet.position, missing=job.mask, head=head, is_final=False)
    if not slot.missing >> bit & 1:
        if slot.is_final:
            _result(device, job, slot, bit)
        return
    wide = bool(packet.flags & WIDE)
    differs = head != slot.head
    if brings and not differs:
        differs = wide != job.is_wide(head) or bool(slot.data and head["class"] == spec.ONE)
        differs |= bool(slot.data) and len(slot.data[0][1]) != len(packet.payload)
        element = 4 if wide else spec.TYPES[head["dtype"]][1] if head["class"] == spec.ALL else 1
        differs |= len(packet.payload) % element != 0
    if differs:
        return membership.abort(device, job, spec.STATUS["OP_MISMATCH"], Named(1 << bit))
    slot.status = max(slot.status, membership.known(packet.status))
    if brings:
        slot.data.append((bit, packet.payload))
    slot.contributions = slot.contributions + packet.contributions & 0xFFFFFFFF
    if packet.flags & WANTS:
        slot.wants |= 1 << bit
    slot.hears &= bool(packet.flags & HEARS)
    slot.missing &= ~(1 << bit)
    if not slot.missing:
        _complete(device, job, slot)
    elif gone := slot.missing & job.left:
        membership.abort(device, job, spec.STATUS["ABORTED"], Named(gone))


def _complete(device: Device, job: Job, slot: Slot) -> None:
    """All are in: [7.1-13], [7.1-20], section 7.2."""
    head = slot.head
    if head["class"] != spec.NONE and not slot.data and not slot.status:
        return membership.abort(device, job, spec.STATUS["OP_MISMATCH"], NOBODY)
    if slot.data and not slot.status:
        data = [payload for _, payload in (sorted(slot.data) if job.in_order else slot.data)]
        if head["class"] == spec.ONE:
            slot.result = data[0]
        else:
            wide = job.is_wide(head)
            slot.result = arithmetic.value(head["op"], head["dtype"], data, slot.contributions, wide)
    slot.data, slot.is_final, slot.finished = [], True, device.now
    most_want = 2 * slot.wants.bit_count() > len(job.children)
    if device.may_invite(job) and slot.hears and (most_want or not slot.wants or slot.result is None):
        with_data = slot.result if slot.wants else None
        return device.to_group(job, "RESULT", _result_fields(job, slot, with_data), with_data or b"")  # [7.4-2]
    for bit in job.children:
        _result(device, job, slot, bit)


def _place(job: Job, slot: Slot) -> dict[str, int]:
    assert slot.position is not None
    place = {"position": slot.position, "seg": slot.position % job.slots}
    return place | {"mid": slot.head["mid"], "sid": slot.head["sid"]}


def _result(device: Device, job: Job, slot: Slot, bit: int, token: int = 0) -> None:
    """RESULT to a child, with the data if it wants them and they exist ([7.2-4])."""
    with_data = slot.result if slot.wants >> bit & 1 else None
    fields = _result_fields(job, slot, with_data) | {"node_bitmap": 1 << bit, "token": token}
    device.to_child(job, bit, "RESULT", fields, with_data or b"")


def _result_fields(job: Job, slot: Slot, with_data: bytes | None) -> dict[str, int]:
    """The fields of a RESULT, for every receiver."""
    flags = slot.head["class"] << spec.CLASS_SHIFT | (HAS_DATA if with_data is not None else 0)
    fields = {"op": slot.head["op"], "dtype": slot.head["dtype"], "flags": flags, "status": slot.status}
    return _place(job, slot) | fields | {"contributions": slot.contributions}


def _probe(device: Device, job: Job, slot: Slot, packet: Packet, new: bool) -> None:
    """[8-16] to [8-20]."""
    bit, now = packet.source, device.now
    place = {name: packet.ceth[name] for name in ("position", "seg", "mid", "sid", "token")}
    if new or slot.missing >> bit & 1:
        job.loss = now
        return device.to_child(job, bit, "NEED", place)
    no_loss = now - job.loss > DETECTION_S
    if slot.is_final and not (no_loss and now - slot.finished <= JUST_SENT_S):
        job.loss = now
        return _result(device, job, slot, bit, packet.token)
    ages = {each: now - job.children[each].heard for each in job.children if slot.missing >> each & 1}
    oldest = max(ages, key=lambda each: ages[each], default=0)
    age = min(round(ages.get(oldest, 0) * 1e6), 0xFFFFFFFF)
    body = spec.WAIT.pack({"oldest_age_us": age, "oldest_child": oldest, "kind": 1})
    return device.to_child(job, bit, "WAIT", place | {"node_bitmap": slot.missing}, body)
