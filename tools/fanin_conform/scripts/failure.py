"""Errors, aborts and tombstones."""

from fanin_conform.job import Job, f32
from fanin_conform.script import script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode


def ended(tester: Tester) -> Job:
    """A job that child 1 has ended with TIMEOUT; child 0 has heard it."""
    job = Job(tester)
    job.send(Opcode.LEAVE, 1, status=int(Status.TIMEOUT))
    tester.expect(job.aborted(0, "TIMEOUT", 1), job.to(1, Opcode.LEAVE_ACK))
    return job


@script("11-3", "11-4", "11-2")
def leave_with_a_status(tester: Tester) -> None:
    """It ends the job with that status for the others, naming the child; the LEAVE is acknowledged."""
    ended(tester)


@script("11-3", "11-2", "4-20")
def abort_of_a_child(tester: Tester) -> None:
    """All children get the status."""
    job = Job(tester, 3)
    job.send(Opcode.ABORT, 1, status=int(Status.PEER_LOST), node_bitmap=0b100, rank_bitmap=0x0A000001)
    expected = [job.aborted(bit, "PEER_LOST", 2, rank_bitmap=0x0A000001) for bit in range(3)]
    tester.expect(*expected)


@script("11-7", "11-1", "5-16", "10.1-15")
def a_tombstone_answers(tester: Tester) -> None:
    """Every question gets ABORT with the status; LEAVE gets LEAVE_ACK."""
    job = ended(tester)
    job.contribute(0, 0, f32(1))
    tester.expect(job.aborted(0, "TIMEOUT", 1))
    job.probe(0, 0)
    tester.expect(job.aborted(0, "TIMEOUT", 1))
    for code in (Opcode.KEEPALIVE, Opcode.RESULT, Opcode.ACK, Opcode.QUERY):
        job.send(code, 0)
        tester.expect(job.aborted(0, "TIMEOUT", 1), clause="11-7")
    for code in (Opcode.NEED, Opcode.WAIT, Opcode.NAK, Opcode.ABORT, Opcode.STATUS, Opcode.CONFIG_ACK):
        job.send(code, 0)
    tester.nothing("11-7")
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
    job.send(Opcode.NAK, 1, status=int(Status.NOT_CONFIGURED))
    tester.expect(*(job.aborted(bit, "PEER_LOST", 1, rank_bitmap=ANY) for bit in range(2)))


@script("11-28")
def a_position_that_needs_a_child_that_has_left(tester: Tester) -> None:
    """ABORTED, for those that are still in the job."""
    job = Job(tester)
    job.send(Opcode.LEAVE, 1)
    tester.expect(job.to(1, Opcode.LEAVE_ACK))
    job.contribute(0, 0, f32(1))
    tester.expect(job.aborted(0, "ABORTED"))


@script("11-6", "4-28")
def an_abort_that_says_success(tester: Tester) -> None:
    """SUCCESS and PENDING in an ABORT count as ABORTED."""
    for status in ("SUCCESS", "PENDING"):
        job = Job(tester)
        job.send(Opcode.ABORT, 1, status=int(Status[status]))
        tester.expect(*(job.aborted(bit, "ABORTED", node_bitmap=0) for bit in range(2)), clause="11-6")


@script("4-23", "4-24")
def names_are_counted_anew(tester: Tester) -> None:
    """A child's members of a device above get one more for the children."""
    for code in (Opcode.ABORT, Opcode.LEAVE):
        job = Job(tester)
        job.send(code, 1, status=int(Status.TIMEOUT), seg=2, node_bitmap=0b101)
        told = [job.aborted(0, "TIMEOUT", seg=3, node_bitmap=0b101)]
        again = job.aborted(1, "TIMEOUT", seg=3, node_bitmap=0b101)
        tester.expect(*told, again if code == Opcode.ABORT else job.to(1, Opcode.LEAVE_ACK), clause="4-24")


@script("4-28", "11-3")
def a_leave_that_names_nobody(tester: Tester) -> None:
    """It is about the child itself, whatever its seg says."""
    job = Job(tester)
    job.send(Opcode.LEAVE, 1, status=int(Status.TIMEOUT), seg=2)
    tester.expect(job.aborted(0, "TIMEOUT", 1), job.to(1, Opcode.LEAVE_ACK), clause="4-28")


@script("4-20", "4-25")
def the_address_of_a_lost_device(tester: Tester) -> None:
    """It is passed on as it is with PEER_LOST, and not with another status."""
    for status, address in (("PEER_LOST", 0x0A000001), ("TIMEOUT", 0)):
        job = Job(tester)
        job.send(Opcode.LEAVE, 1, status=int(Status[status]), node_bitmap=1, rank_bitmap=0x0A000001)
        tester.expect(job.aborted(0, status, 0, rank_bitmap=address), job.to(1, Opcode.LEAVE_ACK), clause="4-20")


@script("11-3")
def a_status_of_one_that_has_left(tester: Tester) -> None:
    """A second LEAVE is acknowledged, with any status, and ends nothing."""
    job = Job(tester, 3)
    for status in ("SUCCESS", "TIMEOUT"):
        job.send(Opcode.LEAVE, 1, status=int(Status[status]))
        tester.expect(job.to(1, Opcode.LEAVE_ACK), clause="11-3")


@script("11-28")
def a_child_that_leaves_an_open_position(tester: Tester) -> None:
    """It has not contributed: ABORTED, naming it. One that has contributed may leave, and gets its result."""
    job = Job(tester)
    job.contribute(0, 0, f32(1))
    job.send(Opcode.LEAVE, 1)
    tester.expect(job.aborted(0, "ABORTED", 1), job.to(1, Opcode.LEAVE_ACK))
    job = Job(tester)
    job.contribute(0, 0, f32(1))
    job.send(Opcode.LEAVE, 0)
    tester.expect(job.to(0, Opcode.LEAVE_ACK))
    job.contribute(1, 0, f32(2))
    tester.expect(*(job.result(bit, 0, f32(3)) for bit in range(2)), clause="7.2-4")


@script("5-10", "5-11", "11-11")
def a_reason_left_behind(tester: Tester) -> None:
    """LEAVE with a status, of an unknown job: CONFIG of that key gets the status, another one forms a job."""
    job = Job(tester, join=False)
    job.send(Opcode.LEAVE, 1, status=int(Status.TIMEOUT))
    tester.expect(job.to(1, Opcode.LEAVE_ACK))
    job.send(Opcode.LEAVE, 1, key=job.key ^ 1, status=int(Status.ABORTED))
    tester.expect(job.to(1, Opcode.LEAVE_ACK, key=job.key ^ 1))
    tester.rest()
    job.probe(0, 0)
    tester.expect(job.to(0, Opcode.NAK, status=int(Status.NOT_CONFIGURED)), clause="11-11")
    job.config(0)
    tester.expect(job.aborted(0, "TIMEOUT"), clause="5-10")
    job.key ^= 1
    job.config(0)
    tester.expect(job.pending(0, [1]), clause="5-11")


@script("11-12", "11-13", "10.1-14")
def a_refused_incarnation_stays_refused(tester: Tester) -> None:
    """When the job that held the jid is over, the refused key gets JID_IN_USE, and the next one forms a job."""
    job = Job(tester)
    job.config(0, ceth={"key": job.key ^ 1})
    tester.expect(job.refused(0, "JID_IN_USE", key=job.key ^ 1))
    for bit in range(2):
        job.send(Opcode.LEAVE, bit)
        tester.expect(job.to(bit, Opcode.LEAVE_ACK))
    job.key ^= 1
    job.config(0)
    tester.expect(job.aborted(0, "JID_IN_USE"), clause="11-13")
    job.key ^= 2
    job.config(0)
    tester.expect(job.pending(0, [1]), clause="11-13")


@script("11-8", "11-9")
def a_tombstone_ends_when_all_have_left(tester: Tester) -> None:
    """Also of a job that was never formed: the last member that leaves frees it."""
    job = Job(tester, join=False)
    job.config(0)
    tester.expect(job.pending(0, [1]))
    job.config(1, digest_low=9)
    tester.expect(job.aborted(0, "MEMBERS_MISMATCH", 1), job.aborted(1, "MEMBERS_MISMATCH", 1))
    job.send(Opcode.LEAVE, 0, status=int(Status.MEMBERS_MISMATCH))
    tester.expect(job.to(0, Opcode.LEAVE_ACK))
    job.config(1)
    tester.expect(job.aborted(1, "MEMBERS_MISMATCH", 1), clause="11-9")
    job.send(Opcode.LEAVE, 1, status=int(Status.MEMBERS_MISMATCH))
    tester.expect(job.to(1, Opcode.LEAVE_ACK))
    tester.rest()
    job.probe(0, 0)
    tester.expect(job.to(0, Opcode.NAK, status=int(Status.NOT_CONFIGURED)), clause="11-8")
