"""Jobs on the same devices at once, which share them fairly; and overlapping groups of one job."""

from fanin_tools.demo.section_result import SectionResult
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import counted, render_size
from fanin_wire.settings import JobSettings

ELEMENTS = 1 << 16  # of f32 in each message: 256 KiB
MESSAGES = 24  # of each job, all under way at once
GROUP_ELEMENTS = 50_001


def jobs(
    pool: WorkerPool, placements: list[Placement], settings: JobSettings, progress: ProgressCallback
) -> SectionResult:
    """One job over each of `placements`, with all jobs' messages under way at once. The first two jobs are equal, and
    show how they share the devices."""
    size, routes = placements[0].size, [placement.route for placement in placements]
    progress(f"{' + '.join(routes)}: {counted(len(routes), 'job')} at once ...")
    names = [f"job{number}" for number in range(len(placements))]
    for name, placement in zip(names, placements, strict=True):
        pool.join(placement, job_file.describe(pool.running, placement, settings), name)
    replies = pool.call(size, "share", names=names, elements=ELEMENTS, messages=MESSAGES)
    for name in names:
        pool.call(size, "leave", name=name)
    wrong = sum(reply["wrong"] for reply in replies)
    setting = f"{MESSAGES} x {render_size(4 * ELEMENTS)} in each"
    first, second = shares(replies[0]["end_ns"][:2])
    outcome = f"wrong: {counted(wrong, 'element')}" if wrong else f"equal ones {first:.0%} : {second:.0%}"
    return SectionResult(f"{len(names)} jobs at once", "+".join(routes), setting, outcome, not wrong)


def shares(ends: list[list[int]]) -> list[float]:
    """Each job's share of the messages that were done when the first job ended. ends: times of each job's messages."""
    through = min(times[-1] for times in ends)
    done = [sum(time <= through for time in times) for times in ends]
    return [count / sum(done) for count in done]


def groups(pool: WorkerPool, placement: Placement, settings: JobSettings, progress: ProgressCallback) -> SectionResult:
    """A collective in each of two overlapping groups, made by split, at the same time."""
    progress(f"{placement.route}: overlapping groups ...")
    pool.join(placement, job_file.describe(pool.running, placement, settings))
    replies = pool.call(placement.size, "groups", elements=GROUP_ELEMENTS)
    pool.call(placement.size, "leave")
    wrong = sum(reply["wrong"] for reply in replies)
    sizes = " and ".join(str(size) for size in replies[0]["sizes"])
    outcome = f"wrong: {counted(wrong, 'element')}" if wrong else "every bit, in any order"
    return SectionResult("groups", placement.route, f"overlap: {sizes}", outcome, not wrong)
