"""A device with several lanes: each is a device of its own behind one address."""

from fanin_conform.job import Job, f32
from fanin_conform.script import script
from fanin_conform.tester import Tester


@script("6.1-1", "6.1-2", "6.1-3", "6.1-4", "6.1-5", "6.1-8", "6.1-11", "2-5")
def jobs_of_two_lanes_do_not_meet(tester: Tester) -> None:
    """The same jid, children and positions in two lanes: each lane has its own sums, and answers in its own name."""
    tester.profile.require_lanes(2)
    first = Job(tester, last_lane=1)
    second = Job(tester, last_lane=1, lane=1, like=first)
    first.contribute(0, 0, f32(1))
    second.contribute(1, 0, f32(20))
    tester.nothing("6.1-5")
    second.contribute(0, 0, f32(10))
    tester.expect(*(second.result(bit, 0, f32(30)) for bit in range(2)), clause="6.1-4")
    first.contribute(1, 0, f32(2))
    tester.expect(*(first.result(bit, 0, f32(3)) for bit in range(2)), clause="6.1-4")


@script("6.1-1", "5-7")
def the_last_lane(tester: Tester) -> None:
    """It works, and a packet for the next lane is dropped."""
    tester.profile.require_lanes(2)
    last = tester.profile.lanes - 1
    job = Job(tester, lane=last, last_lane=last)
    job.complete(0)
    if last < 255:
        strange = Job(tester, join=False, lane=last + 1, last_lane=last)
        strange.config(0)
    tester.nothing("5-7")
    job.complete(1)


@script("5-7", "6.1-7", needs=("port",))
def a_lane_that_there_is_not(tester: Tester) -> None:
    """Packets of a missing lane are dropped."""
    job = Job(tester)
    for lane in (tester.profile.lanes, 255):
        job.contribute(0, 0, f32(9), lane=lane)
        job.probe(0, 0, lane=lane)
    tester.nothing("5-7")
    job.complete(0)
