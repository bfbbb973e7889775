"""The matrix has all cases, its sample covers every two values together, and every failure is reported."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import pytest
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.collective_call import COLLECTIVES, REDUCTIONS, DataLayout
from fanin_tools.stress.matrix import combinations, pairwise, run
from fanin_tools.stress.matrix.combinations import DIMENSIONS, SIZES, call_of, is_valid, select
from fanin_tools.stress.matrix.topologies import TOPOLOGIES, TOPOLOGY_BY_NAME, JobSetup, MatrixPlan, setups
from tests.fabric.fixtures import ignore

FABRIC = MatrixPlan("matrix").at("127.77.9")
ALL = TOPOLOGY_BY_NAME, COLLECTIVES


def test_the_fabric_has_every_shape() -> None:
    uplinks = {topology.name: JobSetup(topology.name, 1, "").placement(FABRIC).uplinks for topology in TOPOLOGIES}
    assert {len(uplink.switches) for uplink in uplinks["tree"]} == {1}
    assert {len(uplink.switches) for uplink in uplinks["2 levels"]} == {1, 2}
    assert [uplink.ring for uplink in uplinks["mixed"]] == [None] * 4 + [0] * 3
    assert [uplink.switches for uplink in uplinks["ring"]] == [()] * 3
    assert len(uplinks["local"]) == 1


def test_ranks_of_a_setup_fill_the_nodes_in_order() -> None:
    placement = JobSetup("tree", 3, "").placement(FABRIC)
    assert placement.ranks == ((0, 1, 2), (3, 4, 5), (6, 7, 8))
    assert max(setup.per_node for setup in setups()) <= FABRIC.nics[0].ranks


def test_complete_matrix_has_every_cell_once() -> None:
    cells = [(c["setup"], c["collective"], c["op"], c["dtype"], c["size"]) for c in select(False, 1, *ALL)]
    assert len(set(cells)) == len(cells)
    reductions = [cell for cell in cells if cell[1] in REDUCTIONS]
    pairs = {(op, dtype) for _, _, op, dtype, _ in reductions}
    assert len(reductions) == len(list(setups())) * len(REDUCTIONS) * len(pairs) * len(SIZES)
    assert {cell[1] for cell in cells} == set(COLLECTIVES)


def test_sample_covers_every_pair_of_values_that_make_sense() -> None:
    sample = select(True, 5, *ALL)
    wanted = set(pairwise.pairs_to_cover(DIMENSIONS, is_valid))
    assert wanted == {pair for combination in sample for pair in pairwise.pairs_of(combination, DIMENSIONS)} & wanted
    assert all(is_valid(combination) for combination in sample)
    assert len(sample) < 800


def test_equal_seeds_give_equal_samples() -> None:
    assert select(True, 5, *ALL) == select(True, 5, *ALL)
    assert select(True, 5, *ALL) != select(True, 6, *ALL)
    cases = [[call_of(combination, random.Random(9)) for combination in select(True, 5, *ALL)[:50]] for _ in range(2)]
    assert cases[0] == cases[1]


@pytest.mark.parametrize(
    ("combination", "valid"),
    [
        ({"op": "band", "dtype": "f32"}, False),
        ({"op": "minloc", "dtype": "f32_i32"}, True),
        ({"collective": "allgather", "op": "sum"}, False),
        ({"collective": "reduce", "op": ""}, False),
        ({"collective": "scatter", "op": "", "dtype": "bool"}, True),
        ({"collective": "barrier", "size": "many"}, False),
        ({"size": "many"}, True),
    ],
)
def test_valid_combinations(combination: dict[str, Any], valid: bool) -> None:
    assert is_valid(combination) == valid


@pytest.mark.parametrize("dtype", ["u8", "f32", "f64_i32"])
def test_sizes_lie_around_a_segment(dtype: str) -> None:
    elements = [
        combinations._elements(size, "allreduce", combinations.datatype_by_name(dtype).itemsize) for size in SIZES
    ]
    segment = 4096 // combinations.datatype_by_name(dtype).itemsize
    assert elements == [0, 1, 37, segment - 1, segment + 1, 20 * segment + 3]


class WorkerPool:
    """Without ranks: cases at the places `wrong` give a wrong element, the one at `fatal` ends the job."""

    wrong: tuple[int, ...] = ()
    fatal: int | None = None
    joined = 0

    def __init__(self, running: Running, size: int) -> None:
        self.running, self.executed = running, 0
        self.commands: list[dict[str, Any]] = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.commands[-1]["do"] == "leave"

    def join(self, *_: object, staged: bool) -> None:
        type(self).joined += 1

    def call(self, size: int, do: str, **arguments: Any) -> list[dict[str, Any]]:
        self.commands.append({"do": do, **arguments})
        return [self._tried(len(arguments["calls"]), rank) for rank in range(size)] if do == "try" else []

    def _tried(self, count: int, rank: int) -> dict[str, Any]:
        if rank == 0:
            self.first, self.executed = self.executed, self.executed + count
        answer: dict[str, Any] = {"wrong": [], "stopped": None}
        for number in range(count):
            place = self.first + number
            if place == self.fatal:
                name = "OP_MISMATCH" if rank == 1 else "ABORTED"
                answer["stopped"] = (number, {"name": name, "cause": "by hand", "remedy": "none"})
                self.executed = place + 1
                break
            if place in self.wrong:
                answer["wrong"].append((number, 2))
        return answer


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> type[WorkerPool]:
    class Made(WorkerPool):
        pass

    monkeypatch.setattr(run, "WorkerPool", Made)
    return Made


def executed(pool: type[WorkerPool], count: int = 250) -> run.Result:
    cells = [
        combination for combination in select(False, 1, ("tree",), ("reduce",)) if combination["setup"].per_node == 1
    ][:count]
    return run.run(Running(FABRIC, state=None), cells, 1, ignore)  # type: ignore[arg-type]


def test_every_case_is_counted(pool: type[WorkerPool]) -> None:
    result = executed(pool)
    assert (result.calls, result.failures, pool.joined) == (250, [], 1)
    assert result.executed == {("reduce", "tree"): 250}


def test_wrong_elements_of_all_ranks_are_told_with_the_case(pool: type[WorkerPool]) -> None:
    pool.wrong = (3, 240)
    result = executed(pool)
    assert len(result.failures) == result.failed("reduce", "tree") == 2
    assert str(result.failures[0]).startswith("tree, 3 ranks on 3 nodes: reduce sum of ")
    assert str(result.failures[0]).endswith(": 6 wrong elements")


def test_a_case_that_ends_the_job_is_one_failure_and_the_rest_is_tried(pool: type[WorkerPool]) -> None:
    pool.fatal = 120
    result = executed(pool)
    assert (result.calls, pool.joined) == (250, 2)
    assert [failure.what for failure in result.failures] == ["OP_MISMATCH: rank 1: by hand; none"]


def test_the_last_case_may_end_the_job(pool: type[WorkerPool]) -> None:
    pool.fatal = 99
    result = executed(pool, 100)
    assert (result.calls, len(result.failures), pool.joined) == (100, 1, 1)


@pytest.mark.parametrize(("wrong", "code"), [((), 0), ((1,), 1)])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_command_fails_where_a_bit_is_wrong(
    pool: type[WorkerPool], monkeypatch: pytest.MonkeyPatch, wrong: tuple[int, ...], code: int, options: list[str]
) -> None:
    pool.wrong = wrong
    running = Running(FABRIC, state=None)  # type: ignore[arg-type]
    monkeypatch.setattr("fanin_tools.fabric.lease.leased", lambda *_: contextlib.nullcontext(running))
    selected = ["--topologies", "local", "--collectives", "barrier,reduce"]
    result = CliRunner().invoke(app, ["matrix", "--sample", "--seed", "3", *selected, *options])
    assert result.exit_code == code
    if options:
        shown = json.loads(result.stdout)
        assert shown["seed"] == 3
        assert len(shown["failures"]) == len(wrong)
        assert {row["collective"] for row in shown["table"]} == {"barrier", "reduce"}
    else:
        assert ("wrong element" in result.stdout) == bool(wrong)


def test_uneven_parts_are_there_and_empty_ones_too() -> None:
    (combination, *_) = [
        combination for combination in select(False, 1, ("tree",), ("gatherv",)) if combination["size"] == "many"
    ]
    counts = DataLayout(call_of(combination, random.Random(1)), combination["setup"].size).counts
    assert counts[0] == 0 < counts[1] < counts[2]
