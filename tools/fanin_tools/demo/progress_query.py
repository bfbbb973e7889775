"""A query of a collective's progress while a rank is missing: the device names the ranks that it waits for."""

import time
from typing import Any

from fanin_tools.demo.section_result import SectionResult
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_tools.progress import ProgressCallback
from fanin_wire.settings import JobSettings

ELEMENTS = 1 << 16
QUERIES, PAUSE_SECONDS = 100, 0.02  # a device without a core may not have read the other ranks' requests yet


def show(pool: WorkerPool, placement: Placement, settings: JobSettings, progress: ProgressCallback) -> SectionResult:
    """All ranks but the last begin an allreduce, the last of them queries the progress, then the last rank begins. The
    query is on the missing rank's node: a NIC only knows for which of its own ranks it waits."""
    progress(f"{placement.route}: a query ...")
    pool.join(placement, job_file.describe(pool.running, placement, settings))
    *early, late = range(placement.size)
    call = CollectiveCall("allreduce", ELEMENTS).as_dict()
    pool.call(early, "begin", call=call)
    entry = _entry_when_all_are_read(pool, early[-1:], {late})
    pool.call([late], "begin", call=call)
    wrong = sum(each["wrong"] for each in pool.call(placement.size, "finish"))
    pool.call(placement.size, "leave")
    outcome = f"{entry['done']} of {entry['segments']}, waits for {entry['waiting_for']}"
    verified = not wrong and entry["done"] == 0 and set(entry["waiting_for"]) <= {late}
    return SectionResult("query", placement.route, f"rank {late} is late", outcome, verified)


def _entry_when_all_are_read(pool: WorkerPool, asked: list[int], late: set[int]) -> dict[str, Any]:
    """The last answer to a query, repeated until the device waits for no other ranks than `late`."""
    for _ in range(QUERIES):
        (reply,) = pool.call(asked, "progress")
        (entry,) = reply["progress"]
        if set(entry["waiting_for"]) <= late:
            break
        time.sleep(PAUSE_SECONDS)
    return entry
