"""A NIC that hears the multicast group of its parent (section 7.4)."""

from fanin_conform.host import NicTree
from fanin_conform.job import ALL, DATA, WANTS, f32
from fanin_conform.profile import LeftOut
from fanin_conform.script import tree_script
from fanin_conform.tester import Tester
from fanin_wire.fields import Flag, Opcode

HEARS = int(Flag.HEARS_GROUP)
EVERYBODY = 0b111
INTERVALS = 10  # keep-alive intervals of a detection time
LOSSES = 4


def job_of_group(tester: Tester) -> NicTree:
    """A job; LeftOut if the tester can not send to the device's group."""
    if not tester.target.group:
        raise LeftOut("multicast group here")
    return NicTree(tester)


def invite(job: NicTree, named: int = EVERYBODY) -> None:
    """An invitation of the parent."""
    job.down(Opcode.KEEPALIVE, source=0, node_bitmap=named)


def round_of(job: NicTree, hears: bool, clause: str, *, by_group: bool = False, lost: bool = False) -> None:
    """One position: whether the NIC sets HEARS_GROUP, whether its RESULT comes by the group, or is asked for."""
    (position,) = job.post(0, f32(1))
    flags = ALL | DATA | WANTS | (HEARS if hears else 0)
    job.tester.expect(job.contribution(position, f32(1), flags=flags), clause=clause)
    if lost:
        job.result(position, f32(3), token=job.question(position=position).ceth["token"])
    elif by_group:
        job.result(position, f32(3), node_bitmap=EVERYBODY, source=0)
    else:
        job.result(position, f32(3))
    job.done(0, f32(3), clause=clause)


@tree_script("2-4", "7.4-3", "7.4-7", "7.4-19")
def invitations(tester: Tester) -> None:
    """HEARS_GROUP is set after an invitation that names the NIC; a RESULT for all is taken."""
    job = job_of_group(tester)
    round_of(job, False, "7.4-7")
    invite(job, 0b011)
    round_of(job, False, "7.4-7")
    invite(job)
    round_of(job, True, "7.4-7", by_group=True)
    round_of(job, True, "2-4")


@tree_script("7.4-11")
def no_more_invitations(tester: Tester) -> None:
    """Without one for three keep-alive intervals the flag is not set. The next invitation suffices."""
    job = job_of_group(tester)
    invite(job)
    round_of(job, True, "7.4-11", by_group=True)
    interval = tester.profile.detection_s / INTERVALS
    tester.spend(2 * interval)
    round_of(job, True, "7.4-11")
    for _ in range(2):
        tester.spend(interval)
        job.down(Opcode.KEEPALIVE)
    round_of(job, False, "7.4-11")
    invite(job)
    round_of(job, True, "7.4-11")


@tree_script("7.4-12", "7.4-13", "7.4-18", "8-9")
def results_that_the_group_loses(tester: Tester) -> None:
    """After several losses the flag is not set; then two invitations bring it back, the next time four."""
    job = job_of_group(tester)
    for invitations in (2, 4):
        while tester.questions:
            tester.questions.pop()
        if invitations == 2:
            invite(job)
        for _ in range(LOSSES):
            round_of(job, True, "7.4-12", lost=True)
        for _ in range(invitations):
            round_of(job, False, "7.4-13")
            invite(job)
        round_of(job, True, "7.4-13", by_group=True)


@tree_script("7.4-14")
def invitations_without_losses(tester: Tester) -> None:
    """They lower the number again: after a quiet time two suffice."""
    job = job_of_group(tester)
    invite(job)
    for _ in range(LOSSES):
        round_of(job, True, "7.4-12", lost=True)
    for _ in range(4):
        invite(job)
    for _ in range(LOSSES):
        round_of(job, True, "7.4-14", lost=True)
    for _ in range(2):
        round_of(job, False, "7.4-14")
        invite(job)
    round_of(job, True, "7.4-14")
