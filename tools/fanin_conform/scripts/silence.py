"""Neighbours that fall silent, keep-alives, and jobs that age out."""

import ipaddress
from typing import Any

from fanin_conform.below import JobBelow
from fanin_conform.job import Job, f32
from fanin_conform.script import script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import WAIT_BODY, Opcode
from fanin_wire.status import STATUSES

LOST = int(Status.PEER_LOST)


def number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


def told(seen: list[Any], job: Job) -> dict[str, dict[str, int]]:
    return {to: each.ceth for to, each in seen if each.opcode == Opcode.ABORT and each.ceth["jid"] == job.jid}


@script("10.5-1", "10.5-2", "10.5-5", "10.5-6", "11-15", "11-16", "11-23", "11-29", waits=True)
def children_that_fall_silent(tester: Tester) -> None:
    """A single one is named with its address, two at once without, also while the job forms; live ones hear it."""
    one, two, forming, living = Job(tester, 3), Job(tester, 3), Job(tester, 3, join=False), Job(tester)
    for bit in range(2):
        forming.config(bit)
        tester.expect(forming.pending(bit, range(bit + 1, 3)))
    living.contribute(0, 0, f32(1))
    alive = [(one, 0), (one, 1), (two, 0), (forming, 0), (living, 0), (living, 1)]
    tester.kept_alive.clear()
    seen = tester.spend(tester.profile.detection_s * 1.2, alive)
    for job, silent in ((one, 0b100), (two, 0b110), (forming, 0b010)):
        ends = told(seen, job)
        assert job.addresses[0] in ends, f"nobody is told that {silent:#b} are silent"
        end = ends[job.addresses[0]]
        bits = end["node_bitmap"]
        assert (end["status"], end["seg"]) == (LOST, 1), f"{end}"
        # Where time is real, one may be noticed before the other.
        assert bits == silent or (not tester.target.is_virtual and bits and not bits & ~silent), f"named are {bits:#b}"
        address = 0 if bits & bits - 1 else number(job.addresses[bits.bit_length() - 1])
        assert end["rank_bitmap"] == address, f"the lost device is {end['rank_bitmap']:#x}"
    assert not told(seen, living), "a live child that has not contributed counts as lost"
    for bit in range(2):
        count = tester.kept_alive[living.addresses[bit], living.jid]
        assert count >= 6, f"{count} KEEPALIVEs to child {bit} in more than a detection time"
    living.contribute(1, 0, f32(1))
    tester.expect(*(living.result(bit, 0, f32(2)) for bit in range(2)), clause="11-29")


@script("5-22", "10.1-8", "11-23", waits=True)
def what_is_dropped_is_no_sign_of_life(tester: Tester) -> None:
    """A child that sends only impossible CONFIGs is silent."""
    job, seen = Job(tester), []
    for _ in range(12):
        job.config(1, window=0)
        seen += tester.spend(tester.profile.detection_s * 0.12, [(job, 0)], step=tester.profile.detection_s * 0.03)
    assert told(seen, job), "a CONFIG that is dropped counts as a sign of life"


@script("10.5-3", waits=True)
def one_that_has_left_is_no_neighbour(tester: Tester) -> None:
    """It may be silent, and gets no KEEPALIVE."""
    job = Job(tester, 3)
    job.send(Opcode.LEAVE, 2)
    tester.expect(job.to(2, Opcode.LEAVE_ACK))
    tester.kept_alive.clear()
    seen = tester.spend(tester.profile.detection_s * 1.2, [(job, 0), (job, 1)])
    assert not told(seen, job), "a child that has left counts as lost"
    assert not tester.kept_alive[job.addresses[2], job.jid], "a child that has left gets a KEEPALIVE"


@script("8-24", waits=True)
def how_long_the_missing_one_was_silent(tester: Tester) -> None:
    """WAIT names the missing child that was silent longest, and since when."""
    job = Job(tester, 3)
    job.contribute(0, 0, f32(1))
    begun = tester.target.now()
    tester.spend(1.0, [(job, 0), (job, 1)])
    job.probe(0, 0)
    waiting = job.to(0, Opcode.WAIT, ANY, token=77, node_bitmap=0b110, **job.place(0))
    (answer,) = tester.expect(waiting)
    age, oldest = int.from_bytes(answer.payload[:4]), answer.payload[4]
    assert len(answer.payload) >= WAIT_BODY.size, "WAIT has no body"
    assert oldest == 2, f"oldest_child is {oldest}, not 2"
    spent = tester.target.now() - begun
    assert 500_000 < age < (spent + 1) * 1e6, f"oldest_age_us is {age}"


@script("11-24", "10.1-7", "11-15", waits=True)
def a_parent_that_falls_silent(tester: Tester) -> None:
    """PEER_LOST with its address to the children: in an active job, and if it has never answered."""
    active, asking = JobBelow(tester), JobBelow(tester, grant=False)
    alive = [(job, bit) for job in (active, asking) for bit in range(2)]
    seen = tester.spend(tester.profile.detection_s * 1.3, alive)
    for job in (active, asking):
        ends = told(seen, job)
        for address in job.addresses:
            assert address in ends, "a child is not told that the parent is silent"
            end = ends[address]
            assert end["status"] == LOST, f"status is {STATUSES[end['status']].name}"
            assert end["rank_bitmap"] == number(job.parent), f"the lost device is {end['rank_bitmap']:#x}"


@script("10.4-5", "10.4-3", "10.3-4", waits=True)
def a_parent_that_does_not_let_go(tester: Tester) -> None:
    """A LEAVE without an ACK is sent five times or more; after the detection time the job is freed."""
    job = JobBelow(tester)
    for bit in range(2):
        job.send(Opcode.LEAVE, bit)
    tester.expect(*(job.to(bit, Opcode.LEAVE_ACK) for bit in range(2)), job.up(Opcode.LEAVE))
    tester.repeats.clear()
    tester.spend(tester.profile.detection_s * 1.3)
    assert tester.repeats[Opcode.LEAVE] >= 4, f"LEAVE was sent again {tester.repeats[Opcode.LEAVE]} times only"
    tester.rest()
    job.probe(0, 0)
    tester.expect(job.to(0, Opcode.NAK, status=int(Status.NOT_CONFIGURED)), clause="10.4-5")


@script("10.5-8", "10.3-5", "11-8", "11-9", waits=True)
def jobs_age_out(tester: Tester) -> None:
    """A job whose children are all silent, or a tombstone, is freed after the ageing time: it is unknown."""
    active, ended = Job(tester), Job(tester)
    ended.send(Opcode.ABORT, 1, status=int(Status.TIMEOUT))
    tester.expect(*(ended.aborted(bit, "TIMEOUT", node_bitmap=ANY, seg=ANY) for bit in range(2)))
    tester.spend(tester.profile.ageing_s * 1.2)
    for job in (active, ended):
        tester.rest()
        job.probe(0, 0)
        tester.expect(job.to(0, Opcode.NAK, status=int(Status.NOT_CONFIGURED)), clause="10.5-8")
