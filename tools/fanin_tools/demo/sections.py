"""The demonstration: its scenes one after the other, in the same rank processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fanin_tools.demo import allreduce, collectives, concurrent_jobs, levels, progress_query, reproducible
from fanin_tools.demo.allreduce import Outcome, Task
from fanin_tools.demo.collectives import Row
from fanin_tools.demo.section_result import Finding
from fanin_tools.errors import UsageError
from fanin_tools.fabric.daemons import Say
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.placement import Placement, place
from fanin_tools.launch.worker_pool import Crew

SCENES = ("allreduce", "collectives", "operations", "jobs", "groups", "reproducible", "query", "levels")


@dataclass
class Shown:
    """What the scenes showed."""

    outcomes: list[Outcome] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether all of it was as it must be."""
        parts: list[Outcome | Row | Finding] = [*self.outcomes, *self.rows, *self.findings]
        return all(part.verified for part in parts)

    def as_dict(self) -> dict[str, Any]:
        """The same for `--json`."""
        return {
            "verified": self.verified,
            "routes": [outcome.as_dict() for outcome in self.outcomes],
            "collectives": [row.as_dict() for row in self.rows],
            "scenes": list(self.findings),
        }


def scenes_of(text: str) -> tuple[str, ...]:
    """The scenes named in "allreduce,query", or with "all" all of them; UsageError for one that there is not."""
    wanted = SCENES if text == "all" else tuple(text.split(","))
    for name in wanted:
        if name not in SCENES:
            raise UsageError(f"{name!r} is not a scene", f"use some of {','.join(SCENES)}, or all")
    return wanted


def run(running: Running, scenes: Sequence[str], routes: Sequence[str], task: Task, say: Say) -> Shown:
    """Show `scenes` over `routes` of a fabric. task: of the scene allreduce; the others take its terms."""
    placements = [allreduce.placement_of(running.fabric, route) for route in routes]
    shown = Shown()
    with Crew(running, max(placement.size for placement in placements)) as crew:
        if "allreduce" in scenes:
            shown.outcomes = [allreduce.run_route(crew, placement, task, say) for placement in placements]
        if "collectives" in scenes:
            shown.rows = collectives.run(crew, placements, task.terms, say)
        shown.findings = _findings(crew, scenes, placements, task, say)
    if "levels" in scenes and not deep(running.fabric):
        plan = Plan(f"{running.fabric.name[:18]}-deep", replace(levels.SHAPE, netns=running.fabric.netns))
        shown.findings.append(levels.show(plan, say))
    return shown


def _findings(crew: Crew, scenes: Sequence[str], placements: list[Placement], task: Task, say: Say) -> list[Finding]:
    widest, terms = placements[0], task.terms
    across = [placement for placement in placements if placement.route != "local"] or placements
    found = []
    if "operations" in scenes:
        found.append(collectives.operations(crew, _thinned(crew.running.fabric, widest), terms, say))
    if "jobs" in scenes:
        found.append(concurrent_jobs.jobs(crew, [widest, widest, across[-1]], terms, say))
    if "groups" in scenes:
        found.append(concurrent_jobs.groups(crew, widest, terms, say))
    if "reproducible" in scenes:
        found += reproducible.show(crew, across, terms, say)
    if "query" in scenes and widest.size > 1:
        found.append(progress_query.show(crew, widest, terms, say))
    return found


def _thinned(fabric: Fabric, placement: Placement) -> Placement:
    """The same route with at most two ranks on a node: enough to combine at every level."""
    return place(fabric, min(placement.size, 2 * len(placement.nics)), placement.route)


def deep(fabric: Fabric) -> bool:
    """Whether the fabric itself has several levels of offloading switches."""
    return sum(switch.offload for switch in fabric.switches) > 1
