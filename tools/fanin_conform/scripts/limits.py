"""The largest of everything."""

from __future__ import annotations

import numpy as np

from fanin_conform.job import Job
from fanin_conform.script import script
from fanin_conform.tester import Tester


@script("2-13", "2-14", "12-12")
def payloads_of_every_padding(tester: Tester) -> None:
    """Lengths of each remainder by 4, up to a whole chunk."""
    job = Job(tester)
    for position, length in enumerate((1, 2, 3, 4, 5, job.chunk - 1, job.chunk)):
        job.complete(position, (np.arange(length) % 7).astype(np.int8))


@script("6-22", "6-15", "2-8")
def a_whole_chunk_of_floats(tester: Tester) -> None:
    """A full segment of random numbers."""
    job = Job(tester)
    values = np.random.default_rng(tester.number(32)).standard_normal(job.chunk // 4).astype("<f4")
    job.complete(0, values)
