"""The demonstration: its sections one after the other, in the same worker pool."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fanin_tools.demo import allreduce, collectives, concurrent_jobs, levels, progress_query, reproducible, scene
from fanin_tools.demo.allreduce import RouteResult, Task
from fanin_tools.demo.collectives import CollectiveResult
from fanin_tools.demo.scene import NetworkResult
from fanin_tools.demo.section_result import SectionResult
from fanin_tools.errors import UsageError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.placement import Placement, place
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_tools.progress import ProgressCallback

SECTIONS = ("scene", "allreduce", "collectives", "operations", "jobs", "groups", "reproducible", "query", "levels")


@dataclass
class DemoResult:
    outcomes: list[RouteResult] = field(default_factory=list)
    rows: list[CollectiveResult] = field(default_factory=list)
    section_results: list[SectionResult] = field(default_factory=list)
    networks: list[NetworkResult] = field(default_factory=list)

    @property
    def parts(self) -> list[NetworkResult | RouteResult | CollectiveResult | SectionResult]:
        return [*self.networks, *self.outcomes, *self.rows, *self.section_results]

    @property
    def verified(self) -> bool:
        return all(part.verified for part in self.parts)

    def as_dict(self) -> dict[str, Any]:
        return {
            "verified": self.verified,
            "scene": [network.as_dict() for network in self.networks],
            "routes": [outcome.as_dict() for outcome in self.outcomes],
            "collectives": [row.as_dict() for row in self.rows],
            "sections": list(self.section_results),
        }


def parse_sections(text: str) -> tuple[str, ...]:
    """Names of sections such as "allreduce,query"; "all" is all of them. Raises UsageError for an unknown name."""
    wanted = SECTIONS if text == "all" else tuple(text.split(","))
    for name in wanted:
        if name not in SECTIONS:
            raise UsageError(f"{name!r} is not a section", f"use some of {','.join(SECTIONS)}, or all")
    return wanted


def run(
    running: Running, sections: Sequence[str], routes: Sequence[str], task: Task, progress: ProgressCallback
) -> DemoResult:
    """Run `sections` over `routes` of a fabric. task: of the section allreduce; all sections use its settings."""
    placements = [allreduce.placement_of(running.fabric, route) for route in routes]
    shown = DemoResult()
    if "scene" in sections:
        fabric = running.fabric
        shown.networks = scene.show(fabric.name[:18], fabric.netns, task.settings, progress)
    with WorkerPool(running, max(placement.size for placement in placements)) as pool:
        if "allreduce" in sections:
            shown.outcomes = [allreduce.run_route(pool, placement, task, progress) for placement in placements]
        if "collectives" in sections:
            shown.rows = collectives.run(pool, placements, task.settings, progress)
        shown.section_results = _run_sections(pool, sections, placements, task, progress)
    if "levels" in sections and not has_several_levels(running.fabric):
        plan = Plan(f"{running.fabric.name[:18]}-deep", replace(levels.SHAPE, netns=running.fabric.netns))
        shown.section_results.append(levels.show(plan, progress))
    return shown


def _run_sections(
    pool: WorkerPool, sections: Sequence[str], placements: list[Placement], task: Task, progress: ProgressCallback
) -> list[SectionResult]:
    widest, settings = placements[0], task.settings
    across = [placement for placement in placements if placement.route != "local"] or placements
    found = []
    if "operations" in sections:
        found.append(collectives.operations(pool, _thinned(pool.running.fabric, widest), settings, progress))
    if "jobs" in sections:
        found.append(concurrent_jobs.jobs(pool, [widest, widest, across[-1]], settings, progress))
    if "groups" in sections:
        found.append(concurrent_jobs.groups(pool, widest, settings, progress))
    if "reproducible" in sections:
        found += reproducible.show(pool, across, settings, progress)
    if "query" in sections and widest.size > 1:
        found.append(progress_query.show(pool, widest, settings, progress))
    return found


def _thinned(fabric: Fabric, placement: Placement) -> Placement:
    """On the same route, with at most two ranks on a node: these reduce at every level."""
    return place(fabric, min(placement.size, 2 * len(placement.nics)), placement.route)


def has_several_levels(fabric: Fabric) -> bool:
    """Whether the fabric has several levels of offloading switches."""
    return sum(switch.offload for switch in fabric.switches) > 1
