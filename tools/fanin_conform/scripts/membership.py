"""Joining a job, refusals, the state of a job, leaving."""

from typing import Any

from fanin_conform.job import Job, f32
from fanin_conform.script import script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Route, Status
from fanin_wire.fields import WIRE_VERSION, Opcode
from fanin_wire.layers import CONFIG, HOP


@script("10.1-10", "10.1-22", "10.1-21", "10.2-1", "4-15")
def forming(tester: Tester) -> None:
    """PENDING names the missing children. The last CONFIG makes the job active, and each child gets N and W."""
    Job(tester, 3)


@script("10.1-18", "10.1-20", "4-5")
def config_again(tester: Tester) -> None:
    """A repeated CONFIG is answered again."""
    job = Job(tester, 2, join=False)
    for _ in range(2):
        job.config(0)
        tester.expect(job.pending(0, [1]))
    job.config(1)
    tester.expect(job.joined(0), job.joined(1))
    job.config(0)
    tester.expect(job.joined(0), clause="10.1-20")


@script("10.1-30")
def full_config(tester: Tester) -> None:
    """A CONFIG as long as the longest packet gets an answer of that length, a short one does not, repeated or not."""
    tester.profile.require_full()
    job = Job(tester, 2, chunk=1024, join=False)
    job.config(0, full=True)
    tester.expect(job.pending(0, [1]))
    job.config(1)
    tester.expect(job.joined(0, full=True), job.joined(1), clause="10.1-30")
    for full in (True, False):
        job.config(0, full=full)
        tester.expect(job.joined(0, full=full), clause="10.1-30")


@script("10.1-19", "10.2-1")
def the_least_lease_and_window(tester: Tester) -> None:
    """N and W of the job are the least that a child has offered."""
    job = Job(tester, 2, slots=8, join=False)
    job.config(0, slots=32, window=16)
    tester.expect(job.pending(0, [1]))
    job.config(1, slots=8, window=2)
    body = (8).to_bytes(4) + (2).to_bytes(4)
    expected = [job.to(bit, Opcode.CONFIG_ACK, body, token=job.token(bit)) for bit in range(2)]
    tester.expect(*expected)


@script("10.1-8", "5-22")
def config_that_is_not_for_this_device(tester: Tester) -> None:
    """A CONFIG with an impossible field is dropped: it begins no job."""
    job = Job(tester, 2, join=False)
    job.config(0, hop={"address": "::ffff:192.0.2.1"})
    for prefix in ("::", "::fffe:", "::1:ffff:", "2001:db8::ffff:"):
        job.config(0, hop={"address": f"{prefix}{tester.target.address}"})
    job.config(0, hop={"mask": 0b10})
    for field in ("slots", "window", "chunk", "route"):
        zero: dict[str, Any] = {field: 0}
        job.config(0, **zero)
    job.config(0, route=3)
    tester.nothing("10.1-8")
    tester.rest()
    job.send(Opcode.QUERY, 0, token=5)
    tester.expect(job.to(0, Opcode.NAK, status=int(Status.NOT_CONFIGURED)), clause="5-12")


@script("10.1-13", "10.1-14", "10-1")
def another_incarnation_is_refused(tester: Tester) -> None:
    """CONFIG of a known jid with another key, or of a known bit from another address: JID_IN_USE."""
    job = Job(tester, 2)
    job.config(0, ceth={"key": job.key ^ 1})
    tester.expect(job.refused(0, "JID_IN_USE", key=job.key ^ 1))
    job.config(0, source=tester.addresses[2])
    tester.expect(job.refused(0, "JID_IN_USE", address=tester.addresses[2]))
    job.complete(0)


@script("10.1-16", "11-19", "10.1-24")
def members_that_differ(tester: Tester) -> None:
    """Another digest, chunk, route or mask ends the job with MEMBERS_MISMATCH, for all that have joined."""
    changes: tuple[dict[str, Any], ...] = ({"digest_low": 9}, {"digest_high": 9}, {"chunk": 512})
    # Flags come last: if the profile lacks them the rest of the script is left out.
    for change in (*changes, {"route": int(Route.RING)}, {"hop": {"mask": 0b111}}, {"flags": 2}):
        job = Job(tester, 2, join=False)
        job.config(0)
        tester.expect(job.pending(0, [1]))
        job.config(1, **change)
        tester.expect(job.aborted(0, "MEMBERS_MISMATCH"), job.aborted(1, "MEMBERS_MISMATCH"))


@script("10.1-17", "11-21")
def a_member_that_has_restarted(tester: Tester) -> None:
    """CONFIG with another boot id: PEER_LOST, naming the child, to all."""
    job = Job(tester, 2)
    job.config(0, boot_id=999, ceth={"token": 999})
    lost = [job.aborted(bit, "PEER_LOST", 0, rank_bitmap=ANY) for bit in range(2)]
    tester.expect(*lost)


@script("10.6-2", "10.6-1")
def config_of_another_version(tester: Tester) -> None:
    """CONFIG_ACK(VERSION_MISMATCH) in the device's own version, with jid, key and source of the CONFIG."""
    job = Job(tester, 2, join=False)
    job.config(1, ceth={"version": WIRE_VERSION + 1})
    (answer,) = tester.expect(job.refused(1, "VERSION_MISMATCH", token=ANY))
    assert answer.ceth["version"] == WIRE_VERSION


@script("10.8-1", "10.8-2", "10.8-3", "4-18", "4-19")
def the_state_of_a_job(tester: Tester) -> None:
    """STATUS says PENDING, with the missing children, and then SUCCESS, with the token of the QUERY."""
    job = Job(tester, 2, join=False)
    job.config(0)
    tester.expect(job.pending(0, [1]))
    job.send(Opcode.QUERY, 0, token=0x1234)
    pending: dict[str, Any] = {"status": int(Status.PENDING), "seg": 1, "node_bitmap": 0b10}
    tester.expect(job.to(0, Opcode.STATUS, token=0x1234, **pending))
    job.config(1)
    tester.expect(job.joined(0), job.joined(1))
    job.send(Opcode.QUERY, 1, token=0x4321)
    tester.expect(job.to(1, Opcode.STATUS, token=0x4321))


@script("10.4-2", "10.4-3", "4-17")
def leaving(tester: Tester) -> None:
    """LEAVE is acknowledged every time. When all have left, the job is unknown."""
    job = Job(tester)
    for _ in range(2):
        job.send(Opcode.LEAVE, 0)
        tester.expect(job.to(0, Opcode.LEAVE_ACK), clause="10.4-2")
    job.send(Opcode.QUERY, 1, token=8)
    tester.expect(job.to(1, Opcode.STATUS, token=8), clause="10.4-3")
    job.send(Opcode.LEAVE, 1)
    tester.expect(job.to(1, Opcode.LEAVE_ACK))
    tester.rest()
    job.probe(1, 0)
    tester.expect(job.to(1, Opcode.NAK, status=int(Status.NOT_CONFIGURED)), clause="10.4-3")


@script("5-9", "10.4-4", "5-14")
def leave_of_an_unknown_job_and_of_a_wrong_incarnation(tester: Tester) -> None:
    """Both are acknowledged, with their own jid, key and source."""
    job = Job(tester)
    job.send(Opcode.LEAVE, 1, jid=job.jid ^ 1)
    tester.expect(job.to(1, Opcode.LEAVE_ACK, jid=job.jid ^ 1), clause="5-9")
    job.send(Opcode.LEAVE, 1, key=job.key ^ 1)
    tester.expect(job.to(1, Opcode.LEAVE_ACK, key=job.key ^ 1), clause="5-14")
    job.complete(0, f32(1))


@script("10.1-8", "5-22")
def config_with_numbers_that_can_not_be(tester: Tester) -> None:
    """A bit that is not the source, slots that are not a power of two, unknown flags, and missing hops."""
    job = Job(tester, 2, join=False)
    job.config(1, hop={"bit": 0})
    for slots in (1, 3, 12):
        job.config(0, slots=slots)
    for flags in (8, 0x80, 0xFF):
        job.config(0, flags=flags)
    for hops in (0, 2, 9, 255):
        job.config(0, hops=hops)
    tester.nothing("10.1-8")
    job.config(0)
    tester.expect(job.pending(0, [1]), clause="5-22")


@script("2.3-1", "2.3-2")
def a_longer_body(tester: Tester) -> None:
    """Further bytes of the body, which a later version may have, are ignored."""
    job = Job(tester, 1, join=False)
    hop = HOP(address=f"::ffff:{tester.target.address}", mask=1)
    body = CONFIG(boot_id=job.token(0), slots=job.slots, window=4, chunk=job.chunk, route=int(Route.TREE), hop=[hop])
    job.send(Opcode.CONFIG, 0, bytes(body) + b"later", token=job.token(0))
    tester.expect(job.joined(0), clause="2.3-2")


@script("10.1-11", "6-20")
def more_than_a_device_has(tester: Tester) -> None:
    """Chunks that exceed every slot, and fewer than four slots: NO_RESOURCES."""
    changes: tuple[dict[str, Any], ...] = ({"chunk": 1 << 16}, {"slots": 2, "window": 1})
    for change in changes:
        job = Job(tester, 1, join=False)
        job.config(0, **change)
        tester.expect(job.refused(0, "NO_RESOURCES"), clause="10.1-11")


@script("10.1-9", "6.1-12", "11-20", "4-15")
def more_lanes_than_a_device_has(tester: Tester) -> None:
    """TOO_FEW_LANES."""
    job = Job(tester, 1, join=False)
    job.config(0, last_lane=255)
    tester.expect(job.refused(0, "TOO_FEW_LANES"))


@script("10.4-8")
def leaving_before_the_job_is_active(tester: Tester) -> None:
    """The job forms anyway. A position that needs the one that has left is ABORTED."""
    job = Job(tester, join=False)
    job.config(0)
    tester.expect(job.pending(0, [1]))
    job.send(Opcode.LEAVE, 0)
    tester.expect(job.to(0, Opcode.LEAVE_ACK))
    job.config(1)
    tester.expect(job.joined(0), job.joined(1))
    job.contribute(1, 0, f32(1))
    tester.expect(job.aborted(1, "ABORTED", 0))


@script("5-24", "5-18")
def a_bit_that_is_no_childs(tester: Tester) -> None:
    """LEAVE of a bit outside the mask is dropped; that of a child that has not joined ends the job by its status."""
    job = Job(tester, join=False)
    job.config(0)
    tester.expect(job.pending(0, [1]))
    job.send(Opcode.LEAVE, 7, source=tester.addresses[2], status=int(Status.TIMEOUT))
    tester.nothing("5-24")
    job.send(Opcode.LEAVE, 1, status=int(Status.TIMEOUT))
    tester.expect(job.aborted(0, "TIMEOUT", 1), job.to(1, Opcode.LEAVE_ACK), clause="5-18")


@script("5-18", "5-21")
def packets_before_a_job_is_active(tester: Tester) -> None:
    """A child that has not joined gets no answer; a position gets none yet."""
    job = Job(tester, join=False)
    job.config(0)
    tester.expect(job.pending(0, [1]))
    job.send(Opcode.QUERY, 1, token=3)
    tester.nothing("5-18")
    job.contribute(0, 0, f32(1))
    job.probe(0, 0)
    tester.nothing("5-21")
    job.config(1)
    tester.expect(job.joined(0), job.joined(1))
    job.complete(0)
