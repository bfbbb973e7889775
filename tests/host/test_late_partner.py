"""A blocking collective whose partner comes late: it sleeps beside the books of its stream, and others can use that."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import errors
from fanin.busy import busy
from fanin.stream import Stream
from tests.host.waiting import BOUND_S, await_others


class TestLatePartner:
    """Who waits for one sleeps: other threads can use the communicator."""

    @pytest.fixture
    def beside_a_late_one(self, beside, outcomes):
        """Function: the result of an allreduce of rank 0, and its stream; another thread does `program(communicator)`
        once it takes longer, and only then the other rank does its `calls`."""
        later = 1

        def come_late(communicator, late):
            array = np.ones(4)  # known when it is used again: so nothing of this rank waits to be posted
            communicator.allreduce(array)
            late.wait(BOUND_S)
            for number in range(later):
                array[:] = number + 1
                communicator.allreduce(array)

        def meanwhile(program, communicator, late):
            deadline = time.monotonic() + BOUND_S
            while not outcomes and time.monotonic() < deadline:
                time.sleep(0.001)
            program(communicator)
            late.set()

        def run(program, calls=1):
            nonlocal later
            later, array = calls, np.ones(4)
            with beside(come_late) as (communicator, late), ThreadPoolExecutor(1) as pool:
                communicator.allreduce(array)
                await_others()
                done = pool.submit(meanwhile, program, communicator, late)
                result = communicator.allreduce(array)
                done.result(BOUND_S)
                stream = communicator._member.stream
                assert stream.wait_until(lambda: stream.is_idle, BOUND_S)
                assert outcomes[0] == "under way"
                assert communicator.status()["posted"] == 1 + calls
            return result, stream

        return run

    def test_it_is_waited_for_out_of_the_books(self, beside_a_late_one, monkeypatch):
        entered, enter = [], Stream.enter

        def watched(stream, *arguments):
            entered.append(stream)
            enter(stream, *arguments)

        def take_the_lock(communicator):
            with communicator._member.stream.lock:
                assert communicator._member.stream in busy

        monkeypatch.setattr(Stream, "enter", watched)
        result, stream = beside_a_late_one(take_the_lock)
        assert np.all(result == 2)
        assert stream not in entered
        assert stream not in busy

    def test_who_looks_enters_it(self, beside_a_late_one):
        seen = []
        result, stream = beside_a_late_one(lambda communicator: seen.extend(communicator.progress()))
        assert np.all(result == 2)
        assert [progress.waiting_for for progress in seen] == [(1,)]
        assert stream not in busy

    def test_who_starts_another_one_comes_behind_it(self, beside_a_late_one):
        results = []

        def start(communicator):
            results.append(communicator.iallreduce(np.ones(4)))

        result, _ = beside_a_late_one(start, calls=2)
        assert np.all(result == 2)
        assert np.all(results[0].wait(BOUND_S) == 3)

    def test_who_closes_the_communicator_ends_it(self, beside, outcomes):
        def come_late(communicator, late):
            communicator.allreduce(np.ones(4))
            late.wait(BOUND_S)

        def close(communicator):
            deadline = time.monotonic() + BOUND_S
            while not outcomes and time.monotonic() < deadline:
                time.sleep(0.001)
            communicator.close()

        with beside(come_late) as (communicator, _):
            array = np.ones(4)
            communicator.allreduce(array)
            await_others()
            threading.Thread(target=close, args=(communicator,)).start()
            with pytest.raises(errors.Flushed):
                communicator.allreduce(array)
