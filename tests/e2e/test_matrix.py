"""A sample of the matrix that covers every two values together, on real devices; `make matrix` tries all of it."""

import pytest

from fanin_tools.fabric import lifecycle
from fanin_tools.launch.collective_call import COLLECTIVES
from fanin_tools.stress.matrix import report, run
from fanin_tools.stress.matrix.combinations import select
from fanin_tools.stress.matrix.topologies import TOPOLOGY_BY_NAME, MatrixPlan
from tests.e2e.fabrics import Bench, assert_released, silent

SEED = 1


@pytest.mark.deep
def test_no_case_of_the_sample_goes_wrong(bench: Bench) -> None:
    plan = MatrixPlan("matrix")
    bench.names.append(plan.name)
    running = lifecycle.up(plan, silent)
    combinations = select(True, SEED, TOPOLOGY_BY_NAME, COLLECTIVES)
    result = run.run(running, combinations, SEED, silent)
    assert report.failures(result) == []
    assert result.calls == len(combinations)
    assert {topology for _, topology in result.executed} == set(TOPOLOGY_BY_NAME)
    assert_released(running)
