"""A device that drains, or stood still: scripts for targets with these controls."""

from fanin_conform.job import Job, f32
from fanin_conform.script import script
from fanin_conform.scripts.silence import told
from fanin_conform.tester import Tester


@script("10.1-26", "10.1-27", needs=("drain",))
def draining(tester: Tester) -> None:
    """A new job is refused without a record; forming and running ones go on."""
    running, forming, late = Job(tester), Job(tester, join=False), Job(tester, join=False)
    forming.config(0)
    tester.expect(forming.pending(0, [1]))
    tester.target.drain()
    for _ in range(2):
        for bit in range(2):
            late.config(bit)
            tester.expect(late.refused(bit, "DRAINING"), clause="10.1-26")
    forming.config(1)
    tester.expect(*(forming.joined(bit) for bit in range(2)), clause="10.1-27")
    forming.complete(0)
    running.complete(0)
    tester.target.script_ends()
    late.config(0)
    tester.expect(late.pending(0, [1]), clause="10.1-26")


@script("10.5-7", needs=("pause",))
def a_device_that_stood_still(tester: Tester) -> None:
    """For two detection times: no child is lost, whether its packets have come meanwhile or not."""
    job = Job(tester, 3)
    job.contribute(0, 0, f32(1))
    tester.spend(tester.profile.detection_s / 2, [(job, bit) for bit in range(3)])
    tester.target.stand_still(tester.profile.detection_s * 2)
    job.contribute(1, 0, f32(2))
    seen = tester.spend(tester.profile.detection_s / 2, [(job, 0), (job, 1)])
    assert not told(seen, job), "the device counts its own pause as silence of a child"
    job.contribute(2, 0, f32(3))
    tester.expect(*(job.result(bit, 0, f32(6)) for bit in range(3)), clause="10.5-7")
    seen = tester.spend(tester.profile.detection_s * 1.2, [(job, 0), (job, 1)])
    assert told(seen, job), "a child that is silent after the pause is not noticed"
