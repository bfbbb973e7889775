"""The explorer finds what is wrong with engines that lack a rule, so its silence on the real one means something."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.sim.mutants import MUTANTS, Mutant, Verdict, explore

AT_ONCE = 2  # processes


@pytest.fixture(scope="module")
def verdicts() -> Iterator[dict[str, Future[Verdict]]]:
    """The explorer's verdict on every mutant; they are found side by side."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {mutant.name: pool.submit(explore, mutant) for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_explorer_sees_it(mutant: Mutant, verdicts: dict[str, Future[Verdict]]) -> None:
    verdict = verdicts[mutant.name].result()
    print(verdict.report)
    assert verdict.code == 1, verdict.report
    assert "VIOLATION" in verdict.report
    assert mutant.report in verdict.report
