"""NICs of a fabric run collectives through the switch in Verilog, with the bits of Fanin's own switch."""

import time
from collections.abc import Iterator

import numpy as np
import pytest

from fanin_conform.profile import Profile, read
from fanin_conform.targets import rtl
from fanin_tools.errors import ToolError
from fanin_tools.fabric import drain, namespaces
from fanin_tools.fabric.description import DescriptionError
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import cut_super_packets, loss, lost
from fanin_wire import association
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name
from fpga_cosim.tb import tools
from tests.e2e.fabrics import Bench, assert_released, counter, statuses
from tests.e2e.members import job, run_ranks
from tests.fabric.fixtures import own_state_folder

NODES, RANKS, FOUR = 2, 4, 4
ELEMENTS = 3000  # more than two segments of f32 for each KiB
BOUND_S = 60.0
LOSS, LONG = 50, 40_000  # per mille; elements
LATE_S = 0.05
PROFILE: Profile = read(rtl.profile())
PAIRS = [
    (op.lower(), dtype)
    for op in PROFILE.operations
    for dtype in PROFILE.types
    if operation_by_name(op.lower()).takes(datatype_by_name(dtype))
]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """Fabrics of this file, always taken down."""
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        yield Bench("rtl")


@pytest.fixture(scope="module")
def simulated(bench: Bench) -> Running:
    """With the switch in Verilog, in namespaces, so that packets can be lost."""
    namespaces.require()
    found = bench.up(Shape(NODES, RANKS // NODES, netns=True, switch="rtl"))
    cut_super_packets(found.fabric)
    return found


@pytest.fixture(scope="module")
def software(bench: Bench) -> Running:
    """With Fanin's own."""
    return bench.up(Shape(NODES, RANKS // NODES, mtu=1500, lanes=1))


def data_of(rank: int, dtype: str, elements: int) -> np.ndarray:
    """Any bits, so that a sum of f32 is rounded."""
    random = np.random.default_rng(rank)
    if dtype == "f32":
        return (random.standard_normal(elements) * 10.0 ** random.integers(-20, 20, elements)).astype("f4")
    entry = datatype_by_name(dtype).numpy
    if dtype == "bool":
        return random.integers(0, 2, elements).astype(entry)
    return random.integers(0, 256, elements * entry.itemsize, np.uint8).view(entry)


def reduced(running: Running, pairs: list[tuple[str, str]], elements: int) -> list[list[bytes]]:
    """The result of each rank of allreduces, of each operation and type."""
    with job(running, RANKS, "tree") as members:

        def act(rank: int) -> list[bytes]:
            member, results = members[rank], []
            for op, dtype in pairs:
                data = data_of(rank, dtype, elements)
                named = dtype if datatype_by_name(dtype).alias else None
                result = member.allreduce(data, op=op, datatype=named, timeout=BOUND_S)
                results.append(np.asarray(result).tobytes())
            return results

        found = run_ranks(RANKS, act, BOUND_S)
    assert_released(running)
    return found


def test_every_operation_and_type_has_the_bits_of_the_software_switch(simulated: Running, software: Running) -> None:
    found = reduced(simulated, PAIRS, ELEMENTS)
    assert found == reduced(software, PAIRS, ELEMENTS)
    assert found == [found[0]] * RANKS
    assert len(PAIRS) > 50


def test_data_of_one_and_no_data(simulated: Running) -> None:
    with job(simulated, RANKS, "tree") as members:

        def act(rank: int) -> np.ndarray:
            member = members[rank]
            member.barrier(timeout=BOUND_S)
            got = member.broadcast(np.full(20_000, rank, "i4"), root=3, timeout=BOUND_S)
            return member.allgather(got[:10] + rank, timeout=BOUND_S)

        for result in run_ranks(RANKS, act, BOUND_S):
            assert np.array_equal(np.ravel(result), np.repeat(3 + np.arange(RANKS), 10))
    assert_released(simulated)


def test_same_bits_where_packets_are_lost(simulated: Running, software: Running) -> None:
    before = statuses(simulated)
    pairs = [("sum", "f32"), ("max", "i64")]
    with loss(simulated.fabric, LOSS):
        found = reduced(simulated, pairs, LONG)
        assert lost(simulated.fabric) > 0
    assert found == reduced(software, pairs, LONG)
    after = statuses(simulated)
    assert counter(after, "tx_NEED") > counter(before, "tx_NEED")
    assert counter(after, "tx_ABORT") == counter(before, "tx_ABORT")


def test_the_order_of_the_bits(bench: Bench) -> None:
    """Four nodes in a reproducible job: the bits are numpy's in any order of arrival."""
    running = bench.up(Shape(FOUR, 1, switch="rtl"))
    path = association.Device(tuple(association.Device((rank,)) for rank in range(FOUR)))
    data = {dtype: np.stack([data_of(rank, dtype, ELEMENTS) for rank in range(FOUR)]) for dtype in ("f32", "f16")}
    with job(running, FOUR, "tree", reproducible="run") as members:
        for op, dtype in [("sum", "f32"), ("mean", "f32"), ("sum", "f16"), ("mean", "f16")]:

            def act(rank: int, op: str = op, dtype: str = dtype) -> bytes:
                time.sleep(LATE_S * ((rank + 2) % FOUR))  # not in the order of the bits
                return members[rank].allreduce(data[dtype][rank], op=op, timeout=BOUND_S).tobytes()

            with np.errstate(all="ignore"):
                expected = association.reduce(path, data[dtype], operation_by_name(op)).tobytes()
            assert run_ranks(FOUR, act, BOUND_S) == FOUR * [expected], (op, dtype)
    assert_released(running)


def test_status(simulated: Running) -> None:
    """A job shows while it exists, with its memory."""
    (switch,) = simulated.fabric.switches
    with job(simulated, RANKS, "tree"):
        status = statuses(simulated)[switch.name]
        (held,) = (each for each in status["jobs"] if each["state"] == "active")
        assert status["slots"]["leased"] == held["slots"] > 0
        assert (held["chunk"], held["children_missing"]) == (1024, 0)
        assert set(status["links"]) == {nic.address for nic in simulated.fabric.nics}
    assert_released(simulated)


@pytest.mark.parametrize(
    ("shape", "remedy"),
    [
        (Shape(4, fanout=(2, 2), switch="rtl"), "--fanout"),
        (Shape(2, lanes=2, switch="rtl"), "--lanes 1"),
        (Shape(2, detection=1.0, switch="rtl"), "detection"),
        (Shape(2, mtu=9001, switch="rtl"), "mtu = 1500"),
        (Shape(2, direct=True, switch="rtl"), "--direct"),
        (Shape(2, switch="verilog"), "software or rtl"),
    ],
)
def test_what_it_does_not_have_is_refused(bench: Bench, shape: Shape, remedy: str) -> None:
    with pytest.raises(DescriptionError, match=remedy):
        bench.describe(shape)


def test_missing_tool_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "missing", lambda names: {"verilator": "install it"})
    with pytest.raises(ToolError, match="NOT_SUPPORTED: the simulation needs verilator; install it"):
        bench.up(Shape(2, switch="rtl"))


def test_drain_is_refused(simulated: Running) -> None:
    with pytest.raises(ToolError, match="can not be drained; end it at once: fanin fabric down"):
        drain.drain(simulated.fabric.name, None, 1.0)
