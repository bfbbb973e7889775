"""How far is it? Asked while a rank is still missing: the device says how much is done, and whom it waits for."""

from __future__ import annotations

from fanin_tools.demo.section_result import SectionResult
from fanin_tools.fabric.daemons import ProgressCallback
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_wire.settings import JobSettings

ELEMENTS = 1 << 16


def show(pool: WorkerPool, placement: Placement, settings: JobSettings, progress: ProgressCallback) -> SectionResult:
    """All ranks but the last start an allreduce, the one before it asks; then the last one takes part.

    A NIC knows whom of its own ranks it waits for; what other nodes wait for it learns later, if at all.
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
