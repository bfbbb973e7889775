"""Ctrl-C between any two steps of the fast path: nothing is posted twice, lost, or taken for what it is not."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.busy import busy
from fanin.fastpath import FastPath
from fanin.stream import Stream
from fanin.verbs import CollectiveQP
from fanin_wire.abi import Status

BOUND_S = 20
PENDING = int(Status["PENDING"])


@pytest.fixture
def others(device, make_job):
    """Function: a communicator of rank 0 of 2. Rank 1 does as many allreduces as it is told, when it is told so."""
    threads = []

    def make(at_once: int, later: int) -> tuple[Communicator, threading.Event]:
        job, late = make_job(2), threading.Event()

        def other():
            with Communicator(job, 1, device.socket) as communicator:
                for number in range(at_once + later):
                    if number == at_once:
                        late.wait(BOUND_S)
                    communicator.allreduce(np.ones(4))

        threads.append(threading.Thread(target=other))
        threads[-1].start()
        return Communicator(job, 0, device.socket), late

    yield make
    for thread in threads:
        thread.join(BOUND_S)


def counts(communicator):
    """Requests posted and outstanding."""
    status = communicator.status()
    return status["posted"], status["outstanding"]


def assert_in_step(communicator, array):
    """Whatever is called next does what it says, also behind a fence, and nothing is left over."""
    for request in [communicator.iallreduce(array), communicator.iallreduce(array, fence=True)]:
        assert np.all(request.wait(BOUND_S) == array)
    assert np.all(communicator.allreduce(array) == array)
    assert counts(communicator)[1] == 0


@pytest.fixture
def known(alone):
    """An array that `alone` has reduced twice, the second time on the fast path."""
    array = np.full(1000, 3.0)
    for _ in range(2):
        alone.allreduce(array)
    return array


class TestBlocking:
    """A call that was done before."""

    def test_before_it_is_posted(self, alone, known, interrupt):
        """What the last time left behind is not taken for this one."""
        interrupt(CollectiveQP, "call", "before")
        with pytest.raises(KeyboardInterrupt):
            alone.allreduce(known)
        assert counts(alone) == (2, 0)
        assert_in_step(alone, known)

    def test_when_it_is_done(self, alone, known, interrupt, monkeypatch):
        monkeypatch.setattr("fanin.fastpath.PATIENCE_MS", 1000 * BOUND_S)
        interrupt(CollectiveQP, "call", "after")
        with pytest.raises(KeyboardInterrupt):
            alone.allreduce(known)
        assert counts(alone) == (3, 0)
        assert_in_step(alone, known)

    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("half", ["posted", "complete"])
    def test_when_it_is_entered(self, alone, known, interrupt, monkeypatch, when, half):
        call = CollectiveQP.call

        def takes_long(qp, prepared, timeout_ms, cqe):
            _ = call(qp, prepared, 1000 * BOUND_S, cqe) if half == "complete" else qp.begin(prepared)
            return PENDING

        with monkeypatch.context() as once:
            once.setattr(CollectiveQP, "call", takes_long)
            interrupt(Stream, "enter", when)
            with pytest.raises(KeyboardInterrupt):
                alone.allreduce(known)
        assert counts(alone) == (3, 1 if half == "posted" else 0)
        assert_in_step(alone, known)

    def test_its_memory_is_kept_when_the_program_forgets_the_communicator(self, others, interrupt):
        """Until the device has written to it."""
        communicator, late = others(1, 1)
        array = np.ones(4)
        communicator.allreduce(array)
        interrupt(CollectiveQP, "call", "after")
        try:
            communicator.allreduce(array)
        except KeyboardInterrupt:  # not by pytest.raises, which keeps what the exception knows
            stream = weakref.ref(communicator._member.stream)
        del communicator
        gc.collect()
        assert stream() in busy
        late.set()
        assert stream().wait_until(lambda: stream().is_idle, BOUND_S)
        assert stream() not in busy


class TestPersistent:
    """Begun, and finished later."""

    @pytest.fixture
    def persistent(self, alone, known):
        """Done twice."""
        with alone.allreduce_init(known, ordered=True) as request:
            for _ in range(2):
                request.start().wait(BOUND_S)
            yield request

    def test_before_it_is_posted(self, alone, known, persistent, interrupt):
        """Then it has not been started."""
        interrupt(CollectiveQP, "begin", "before")
        with pytest.raises(KeyboardInterrupt):
            persistent.start()
        assert counts(alone) == (4, 0)
        with pytest.raises(errors.InvalidRequest, match="not been started"):
            persistent.wait(BOUND_S)
        assert not persistent.under_way
        assert np.all(persistent.start().wait(BOUND_S) == known)
        assert_in_step(alone, known)

    def test_when_it_is_posted(self, others, interrupt):
        """Then it has been started."""
        communicator, late = others(0, 2)
        with communicator, communicator.allreduce_init(np.ones(4), ordered=True) as request:
            interrupt(CollectiveQP, "begin", "after")
            with pytest.raises(KeyboardInterrupt):
                request.start()
            assert communicator._member.stream in busy
            with pytest.raises(errors.InvalidRequest, match="still under way"):
                request.start()
            late.set()
            assert np.all(request.wait(BOUND_S) == 2)
            assert np.all(request.start().wait(BOUND_S) == 2)
            assert counts(communicator) == (2, 0)

    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("owner", [FastPath, CollectiveQP])
    def test_when_it_is_finished(self, alone, known, persistent, interrupt, owner, when):
        persistent.start()
        interrupt(owner, "finish", when)
        with pytest.raises(KeyboardInterrupt):
            persistent.wait(BOUND_S)
        assert np.all(persistent.wait(BOUND_S) == known)
        assert not persistent.under_way
        assert counts(alone) == (5, 0)
        assert_in_step(alone, known)

    def test_started_again_when_it_was_finished(self, alone, known, persistent, interrupt):
        persistent.start()
        interrupt(FastPath, "finish", "after")
        with pytest.raises(KeyboardInterrupt):
            persistent.wait(BOUND_S)
        known += 1
        assert np.all(persistent.start().wait(BOUND_S) == known)

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_when_it_is_entered(self, alone, known, persistent, interrupt, when):
        persistent.start()
        interrupt(Stream, "enter", when)
        with pytest.raises(KeyboardInterrupt):
            alone.status()
        assert np.all(persistent.wait(BOUND_S) == known)
        assert counts(alone) == (5, 0)
        assert_in_step(alone, known)

    def test_when_it_is_entered_as_done(self, alone, known, persistent, interrupt, monkeypatch):
        """It is done once: its progress is not more than all."""
        finish = CollectiveQP.finish

        def takes_long(*arguments):
            assert finish(*arguments) != PENDING
            return PENDING

        persistent.start()
        with monkeypatch.context() as once:
            once.setattr(CollectiveQP, "finish", takes_long)
            once.setattr("fanin.fastpath.PATIENCE_MS", 1000 * BOUND_S)
            interrupt(Stream, "enter", "after")
            with pytest.raises(KeyboardInterrupt):
                persistent.wait()
        progress = persistent.progress()
        assert progress.done == progress.segments
        assert np.all(persistent.wait(BOUND_S) == known)
        assert_in_step(alone, known)
