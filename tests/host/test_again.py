"""Non-blocking and persistent collectives done again: that nobody can tell but by the clock."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.fastpath import FastPath
from fanin.verbs import CollectiveQP
from fanin_wire.abi import SQ_DEPTH

BOUND_S = 20


class TestNonBlocking:
    """Posted again as they were: with the data of now, to results of their own."""

    @pytest.mark.parametrize("count", [2, 5, 5000], ids=["inline", "short", "long"])
    @pytest.mark.parametrize("registered", [False, True], ids=["process", "registered"])
    def test_what_the_memory_holds_now_counts(self, alone, count, registered):
        make = alone.alloc if registered else np.zeros
        array, out = make(count, "f4"), make(count, "f4")
        for number in range(4):
            array[:] = number
            assert alone.iallreduce(array, out=out).wait() is out
            assert np.all(out == number)

    def test_many_under_way_have_results_of_their_own(self, alone):
        array = np.zeros(1000, "i4")
        requests = []
        for _ in range(2 * SQ_DEPTH):  # more than there is room for: the array must not change meanwhile
            requests.append(alone.iallreduce(array))
        results = [request.wait() for request in requests]
        assert len({result.ctypes.data for result in results}) == len(results)
        assert not np.any(results)

    def test_progress_and_failure_name_the_call(self, deserted):
        communicator, left = deserted
        array = np.ones(4)
        communicator.allreduce(array)
        request = communicator.iallreduce(array)
        assert request.progress().segments == 1
        left.set()
        with pytest.raises(errors.PeerLost, match=r"allreduce.*4|allreduce.*32 bytes"):
            request.wait(BOUND_S)

    def test_closed_communicator(self, alone):
        array = np.ones(4)
        for _ in range(2):
            alone.iallreduce(array).wait()
        alone.close()
        with pytest.raises(errors.InvalidRequest, match="closed"):
            alone.iallreduce(array)


class TestPersistent:
    """Begun and finished by the driver core, unless something comes between."""

    @pytest.fixture
    def finishes(self, monkeypatch):
        """Whether each wait was done on the fast path."""
        seen, finish = [], FastPath.finish

        def watched(*arguments):
            outcome = finish(*arguments)
            seen.append(outcome is True)
            return outcome

        monkeypatch.setattr(FastPath, "finish", watched)
        return seen

    @pytest.mark.parametrize("count", [2, 5, 5000], ids=["inline", "short", "long"])
    @pytest.mark.parametrize("registered", [False, True], ids=["process", "registered"])
    @pytest.mark.parametrize("ordered", [False, True], ids=["own-stream", "ordered"])
    def test_what_the_memory_holds_at_the_start_counts(self, alone, finishes, count, registered, ordered):
        make = alone.alloc if registered else np.zeros
        array, out = make(count, "f4"), make(count, "f4")
        with alone.allreduce_init(array, out=out, ordered=ordered) as request:
            for number in range(8):
                array[:] = number
                assert request.start().wait() is out
                assert np.all(out == number)
                assert request.wait() is out
                assert request.test()
                assert not request.under_way
                progress = request.progress()
                assert progress.done == progress.segments > 0
        assert any(finishes)

    def test_what_was_begun_is_counted(self, alone):
        with alone.allreduce_init(np.ones(4), ordered=True) as request:
            request.start()
            status = alone.status()
            assert (status["posted"], status["outstanding"]) == (1, 1)
            request.wait(BOUND_S)
            status = alone.status()
            assert (status["posted"], status["outstanding"]) == (1, 0)

    @pytest.mark.parametrize("started", [1, 3])
    def test_a_time_that_is_none(self, alone, started):
        """Also when there is nothing to wait for any more."""
        with alone.allreduce_init(np.ones(4), ordered=True) as request:
            for _ in range(started):
                request.start().wait(BOUND_S)
            for timeout in ("x", -1, float("nan")):
                with pytest.raises(errors.InvalidRequest, match="no time to wait"):
                    request.wait(timeout)

    def test_who_waits_for_a_start_does_not_wait_for_the_next(self, beside):
        """Which another thread has begun, since it has seen that the first has ended."""
        sleeping, started, again = threading.Event(), threading.Event(), threading.Event()

        def come_late(communicator, late):
            late.wait(BOUND_S)
            communicator.allreduce(np.ones(4))
            again.wait(BOUND_S)
            communicator.allreduce(np.ones(4))

        with beside(come_late) as (communicator, late), ThreadPoolExecutor(1) as pool:
            request = communicator.allreduce_init(np.ones(4), ordered=True).start()
            stream = communicator._member.stream
            sleep = stream._sleep

            def sleep_long(*arguments):
                sleeping.set()
                sleep(*arguments)
                started.wait(BOUND_S)  # it is the last to see what has happened

            stream._sleep = sleep_long
            waited = pool.submit(request.wait, BOUND_S)
            assert sleeping.wait(BOUND_S)
            stream._sleep = sleep
            late.set()
            while not request.test():
                time.sleep(0.001)
            request.start()
            started.set()
            assert np.all(waited.result(BOUND_S) == 2)
            again.set()
            assert np.all(request.wait(BOUND_S) == 2)
            assert communicator.status()["posted"] == 2

    def test_the_driver_core_waits_no_longer_than_the_program(self, beside, monkeypatch):
        times, finish = [], CollectiveQP.finish

        def watched(qp, prepared, timeout_ms):
            times.append(timeout_ms)
            return finish(qp, prepared, timeout_ms)

        def come_late(communicator, late):
            late.wait(BOUND_S)
            communicator.allreduce(np.ones(4))

        monkeypatch.setattr(CollectiveQP, "finish", watched)
        with beside(come_late) as (communicator, late):
            request = communicator.allreduce_init(np.ones(4), ordered=True).start()
            with pytest.raises(errors.Timeout):
                request.wait(0)
            assert set(times) == {0}
            late.set()
            assert np.all(request.wait(BOUND_S) == 2)

    def test_device_that_is_killed(self, own_device, make_job):
        with Communicator(make_job(1), 0, own_device.socket) as communicator:
            request = communicator.allreduce_init(np.ones(4), ordered=True)
            assert np.all(request.start().wait(BOUND_S) == 1)
            own_device.process.send_signal(signal.SIGSTOP)  # so that it does not answer before it ends
            request.start()
            own_device.kill()
            for _ in range(2):
                with pytest.raises(errors.DeviceLost):
                    request.wait(BOUND_S)
            with pytest.raises(errors.DeviceLost):
                request.start().wait(BOUND_S)

    def test_what_is_called_meanwhile_goes_on(self, alone):
        array, other = np.full(1000, 3.0), np.ones(1000)
        with alone.allreduce_init(array, ordered=True) as request:
            for _ in range(3):
                request.start()
                first, second = alone.iallreduce(other), alone.allreduce(other)
                assert np.all(second == 1)
                assert np.all(request.wait() == 3)
                assert np.all(first.wait() == 1)

    def test_it_must_have_ended_before_it_is_started_again(self, beside):
        def come_late(communicator, late):
            late.wait(BOUND_S)
            for _ in range(2):
                communicator.allreduce(np.ones(4))

        with beside(come_late) as (communicator, late):
            request = communicator.allreduce_init(np.ones(4), ordered=True).start()
            assert request.under_way
            with pytest.raises(errors.InvalidRequest, match="still under way"):
                request.start()
            assert not request.test()
            late.set()
            assert np.all(request.wait(BOUND_S) == 2)
            assert np.all(request.start().wait(BOUND_S) == 2)

    def test_close_ends_what_was_begun(self, beside):
        with beside(lambda _, done: done.wait(BOUND_S)) as (communicator, done):
            request = communicator.allreduce_init(np.ones(4), ordered=True).start()
            communicator.close()
            with pytest.raises(errors.Flushed):
                request.wait(BOUND_S)
            done.set()
