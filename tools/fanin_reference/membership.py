"""Joining a job, leaving it, and its end (sections 10 and 11)."""

import ipaddress

from fanin_reference import packets, spec
from fanin_reference.device import Device
from fanin_reference.job import NOBODY, Child, Job, Named, Slot, State
from fanin_reference.packets import Dropped, Packet

MIN_LEASE, MAX_LEASE, MAX_CHUNK = 4, 256, 8192
WIDE, IN_PATH, IN_SHAPE = 1, 2, 4  # flags of CONFIG
TREE, RING = 1, 2  # routes: to a device above, to the next node
MAPPED = 0xFFFF << 32  # an IPv4 address as an IPv6 one


def config(device: Device, packet: Packet) -> None:
    """CONFIG: section 10.1."""
    if packet.version != packets.VERSION:
        return refuse(device, packet, "VERSION_MISMATCH")
    body, hop = _parsed(device, packet)
    place = (packet.lane, packet.jid)
    job = device.jobs.get(place)
    if job and job.state == State.REMEMBERED and job.key != packet.key:
        job = None
    if job is None:
        if body["route"] != TREE:
            raise Dropped("10.1-8")
        if body["last_lane"] >= device.lanes:
            return refuse(device, packet, "TOO_FEW_LANES")
        if body["hops"] > 1:
            return refuse(device, packet, "NOT_SUPPORTED")
        if body["slots"] < MIN_LEASE or body["chunk"] > MAX_CHUNK:
            return refuse(device, packet, "NO_RESOURCES")
        job = device.jobs[place] = _new(packet, body, hop, device.now)
    if job.key != packet.key:
        job.refused = packet.key
        return refuse(device, packet, "JID_IN_USE")
    child = job.children.get(packet.source)
    strange = not job.missing and job.state != State.REMEMBERED and not job.mask >> packet.source & 1
    if strange or (child and child.address != packet.address):
        return refuse(device, packet, "JID_IN_USE")
    if job.state in (State.TOMBSTONE, State.REMEMBERED):
        return device.answer(packet, "ABORT", job.ended)
    job.heard = device.now
    if job.alike != _compared_fields(body, hop):
        if child is None:
            end = {"status": spec.STATUS["MEMBERS_MISMATCH"], "seg": 1, "node_bitmap": 1 << packet.source}
            device.answer(packet, "ABORT", end)
        return abort(device, job, spec.STATUS["MEMBERS_MISMATCH"], Named(1 << packet.source))
    if child and child.boot_id != body["boot_id"]:
        return lost(device, job, 1 << packet.source)
    is_full = len(packet.payload) >= job.chunk
    if child is None:
        child = job.children[packet.source] = Child(packet.address, body["boot_id"], is_full, device.now, device.now)
        job.slots = min(job.slots, body["slots"])
        job.window = min(job.window, body["window"])
        if not job.missing:
            _activate(device, job)
            return None
    child.heard = device.now
    child.is_full = is_full
    return _acknowledge(device, job, packet.source)


def _parsed(device: Device, packet: Packet) -> tuple[dict[str, int], dict[str, int]]:
    """The body of a CONFIG and its first HOP; [10.1-8]."""
    body = spec.CONFIG.unpack(packet.payload)
    size = spec.CONFIG.size + body["hops"] * spec.HOP.size
    hops = [spec.HOP.unpack(packet.payload[at:]) for at in range(spec.CONFIG.size, size, spec.HOP.size)]
    if not 0 < body["hops"] <= spec.CONSTANTS["HOP entries of a CONFIG, at most"] or len(packet.payload) < size:
        raise Dropped("10.1-8")
    hop = hops[0]
    wrong = any(each["bit"] > 63 or not each["mask"] >> each["bit"] & 1 for each in hops)
    wrong |= any(each["address"] >> 32 != MAPPED >> 32 for each in hops)
    wrong |= hop["address"] & 0xFFFFFFFF != int(ipaddress.IPv4Address(device.address)) or hop["bit"] != packet.source
    wrong |= 0 in (body["window"], body["chunk"]) or body["flags"] > WIDE | IN_PATH | IN_SHAPE
    wrong |= body["route"] not in (TREE, RING)
    wrong |= body["slots"] < 2 or body["slots"] & body["slots"] - 1 != 0
    if wrong:
        raise Dropped("10.1-8")
    return body, hop


def _compared_fields(body: dict[str, int], hop: dict[str, int]) -> tuple[int, ...]:
    fields = ("digest_high", "digest_low", "chunk", "route", "flags", "last_lane")
    return (*(body[name] for name in fields), hop["mask"])


def _new(packet: Packet, body: dict[str, int], hop: dict[str, int], now: float) -> Job:
    job = Job(
        packet.jid, packet.key, packet.lane, State.JOINING, now, mask=hop["mask"], alike=_compared_fields(body, hop)
    )
    job.slots, job.window = min(body["slots"], MAX_LEASE), body["window"]
    job.chunk, job.flags = body["chunk"], body["flags"]
    return job


def _activate(device: Device, job: Job) -> None:
    """The top activates, and tells each child: section 10.2."""
    fitting = device.buffer // (len(job.children) * 2 * (job.chunk + 256))
    job.window = max(1, min(job.window, job.slots // 2, fitting))
    job.state = State.ACTIVE
    job.table = [Slot() for _ in range(job.slots)]
    for bit in job.children:
        _acknowledge(device, job, bit)
    if device.may_invite(job):
        device.invite(job)  # [7.4-8]


def forming(job: Job) -> dict[str, int]:
    """Status, seg and node_bitmap of CONFIG_ACK and STATUS; seg 1: the missing are children of this device."""
    if job.state == State.ACTIVE:
        return {"status": spec.STATUS["SUCCESS"]}
    return {"status": spec.STATUS["PENDING"], "seg": 1, "node_bitmap": job.missing}


def _acknowledge(device: Device, job: Job, bit: int) -> None:
    child = job.children[bit]
    token = child.boot_id & 0xFFFFFFFF
    body = spec.CONFIG_ACK.pack({"slots": job.slots, "window": job.window if job.state == State.ACTIVE else 0})
    if job.state == State.ACTIVE and child.is_full:
        body = body.ljust(job.chunk, b"\0")  # [10.1-30]
    device.to_child(job, bit, "CONFIG_ACK", {"token": token} | forming(job), body)


def refuse(device: Device, packet: Packet, status: str) -> None:
    """CONFIG_ACK with a status that ends the job for the sender."""
    fields = {"token": packet.token, "status": spec.STATUS[status]}
    device.answer(packet, "CONFIG_ACK", fields, bytes(spec.CONFIG_ACK.size))


def leave(device: Device, job: Job, packet: Packet) -> None:
    """LEAVE of a member: section 10.4."""
    device.answer(packet, "LEAVE_ACK")
    bit = packet.source
    first = not job.left >> bit & 1
    job.left |= 1 << bit
    if job.state != State.TOMBSTONE and packet.status and first:
        about = named(packet)
        abort(device, job, packet.status, about if about.bits else Named(1 << bit, address=about.address))  # [4-28]
    elif job.mask & ~job.left == 0:
        free(device, job)
    elif any(not slot.is_final and slot.missing >> bit & 1 for slot in job.table):
        abort(device, job, spec.STATUS["ABORTED"], Named(1 << bit))


def named(packet: Packet) -> Named:
    """The members that an ABORT or LEAVE of a child names: section 4, Naming members."""
    address = packet.rank_bitmap if packet.status == spec.STATUS["PEER_LOST"] else 0
    return Named(packet.node_bitmap, packet.seg, address)


def reason(packet: Packet) -> int:
    """The status of an ABORT ([11-6])."""
    none = packet.status in (spec.STATUS["SUCCESS"], spec.STATUS["PENDING"])
    return spec.STATUS["ABORTED"] if none else packet.status


def lost(device: Device, job: Job, bits: int) -> None:
    """Children were silent or have restarted. A single one is named with its address ([11-15], [11-16])."""
    one = bits & bits - 1 == 0
    address = int(ipaddress.IPv4Address(job.children[bits.bit_length() - 1].address)) if one else 0
    abort(device, job, spec.STATUS["PEER_LOST"], Named(bits, 0, address))


def known(status: int) -> int:
    """An unknown status counts as ABORTED ([11-6])."""
    return status if status in spec.STATUS.values() else spec.STATUS["ABORTED"]


def abort(device: Device, job: Job, status: int, about: Named) -> None:
    """The job becomes a tombstone, and all present children get ABORT: section 11."""
    if job.state == State.TOMBSTONE:
        return
    job.state, job.status, job.about, job.table = State.TOMBSTONE, known(status), about, []
    for bit in job.present:
        device.to_child(job, bit, "ABORT", job.ended)
    if job.mask & ~job.left == 0:
        free(device, job)


def remember(device: Device, lane: int, jid: int, key: int, status: int, about: Named = NOBODY) -> None:
    """A tombstone without slots: of a LEAVE of an unknown job, or of a refused incarnation."""
    job = Job(jid, key, lane, State.REMEMBERED, device.now, status=known(status), about=about)
    device.jobs[lane, jid] = job


def free(device: Device, job: Job) -> None:
    """Forget a job; a key that was refused meanwhile stays refused ([11-13])."""
    del device.jobs[job.lane, job.jid]
    if job.refused is not None:
        remember(device, job.lane, job.jid, job.refused, spec.STATUS["JID_IN_USE"])
