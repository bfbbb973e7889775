"""The progress of a request can be asked for at any time, even if nothing moves."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import Progress, errors
from fanin_wire.abi import SQ_DEPTH
from tests.waiting import BOUND_S

CHUNK = 4096


@pytest.fixture
def turn():
    """Function: rank 0 looks before the other has done anything; then the other does its part."""
    looked = threading.Event()

    def take(communicator, look, part):
        if communicator.rank == 0:
            try:
                return look()
            finally:
                looked.set()
        assert looked.wait(BOUND_S)
        return part()

    take.looked = looked
    return take


def test_of_one_request(run_ranks, device, turn):
    array = np.zeros(3 * CHUNK, "u1")

    def program(communicator):
        def look():
            request = communicator.iallreduce(array)
            return request, request.progress(), request.progress(), communicator.progress()

        found = turn(communicator, look, lambda: communicator.iallreduce(array))
        if communicator.rank == 1:
            return found.wait(BOUND_S) is not None
        request, first, again, everything = found
        request.wait(BOUND_S)
        assert request.progress() == Progress("allreduce", 3, 3, ())
        assert communicator.progress() == []
        communicator.close()
        assert request.progress() == Progress("allreduce", 3, 3, ())
        assert str(first) == "allreduce: 0 of 3 segments, waiting for ranks [1]"
        return first == again == everything[0] == Progress("allreduce", 0, 3, (1,)) and len(everything) == 1

    assert run_ranks(device, 2, program) == [True, True]


def test_of_many_also_behind_a_full_queue(run_ranks, device, turn):
    """The device is asked in groups; requests that are not posted yet wait for nobody."""
    count = SQ_DEPTH + 10

    def program(communicator):
        def start():
            return [communicator.iallreduce(np.ones(8)) for _ in range(count)]

        requests = start() if communicator.rank == 0 else []
        found = turn(communicator, communicator.progress, start)
        if communicator.rank == 0:
            assert [progress.segments for progress in found] == [1] * count
            assert [progress.waiting_for for progress in found[:200]] == [(1,)] * 200
            assert found[-1].waiting_for == ()
        return [request.wait(BOUND_S)[0] for request in requests or found]

    assert run_ranks(device, 2, program) == [[2.0] * count] * 2


def test_progress_before_the_sizes_are_known(run_ranks, device, turn):
    def program(communicator):
        def look():
            request = communicator.iallgatherv(np.zeros(2 * CHUNK, "u1"))
            return request, request.progress(), communicator.progress()

        found = turn(communicator, look, lambda: communicator.iallgatherv(np.zeros(CHUNK, "u1")))
        if communicator.rank == 1:
            return found.wait(BOUND_S).size
        request, progress, everything = found
        assert progress == Progress("allgatherv", 0, 0, (1,))
        assert everything == [progress]
        result = request.wait(BOUND_S)
        assert request.progress() == Progress("allgatherv", 3, 3, ())
        return result.size

    assert run_ranks(device, 2, program) == [3 * CHUNK] * 2


def test_of_persistent_requests(run_ranks, device, turn):
    def program(communicator):
        own = communicator.allreduce_init(np.zeros(4))
        ordered = communicator.barrier_init(ordered=True)
        with pytest.raises(errors.InvalidRequest, match="start"):
            own.progress()

        def start():
            own.start()
            ordered.start()
            return [own.progress(), *communicator.progress()]

        found = turn(communicator, start, start)
        own.wait(BOUND_S)
        ordered.wait(BOUND_S)
        return [(progress.name, progress.done, progress.waiting_for) for progress in found]

    assert run_ranks(device, 2, program)[0] == [("allreduce", 0, (1,)), ("barrier", 0, (1,)), ("allreduce", 0, (1,))]


def test_while_another_thread_waits(run_ranks, device, turn):
    def program(communicator):
        def look():
            request = communicator.iallreduce(np.zeros(4))
            waiting = threading.Thread(target=request.wait, args=(20,))
            waiting.start()
            found = [request.progress().waiting_for for _ in range(20)]
            return found, waiting

        found = turn(communicator, look, lambda: communicator.allreduce(np.zeros(4)))
        if communicator.rank == 0:
            found[1].join(BOUND_S)
            return found[0]
        return None

    assert run_ranks(device, 2, program)[0] == [(1,)] * 20


def test_of_a_blocking_call_in_another_thread(run_ranks, device, turn):
    """A watching thread sees what another one waits in."""

    def program(communicator):
        def look():
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(communicator.allreduce, np.zeros(4))
                time.sleep(0.4)
                found = communicator.progress()
                looked.set()
                waiting.result(BOUND_S)
                return found

        looked = turn.looked
        return turn(communicator, look, lambda: communicator.allreduce(np.zeros(4)))

    assert run_ranks(device, 2, program)[0] == [Progress("allreduce", 0, 1, (1,))]
