"""One RESULT for all children, by the multicast group of the device (section 7.4)."""

from fanin_conform.job import ALL, DATA, WANTS, Job, f32
from fanin_conform.profile import LeftOut
from fanin_conform.script import script
from fanin_conform.tester import Expected, Tester
from fanin_wire.abi import Op
from fanin_wire.fields import Flag, Opcode

HEARS = int(Flag.HEARS_GROUP)


def job_of_group(tester: Tester, size: int = 3) -> Job:
    """A job; LeftOut if the target has no group."""
    if not tester.target.group:
        raise LeftOut("multicast group here")
    return Job(tester, size)


def contribute(job: Job, position: int, hearing: int, wanting: int = 7) -> None:
    """Each child contributes 1; bitmaps of those that hear the group, and want the result."""
    for bit in range(job.size):
        flags = ALL | DATA | (HEARS if hearing >> bit & 1 else 0) | (WANTS if wanting >> bit & 1 else 0)
        job.contribute(bit, position, f32(1), flags=flags)


def to_all(job: Job, position: int) -> Expected:
    """The RESULT to the group."""
    values = {"op": int(Op.SUM), "dtype": 1, "flags": ALL | DATA, "contributions": job.size}
    values |= {"node_bitmap": (1 << job.size) - 1, "source": 0}
    return job.to(
        0, Opcode.RESULT, f32(job.size).tobytes(), address=job.tester.target.group, **job.place(position) | values
    )


@script("7.4-1", "7.4-2", "7.4-4", "4-9")
def one_result_for_all(tester: Tester) -> None:
    """All children hear the group: one RESULT, or one to each. One does not: one to each."""
    job = job_of_group(tester)
    contribute(job, 0, 0b111)
    tester.expect(to_all(job, 0), clause="7.4-2")
    for position, hearing in enumerate((0b011, 0b110, 0b101, 0), start=1):
        contribute(job, position, hearing)
        tester.expect(*(job.result(bit, position, f32(3)) for bit in range(3)), clause="7.4-4")
    contribute(job, 5, 0b111)
    tester.expect(to_all(job, 5), clause="7.4-2")


@script("7.4-6", "7.4-3")
def where_most_want_the_data(tester: Tester) -> None:
    """The group is used where most want the data; if only one of three does, each gets its own RESULT."""
    job = job_of_group(tester)
    contribute(job, 0, 0b111, 0b011)
    tester.expect(to_all(job, 0), clause="7.4-3")
    contribute(job, 1, 0b111, 0b001)
    headers = [job.result(bit, 1, None, dtype=1) for bit in (1, 2)]
    tester.expect(job.result(0, 1, f32(3)), *headers, clause="7.4-6")


@script("7.4-17")
def repairs_are_for_one(tester: Tester) -> None:
    """The answer to a duplicate or a PROBE goes to the child that asks."""
    job = job_of_group(tester)
    contribute(job, 0, 0b111)
    tester.expect(to_all(job, 0))
    job.contribute(1, 0, f32(1), flags=ALL | DATA | WANTS | HEARS)
    tester.expect(job.result(1, 0, f32(3)), clause="7.4-17")
    job.probe(2, 1, token=4)
    tester.expect(job.to(2, Opcode.NEED, token=4, **job.place(1)))
    job.probe(2, 0, token=5)
    tester.expect(job.result(2, 0, f32(3), token=5), clause="7.4-17")


@script("7.4-5", "7.4-8", "7.4-9", "4-22", "4-3")
def invitations(tester: Tester) -> None:
    """A KEEPALIVE by the group when the job becomes active, and in each interval; each names the children."""
    job = job_of_group(tester)
    group = tester.target.group
    assert tester.kept_alive[group, job.jid] >= 1, "no invitation when the job became active"
    tester.spend(tester.profile.detection_s / 2, [(job, bit) for bit in range(3)])
    assert tester.kept_alive[group, job.jid] >= 4, "no invitation each keep-alive interval"
    assert set(tester.invited[group, job.jid]) == {(0, 0b111)}, "an invitation does not name the children"


@script("7.4-10", "5-12")
def an_invitation_of_a_stranger(tester: Tester) -> None:
    """A KEEPALIVE with children, of an unknown job, is not answered."""
    job = Job(tester, join=False)
    job.send(Opcode.KEEPALIVE, 0, node_bitmap=0b11)
    tester.nothing("7.4-10")


@script("7.4-19")
def no_group_at_all(tester: Tester) -> None:
    """HEARS_GROUP at a device without a group, or of one child alone, changes nothing."""
    job = Job(tester, 1)
    job.contribute(0, 0, f32(1), flags=ALL | DATA | WANTS | HEARS)
    tester.expect(job.result(0, 0, f32(1)), clause="7.4-19")
