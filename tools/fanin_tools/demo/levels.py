"""An allreduce over a tree with two levels of switches. Each switch sends the message up once."""

from fanin_tools.demo.allreduce import Task, placement_of, run_route
from fanin_tools.demo.section_result import SectionResult
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lease import leased
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_size, render_time

FANOUT = (2, 2)
SHAPE = Shape(4, 1, fanout=FANOUT)
TASK = Task(4 << 20, cross_check=False)


def show(plan: Plan, progress: ProgressCallback) -> SectionResult:
    with leased(plan, progress) as running, WorkerPool(running, len(running.fabric.nics)) as pool:
        outcome = run_route(pool, placement_of(running.fabric, "tree"), TASK, progress)
        switches = [switch.name for switch in running.fabric.switches]
    sent = {link.payload_up for name, link in outcome.use.links.items() if name in switches}
    setting = f"fan-out {'x'.join(map(str, plan.shape.fanout))}, {render_size(outcome.bytes)}"
    carried = " or ".join(render_size(count) for count in sorted(sent))
    text = f"{render_time(outcome.seconds)}, uplinks {carried}"
    return SectionResult("2 levels", outcome.route, setting, text, outcome.verified)
