"""How far is it? Asked while a rank is still missing: the device says how much is done, and whom it waits for."""

from __future__ import annotations

from fanin_tools.demo.section_result import Finding
from fanin_tools.fabric.daemons import Say
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import Case
from fanin_tools.launch.job_file import Terms
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import Crew

ELEMENTS = 1 << 16


def show(crew: Crew, placement: Placement, terms: Terms, say: Say) -> Finding:
    """All ranks but the last start an allreduce, the one before it asks; then the last one takes part.

    A NIC knows whom of its own ranks it waits for; what other nodes wait for it learns later, if at all.
    """
    say(f"{placement.route}: a query ...")
    crew.join(placement, job_file.describe(crew.running, placement, terms))
    *early, late = range(placement.size)
    case = Case("allreduce", ELEMENTS).as_dict()
    crew.ask(early, "begin", case=case)
    (answer,) = crew.ask(early[-1:], "progress")
    crew.ask([late], "begin", case=case)
    wrong = sum(each["wrong"] for each in crew.ask(placement.size, "finish"))
    crew.ask(placement.size, "leave")
    (entry,) = answer["progress"]
    outcome = f"{entry['done']} of {entry['segments']}, waits for {entry['waiting_for']}"
    verified = not wrong and entry["done"] == 0 and set(entry["waiting_for"]) <= {late}
    return Finding("query", placement.route, f"rank {late} is late", outcome, verified)
