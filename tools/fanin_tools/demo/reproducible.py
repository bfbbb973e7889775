"""Sums that are rounded, again and again with ranks late at random: the same bits every time, and numpy's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fanin_tools.demo.section_result import Finding
from fanin_tools.fabric.daemons import Say
from fanin_tools.launch import job_file
from fanin_tools.launch.exact_data import rounded
from fanin_tools.launch.job_file import Terms
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import Crew
from fanin_tools.quantities import counted
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name

RUNS = 5
PAUSE_MS = 3.0
ELEMENTS = 20_000
SEED = 7
DTYPES = ("f32", "bf16")


def show(crew: Crew, placements: Sequence[Placement], terms: Terms, say: Say) -> list[Finding]:
    """Mode "run" over each of `placements`, and mode "shape" over all of them together."""
    findings = [_patterns(crew, [placement], replace(terms, reproducible="run"), say) for placement in placements]
    return [*findings, _patterns(crew, placements, replace(terms, reproducible="shape"), say)]


def _patterns(crew: Crew, placements: Sequence[Placement], terms: Terms, say: Say) -> Finding:
    route = "+".join(placement.route for placement in placements)
    say(f"{route}: reproducible {terms.reproducible} ...")
    verified, counts = True, []
    for dtype in DTYPES:
        digests = {digest for placement in placements for digest in _digests(crew, placement, terms, dtype)}
        oracle = {_oracle(placements[0], dtype, terms)} if placements[0].route == "tree" else digests
        verified &= len(digests) == 1 and digests == oracle
        counts.append(len(digests))
    what = f"{RUNS * len(placements)} runs, ranks late"
    patterns = " and ".join(
        f"{counted(count, 'pattern')} of {dtype}" for dtype, count in zip(DTYPES, counts, strict=True)
    )
    outcome = f"1 pattern ({', '.join(DTYPES)})" if set(counts) == {1} else patterns
    return Finding(f"reproducible {terms.reproducible}", route, what, outcome, verified)


def _digests(crew: Crew, placement: Placement, terms: Terms, dtype: str) -> set[str]:
    """Of the results of all runs on all ranks."""
    crew.join(placement, job_file.describe(crew.running, placement, terms))
    arguments = {"dtype": dtype, "elements": ELEMENTS, "runs": RUNS, "pause_ms": PAUSE_MS, "seed": SEED}
    answers = crew.ask(placement.size, "repeat", **arguments)
    crew.ask(placement.size, "leave")
    return {digest for answer in answers for digest in answer["digests"]}


def _oracle(placement: Placement, dtype: str, terms: Terms) -> str:
    """Of what a tree of one switch must give: each NIC folds its ranks, the switch folds the NICs."""
    datatype, add = datatype_by_name(dtype), operation_by_name("sum")
    wide = terms.reproducible == "shape" and add.widens(datatype)
    partials = [
        add.partial(np.stack([rounded(SEED, rank, dtype, ELEMENTS) for rank in ranks]), datatype, wide=wide)
        for ranks in placement.ranks
    ]
    kind = datatype_by_name("f32") if wide else datatype
    total = add.partial(np.stack(partials), kind, wide=add.widens(kind))
    result = add.finish(total, placement.size, datatype)
    return hashlib.sha256(result.tobytes()).hexdigest()
