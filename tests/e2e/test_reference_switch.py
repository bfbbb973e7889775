"""The switch in plain Python, written from SPEC.md alone, serves a fabric's NICs instead of Fanin's switch."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import kill_device
from fanin_wire.arithmetic import narrow
from fanin_wire.datatypes import DATATYPES, Family, datatype_by_name
from fanin_wire.operations import OPERATIONS, operation_by_name
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import job, run_ranks

pytestmark = pytest.mark.process
NODES, RANKS, LANES = 2, 4, 2
ELEMENTS = 3000  # three segments of f32
PAIRS = [(op.name.lower(), entry.name) for op in OPERATIONS for entry in DATATYPES if op.takes(entry)]


@pytest.fixture(scope="module")
def running(bench: Bench) -> Iterator[Running]:
    found = bench.up(Shape(NODES, RANKS // NODES, lanes=LANES))
    (switch,) = found.fabric.switches
    kill_device(found, switch.name)
    command = [sys.executable, "-m", "fanin_reference", switch.address, "--lanes", str(LANES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert switch.address in process.stdout.readline()
        yield found
        assert process.poll() is None, "it has ended"
        process.terminate()


def data_of(rank: int, dtype: str) -> np.ndarray:
    """Data with a reduction that is exact in every order."""
    numbers = (np.arange(ELEMENTS) + rank) % 3
    entry = datatype_by_name(dtype)
    if entry.numpy.names:
        pairs = np.zeros(ELEMENTS, entry.numpy)
        pairs["value"], pairs["index"] = numbers, rank
        return pairs
    if entry.family == Family.SMALL_FLOAT:
        return narrow(numbers.astype("<f4"), entry)
    return (numbers % 2 if dtype == "bool" else numbers).astype(entry.numpy)


def test_every_operation_and_type(running: Running) -> None:
    with job(running, RANKS, "tree") as members:
        for op, dtype in PAIRS:
            data = [data_of(rank, dtype) for rank in range(RANKS)]
            expected = operation_by_name(op).oracle(np.stack(data), datatype_by_name(dtype))
            named = dtype if datatype_by_name(dtype).alias else None

            def act(rank: int, op: str = op, data: list[np.ndarray] = data, named: str | None = named) -> np.ndarray:
                return members[rank].allreduce(data[rank], op=op, datatype=named, timeout=BOUND_S)

            results = run_ranks(RANKS, act)
            for result in results:
                assert np.asarray(result).tobytes() == expected.tobytes(), (op, dtype)
    assert_released(running)


def test_data_of_one_and_no_data(running: Running) -> None:
    with job(running, RANKS, "tree") as members:

        def act(rank: int) -> np.ndarray:
            member = members[rank]
            member.barrier(timeout=BOUND_S)
            got = member.broadcast(np.full(20_000, rank, "i4"), root=3, timeout=BOUND_S)
            return member.allgather(got[:10] + rank, timeout=BOUND_S)

        for result in run_ranks(RANKS, act):
            assert np.array_equal(np.ravel(result), np.repeat(3 + np.arange(RANKS), 10))
    assert_released(running)


@pytest.mark.parametrize("settings", [{"wide": True}, {"reproducible": "run", "wide": True}, {"reproducible": "shape"}])
def test_wide_partials_are_rounded_once(running: Running, settings: dict[str, Any]) -> None:
    """f16 that round differently in between: each node adds its two ranks in f32, the switch adds, and rounds."""
    random = np.random.default_rng(3)
    data = [random.standard_normal(ELEMENTS).astype("<f2") for _ in range(RANKS)]
    nodes = [data[2 * node].astype("<f4") + data[2 * node + 1].astype("<f4") for node in range(NODES)]
    expected = (nodes[0] + nodes[1]).astype("<f2")
    with job(running, RANKS, "tree", **settings) as members:
        for result in run_ranks(RANKS, lambda rank: members[rank].allreduce(data[rank], timeout=BOUND_S)):
            assert np.asarray(result).tobytes() == expected.tobytes()
    assert_released(running)
