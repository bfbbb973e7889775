"""A query of the progress of a collective while a rank is missing: the device names the ranks that it waits for."""

from __future__ import annotations

from fanin_tools.demo.section_result import SectionResult
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_tools.progress import ProgressCallback
from fanin_wire.settings import JobSettings

ELEMENTS = 1 << 16


def show(pool: WorkerPool, placement: Placement, settings: JobSettings, progress: ProgressCallback) -> SectionResult:
    """Let all ranks but the last begin an allreduce, query the progress on the last of these, then let the last rank
    begin.

    The query is on the node of the missing rank, since a NIC only knows for which of its own ranks it waits.
    """
    progress(f"{placement.route}: a query ...")
    pool.join(placement, job_file.describe(pool.running, placement, settings))
    *early, late = range(placement.size)
    call = CollectiveCall("allreduce", ELEMENTS).as_dict()
    pool.call(early, "begin", call=call)
    (reply,) = pool.call(early[-1:], "progress")
    pool.call([late], "begin", call=call)
    wrong = sum(each["wrong"] for each in pool.call(placement.size, "finish"))
    pool.call(placement.size, "leave")
    (entry,) = reply["progress"]
    outcome = f"{entry['done']} of {entry['segments']}, waits for {entry['waiting_for']}"
    verified = not wrong and entry["done"] == 0 and set(entry["waiting_for"]) <= {late}
    return SectionResult("query", placement.route, f"rank {late} is late", outcome, verified)
