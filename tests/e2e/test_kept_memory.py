"""A stopped device may go on and write, so its requests' memory is never reused."""

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import frozen_device
from tests.e2e.fabrics import Bench
from tests.e2e.members import across
from tests.waiting import BOUND_S, DETECTION_S

Way = Callable[[Communicator, np.ndarray, np.ndarray], Callable[[], object]]


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(1, 1, detection=DETECTION_S))


def blocking(member: Communicator, array: np.ndarray, out: np.ndarray) -> Callable[[], object]:
    return lambda: member.allreduce(array, out=out)


def non_blocking(member: Communicator, array: np.ndarray, out: np.ndarray) -> Callable[[], object]:
    return lambda: member.iallreduce(array, out=out).wait(BOUND_S)


def persistent(member: Communicator, array: np.ndarray, out: np.ndarray) -> Callable[[], object]:
    request = member.allreduce_init(array, out=out, ordered=True)
    return lambda: request.start().wait(BOUND_S)


@pytest.mark.parametrize("way", [blocking, non_blocking, persistent])
def test_device_that_is_stopped_for_long(running: Running, way: Way) -> None:
    """Earlier requests are lost like any other; their memory is kept even if the program forgets all."""
    description, sockets = across(running, [0], "tree")
    member, out = Communicator(description, 0, sockets[0], timeout=BOUND_S), np.zeros(1000)
    kept, act = weakref.ref(out), way(member, np.ones(1000), out)
    for _ in range(2):
        act()
    with frozen_device(running, "nic0"):
        try:
            act()
        except errors.DeviceLost as error:  # not by pytest.raises, which keeps the exception's references
            outcome = str(error)
        member.close()
    del member, act, out
    gc.collect()
    assert "stands still" in outcome
    assert kept() is not None
