"""Shares of a device: the limit of one child, and records that give way."""

from fanin_conform.datagram import Dissected
from fanin_conform.job import Job, f32
from fanin_conform.profile import LeftOut
from fanin_conform.script import script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode

MOST = 70  # jobs of one child: more than most devices have
SUCCESS, REFUSED = int(Status.SUCCESS), int(Status.NO_RESOURCES)


def asked(tester: Tester, child: int, slots: int) -> tuple[Job, Dissected]:
    """A job of one address of the tester, and the answer to its CONFIG."""
    job = Job(tester, 1, slots=slots, join=False)
    job.addresses = [tester.addresses[child]]
    job.config(0)
    (answer,) = tester.expect(job.to(0, Opcode.CONFIG_ACK, ANY, token=ANY, status=ANY, seg=ANY, node_bitmap=ANY))
    assert answer.ceth["status"] in (SUCCESS, REFUSED), f"neither granted nor refused: {answer}"
    if answer.ceth["status"] == SUCCESS:
        granted = int.from_bytes(answer.payload[:4])
        assert 0 < granted <= slots, f"{slots} slots were offered, and {granted} are granted"
        assert granted & granted - 1 == 0, f"{granted} slots are not a power of two"
        job.slots = granted
    return job, answer


def one_child_takes_what_it_gets(tester: Tester, slots: int) -> None:
    """One child joins until it is refused; another still gets a job, which works, and the first one's jobs go on."""
    tester.profile.require_shares()
    held: list[Job] = []
    while len(held) < MOST:
        job, answer = asked(tester, 0, slots)
        if answer.ceth["status"] == REFUSED:
            break
        held.append(job)
    else:
        raise LeftOut(f"limit that {MOST} jobs of {slots} slots reach")
    other, answer = asked(tester, 1, slots)
    assert answer.ceth["status"] == SUCCESS, f"one child has {len(held)} jobs, and there is none for another: {answer}"
    for job in (other, held[0], held[-1]):
        job.complete(0, f32(1, 2))
    for job in held:
        job.send(Opcode.LEAVE, 0)
        tester.expect(job.to(0, Opcode.LEAVE_ACK))
    _, answer = asked(tester, 0, slots)
    assert answer.ceth["status"] == SUCCESS, f"a child does not get back what it gave back: {answer}"


@script("10.7-1", "10.7-2", "10.7-3")
def the_slots_of_a_device(tester: Tester) -> None:
    """Of one child that asks for large leases, and of another."""
    one_child_takes_what_it_gets(tester, 256)


@script("10.7-1", "10.7-2", "10.7-3")
def the_jobs_of_a_device(tester: Tester) -> None:
    """Of one child that asks for many small leases, and of another."""
    one_child_takes_what_it_gets(tester, 4)


@script("10.7-4", "10.4-2")
def records_that_remember_a_leave(tester: Tester) -> None:
    """A child joins and leaves more often than the device has records."""
    for _ in range(MOST):
        job, answer = asked(tester, 0, 4)
        assert answer.ceth["status"] == SUCCESS, f"the records of jobs that have ended do not give way: {answer}"
        job.send(Opcode.LEAVE, 0)
        tester.expect(job.to(0, Opcode.LEAVE_ACK), clause="10.4-2")
        tester.jobs.remove(job)
