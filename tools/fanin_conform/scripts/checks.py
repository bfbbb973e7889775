"""What keeps strangers, stale packets and other jobs out."""

from fanin_conform.job import DATA, ONE, WANTS, Job, f32
from fanin_conform.script import script
from fanin_conform.tester import Tester
from fanin_wire.abi import DType, Op, Status
from fanin_wire.fields import Opcode

NO_OP, NO_TYPE = int(max(Op)) + 1, int(max(DType)) + 1


def half(tester: Tester) -> Job:
    """A job with one contribution of two to position 0."""
    job = Job(tester)
    job.contribute(0, 0, f32(1))
    tester.nothing()
    return job


def completes(tester: Tester, job: Job) -> None:
    """Nothing has changed: the right contribution completes the position."""
    job.contribute(1, 0, f32(2))
    tester.expect(job.result(0, 0, f32(3)), job.result(1, 0, f32(3)), clause="5-22")


@script("5-12", "4-21")
def packets_of_an_unknown_job(tester: Tester) -> None:
    """QUERY of an unknown job gets NAK; NEED, WAIT and RESULT get nothing."""
    job = Job(tester)
    other = job.jid ^ 1
    for code in (Opcode.NEED, Opcode.WAIT, Opcode.RESULT, Opcode.ACK, Opcode.STATUS, Opcode.LEAVE_ACK, Opcode.NAK):
        job.send(code, 0, jid=other)
    tester.nothing("5-13")
    tester.rest()
    job.send(Opcode.QUERY, 0, jid=other, token=3)
    tester.expect(job.to(0, Opcode.NAK, jid=other, status=int(Status.NOT_CONFIGURED)), clause="5-12")


@script("5-15", "5-22", "10-1")
def a_wrong_key(tester: Tester) -> None:
    """Packets of another incarnation are dropped."""
    job = half(tester)
    job.contribute(1, 0, f32(9), key=job.key ^ 1)
    job.probe(0, 0, key=job.key ^ 1)
    job.send(Opcode.ABORT, 1, key=job.key ^ 1, status=int(Status.ABORTED))
    tester.nothing("5-15")
    completes(tester, job)


@script("5-17", "5-22")
def a_wrong_sender(tester: Tester) -> None:
    """A contribution or PROBE from another address than the one that joined with the bit is dropped."""
    job = half(tester)
    stranger = tester.addresses[2]
    job.contribute(1, 0, f32(9), from_=stranger)
    job.contribute(1, 0, f32(9), from_=job.addresses[0])
    job.send(Opcode.PROBE, 0, source=stranger, token=7, **job.place(0))
    job.send(Opcode.ABORT, 1, source=stranger, status=int(Status.ABORTED))
    tester.nothing("5-17")
    completes(tester, job)


@script("5-21", "4-6", "5-22")
def a_wrong_slot_class_or_length(tester: Tester) -> None:
    """seg other than position mod N, the reserved class, NONE with data, and more than a chunk: dropped."""
    job = half(tester)
    job.contribute(1, 0, f32(9), seg=1)
    job.contribute(1, 0, f32(9), flags=0x63)
    job.contribute(1, 0, f32(9), flags=0x03)
    job.contribute(1, 0, bytes(job.chunk + 4), dtype=1)
    tester.nothing("5-21")
    completes(tester, job)


@script("5-21", "12-1")
def operations_that_there_are_not(tester: Tester) -> None:
    """An unknown op or type, or an op that does not take the type, is dropped."""
    job = half(tester)
    for op, dtype in ((0, 1), (NO_OP, 1), (255, 1), (1, 0), (1, NO_TYPE), (9, 1), (1, 13), (12, 1), (2, 14)):
        job.contribute(1, 0, f32(9), op=op, dtype=dtype)
    tester.nothing("5-21")
    completes(tester, job)


@script("12-34", "12-33", "5-21")
def bytes_are_not_computed_with(tester: Tester) -> None:
    """Data of dtype 0 and class ALL, with or without an op, are dropped; those of class ONE are taken."""
    job = half(tester)
    for op in range(NO_OP):
        job.contribute(1, 0, b"bytes", op=op, dtype=0)
    tester.nothing("12-34")
    completes(tester, job)
    told = {"op": 0, "flags": ONE | DATA, "contributions": 1}
    job.contribute(0, 1, b"bytes", op=0, dtype=0, flags=ONE | DATA | WANTS)
    tester.nothing()
    job.contribute(1, 1, None, op=0, dtype=0, flags=ONE | WANTS)
    tester.expect(*(job.result(bit, 1, b"bytes", **told) for bit in range(2)), clause="12-33")


@script("5-23", "5-22")
def packets_that_go_down_do_not_come_up(tester: Tester) -> None:
    """RESULT, NEED, WAIT, CONFIG_ACK and STATUS of a child are dropped."""
    job = half(tester)
    job.send(Opcode.RESULT, 1, f32(9).tobytes(), **job.place(0), op=1, dtype=1, flags=0x41, node_bitmap=3)
    for code in (Opcode.NEED, Opcode.WAIT, Opcode.STATUS, Opcode.CONFIG_ACK):
        job.send(code, 1, **job.place(0), token=1)
    tester.nothing("5-23")
    completes(tester, job)


@script("10-1", "7.1-1")
def two_jobs_at_once(tester: Tester) -> None:
    """Two jobs of the same children with the same positions do not meet."""
    first, second = half(tester), half(tester)
    second.contribute(1, 0, f32(20))
    tester.expect(second.result(0, 0, f32(21)), second.result(1, 0, f32(21)))
    completes(tester, first)
