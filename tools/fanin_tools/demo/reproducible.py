"""Rounded sums, several times with ranks that are late at random: the bits are the same in every run."""

import hashlib
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from fanin_tools.demo.section_result import SectionResult
from fanin_tools.launch import job_file
from fanin_tools.launch.exact_data import rounding_values
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import counted
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name
from fanin_wire.settings import JobSettings

RUNS = 5
PAUSE_MS = 3.0
ELEMENTS = 20_000
SEED = 7
DTYPES = ("f32", "bf16")


def show(
    pool: WorkerPool, placements: Sequence[Placement], settings: JobSettings, progress: ProgressCallback
) -> list[SectionResult]:
    """Mode "run" over each of `placements`, and mode "shape" over all of them together."""
    section_results = [
        _patterns(pool, [placement], replace(settings, reproducible="run"), progress) for placement in placements
    ]
    return [*section_results, _patterns(pool, placements, replace(settings, reproducible="shape"), progress)]


def _patterns(
    pool: WorkerPool, placements: Sequence[Placement], settings: JobSettings, progress: ProgressCallback
) -> SectionResult:
    route = "+".join(placement.route for placement in placements)
    progress(f"{route}: reproducible {settings.reproducible} ...")
    verified, counts = True, []
    for dtype in DTYPES:
        digests = {digest for placement in placements for digest in _digests(pool, placement, settings, dtype)}
        oracle = {_oracle(placements[0], dtype, settings)} if placements[0].route == "tree" else digests
        verified &= len(digests) == 1 and digests == oracle
        counts.append(len(digests))
    what = f"{RUNS * len(placements)} runs, ranks late"
    patterns = " and ".join(
        f"{counted(count, 'pattern')} of {dtype}" for dtype, count in zip(DTYPES, counts, strict=True)
    )
    outcome = f"1 pattern ({', '.join(DTYPES)})" if set(counts) == {1} else patterns
    return SectionResult(f"reproducible {settings.reproducible}", route, what, outcome, verified)


def _digests(pool: WorkerPool, placement: Placement, settings: JobSettings, dtype: str) -> set[str]:
    """Digests of the results of all runs on all ranks."""
    pool.join(placement, job_file.describe(pool.running, placement, settings))
    arguments = {"dtype": dtype, "elements": ELEMENTS, "runs": RUNS, "pause_ms": PAUSE_MS, "seed": SEED}
    replies = pool.call(placement.size, "repeat", **arguments)
    pool.call(placement.size, "leave")
    return {digest for reply in replies for digest in reply["digests"]}


def _oracle(placement: Placement, dtype: str, settings: JobSettings) -> str:
    """The digest of a one-switch tree's result, from numpy: each NIC reduces its ranks, the switch the NICs."""
    datatype, add = datatype_by_name(dtype), operation_by_name("sum")
    wide = settings.reproducible == "shape" and add.widens(datatype)
    partials = [
        add.partial(np.stack([rounding_values(SEED, rank, dtype, ELEMENTS) for rank in ranks]), datatype, wide=wide)
        for ranks in placement.ranks
    ]
    kind = datatype_by_name("f32") if wide else datatype
    total = add.partial(np.stack(partials), kind, wide=add.widens(kind))
    result = add.finish(total, placement.size, datatype)
    return hashlib.sha256(result.tobytes()).hexdigest()
