"""A rank that wants no result goes on before the others take part. A later failure is reported later."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench
from tests.e2e.members import placed
from tests.waiting import BOUND_S

SHORT_S = 0.05
MESSAGES = 20


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(1, 2))


@pytest.fixture
def pair(running: Running) -> Iterator[tuple[Communicator, Communicator]]:
    description, sockets = placed(running, 2, "local", 8)
    with ThreadPoolExecutor(2) as pool:
        root, other = pool.map(lambda rank: Communicator(description, rank, sockets[rank], timeout=BOUND_S), range(2))
    yield root, other
    for member in (other, root):
        member.abort()


@pytest.mark.parametrize("count", [1, 1000])
def test_root_goes_on(pair: tuple[Communicator, Communicator], count: int) -> None:
    root, other = pair
    array = np.zeros(count)
    for message in range(MESSAGES):
        array[:] = message
        root.ibroadcast(array).wait(BOUND_S) if message % 2 else root.broadcast(array)
    array[:] = -1
    with pytest.raises(errors.Timeout):
        root.flush(SHORT_S)
    for message in range(MESSAGES):
        assert np.all(other.broadcast(np.zeros(count)) == message)
    root.flush(BOUND_S)


def test_other_ranks_of_a_reduction_go_on(pair: tuple[Communicator, Communicator]) -> None:
    root, other = pair
    array = np.zeros(1000)
    for message in range(MESSAGES):
        array[:] = message
        assert other.reduce(array) is None
    for message in range(MESSAGES):
        assert np.all(root.reduce(np.ones(1000)) == message + 1)
    other.flush(BOUND_S)


def test_limit_of_time_makes_the_root_wait(pair: tuple[Communicator, Communicator]) -> None:
    with pytest.raises(errors.Timeout):
        pair[0].broadcast(np.zeros(1), timeout=SHORT_S)


@pytest.mark.parametrize("how", ["flush", "close", "next call"])
def test_loss_is_told(pair: tuple[Communicator, Communicator], how: str) -> None:
    root, other = pair
    root.broadcast(np.zeros(1))
    other.abort()
    ways = {"flush": root.flush, "close": root.close, "next call": lambda: root.allreduce(np.zeros(1))}
    with pytest.raises(errors.PeerLost):
        ways[how]()
    root.close()  # raised once


def test_leaving_waits_for_the_others(pair: tuple[Communicator, Communicator]) -> None:
    root, other = pair
    root.broadcast(np.full(1000, 7.0))
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(root.close)
        assert np.all(other.broadcast(np.zeros(1000)) == 7)
        closing.result(BOUND_S)
