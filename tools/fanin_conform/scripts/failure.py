"""Errors, aborts and tombstones."""

from __future__ import annotations

from fanin_conform.job import Job, f32
from fanin_conform.script import script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode


def ended(tester: Tester) -> Job:
    """A job that child 1 has ended with TIMEOUT; child 0 is told."""
    job = Job(tester)
    job.send(Opcode.LEAVE, 1, status=int(Status["TIMEOUT"]))
    tester.expect(job.aborted(0, "TIMEOUT", 1), job.to(1, Opcode.LEAVE_ACK))
    return job


@script("11-3", "11-4", "11-2")
def leave_with_a_status(tester: Tester) -> None:
    """It ends the job with that status for the others, naming the child; the LEAVE is acknowledged."""
    ended(tester)


@script("11-3", "11-2", "4-20")
def abort_of_a_child(tester: Tester) -> None:
    """All children are told the status."""
    job = Job(tester, 3)
    job.send(Opcode.ABORT, 1, status=int(Status["PEER_LOST"]), node_bitmap=0b100, rank_bitmap=0x0A000001)
    expected = [job.aborted(bit, "PEER_LOST", 2, rank_bitmap=0x0A000001) for bit in range(3)]
    tester.expect(*expected)


@script("11-7", "11-1", "5-16")
def a_tombstone_answers(tester: Tester) -> None:
    """CONTRIBUTION, PROBE, KEEPALIVE and CONFIG get ABORT with the status; LEAVE gets LEAVE_ACK."""
    job = ended(tester)
    job.contribute(0, 0, f32(1))
    tester.expect(job.aborted(0, "TIMEOUT", 1))
    job.probe(0, 0)
    tester.expect(job.aborted(0, "TIMEOUT", 1))
    job.send(Opcode.KEEPALIVE, 0)
    tester.expect(job.aborted(0, "TIMEOUT", 1))
    job.config(0)
    tester.expect(job.aborted(0, "TIMEOUT", 1), clause="10.1-15")
    job.send(Opcode.LEAVE, 0)
    tester.expect(job.to(0, Opcode.LEAVE_ACK))


@script("11-6")
def a_status_that_nobody_knows(tester: Tester) -> None:
    """It counts as ABORTED."""
    job = Job(tester)
    job.send(Opcode.LEAVE, 1, status=200)
    tester.expect(job.aborted(0, "ABORTED", 1), job.to(1, Opcode.LEAVE_ACK))


@script("11-26")
def nak_of_a_child(tester: Tester) -> None:
    """NAK for an active job from a child that has not left: it has restarted."""
    job = Job(tester)
    job.send(Opcode.NAK, 1, status=int(Status["NOT_CONFIGURED"]))
    tester.expect(*(job.aborted(bit, "PEER_LOST", 1, rank_bitmap=ANY) for bit in range(2)))


@script("11-28")
def a_position_that_needs_a_child_that_has_left(tester: Tester) -> None:
    """ABORTED, for those that are still here."""
    job = Job(tester)
    job.send(Opcode.LEAVE, 1)
    tester.expect(job.to(1, Opcode.LEAVE_ACK))
    job.contribute(0, 0, f32(1))
    tester.expect(job.aborted(0, "ABORTED"))
