"""Wrong calls of a program are refused by name, and the job goes on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.verbs import CQ, MR, PD, Address, CollectiveQP, CollectiveWR, Context
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.abi import DType, Op, Status
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import describe, job, run_ranks, socket_of

NODES, RANKS = 2, 4
REGION = 8192  # bytes


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, RANKS // NODES))


def test_unknown_socket(running: Running) -> None:
    _, description = describe(running, RANKS, "tree")
    with pytest.raises(errors.NoDevice, match=r"/no/such/socket"):
        Communicator(description, 0, "/no/such/socket", timeout=BOUND_S)


def test_socket_without_a_listener(running: Running, tmp_path: Path) -> None:
    _, description = describe(running, RANKS, "tree")
    plain = tmp_path / "file"
    plain.touch()
    with pytest.raises(errors.NoDevice):
        Communicator(description, 0, plain, timeout=BOUND_S)


def test_socket_of_a_switch(running: Running) -> None:
    _, description = describe(running, RANKS, "tree")
    (switch,) = running.fabric.switches
    with pytest.raises(errors.NotSupported):
        Communicator(description, 0, running.state.socket(switch.name), timeout=BOUND_S)


def test_rank_that_the_job_does_not_have(running: Running) -> None:
    placement, description = describe(running, RANKS, "tree")
    with pytest.raises(errors.InvalidRequest, match="rank 4 is not one of the 4 ranks"):
        Communicator(description, RANKS, socket_of(running, placement, 0), timeout=BOUND_S)


ONES = np.ones(16, "f4")
FROZEN = np.zeros(16, "f4")
FROZEN.flags.writeable = False
MISTAKES: list[tuple[type[errors.FaninError], dict[str, Any]]] = [
    (errors.InvalidRequest, {"array": ONES, "out": np.empty(15, "f4")}),
    (errors.InvalidRequest, {"array": ONES, "out": np.empty(16, "f8")}),
    (errors.InvalidRequest, {"array": ONES, "out": FROZEN}),
    (errors.InvalidRequest, {"array": ONES, "out": np.empty((16, 2), "f4")[:, 0]}),
    (errors.InvalidRequest, {"array": [1.0, 2.0]}),
    (errors.NotSupported, {"array": ONES, "op": "land"}),
    (errors.NotSupported, {"array": ONES.astype(">f4")}),
    (errors.NotSupported, {"array": ONES, "op": "xor"}),
]


@pytest.mark.parametrize(("kind", "arguments"), MISTAKES)
def test_wrong_argument_fails_alone_and_the_job_goes_on(
    running: Running, kind: type[errors.FaninError], arguments: dict[str, Any]
) -> None:
    with job(running, RANKS, "tree") as members:
        with pytest.raises(kind) as caught:
            members[0].allreduce(**arguments, timeout=BOUND_S)
        assert caught.value.remedy
        sums = run_ranks(RANKS, lambda rank: members[rank].allreduce(ONES, timeout=BOUND_S)[0])
        assert sums == [RANKS] * RANKS


def test_closed_communicator(running: Running) -> None:
    with job(running, 2, "local") as members:
        members[0].close()
        with pytest.raises(errors.InvalidRequest, match="is closed"):
            members[0].allreduce(ONES)


def post_by_hand(running: Running, route: str, length: int, offset: int = 0) -> list[Any]:
    """Every rank posts a work request over `length` bytes from `offset` of a region of REGION; its completion."""
    placement, description = describe(running, RANKS, route)

    def act(rank: int) -> int:
        with Context(socket_of(running, placement, rank)) as context:
            pd, cq = PD(context), CQ(context)
            queue, region = CollectiveQP(pd, cq), MR(pd, REGION)
            queue.join(description.membership(rank), BOUND_S)
            place = region.address + (offset if rank == RANKS - 1 else 0)
            work = CollectiveWR(Op.SUM, DType.F32, length, [Address(place, place)])
            work.source_lkey = work.destination_lkey = region.lkey
            queue.post_send(work)
            assert cq.wait(BOUND_S)
            return cq.poll(1)[1][0].status

    return run_ranks(RANKS, act)


@pytest.mark.parametrize("route", ["tree", "ring"])
@pytest.mark.parametrize(("length", "offset"), [(REGION + 4, 0), (REGION, 4), (8, -8), (16 << 20, 0)])
def test_addresses_outside_the_region_fail_on_every_rank(
    running: Running, route: str, length: int, offset: int
) -> None:
    """The stream stays in step: ranks with right addresses learn why there is no result."""
    statuses = post_by_hand(running, route, length, offset)
    assert statuses == [Status.LOCAL_PROTECTION_ERROR] * RANKS
    assert_released(running)


@pytest.mark.parametrize("length", [2, REGION - 1])
def test_length_that_is_no_whole_number_of_elements(running: Running, length: int) -> None:
    outcomes = post_by_hand(running, "tree", length)
    assert all(isinstance(outcome, errors.InvalidRequest) for outcome in outcomes)
    assert all("multiple of the element size 4" in str(outcome) for outcome in outcomes)
    assert_released(running)


def test_unmapped_memory(running: Running) -> None:
    """An unmapped address in process memory: the device's read fails, and nobody hangs."""
    placement, description = describe(running, RANKS, "tree")

    def act(rank: int) -> int:
        with Context(socket_of(running, placement, rank)) as context:
            pd, cq = PD(context), CQ(context)
            queue = CollectiveQP(pd, cq)
            queue.join(description.membership(rank), BOUND_S)
            data = np.ones(4096, "f4")
            place = 4096 if rank == 1 else data.ctypes.data
            queue.post_send(CollectiveWR(Op.SUM, DType.F32, data.nbytes, [Address(place, place)]))
            assert cq.wait(BOUND_S)
            return cq.poll(1)[1][0].status

    assert run_ranks(RANKS, act) == [Status.LOCAL_PROTECTION_ERROR] * RANKS
    assert_released(running)
