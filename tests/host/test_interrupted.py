"""Ctrl-C between any two steps of the fast path: nothing is posted twice, lost, or taken for what it is not."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.busy import busy
from fanin.fastpath import FastPath
from fanin.stream import Stream
from fanin.verbs import CollectiveQP
from fanin_wire.abi import Status
from tests.host.waiting import await_others

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


@pytest.mark.usefixtures("in_python")
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
        monkeypatch.setattr("fanin.fastpath.PATIENCE_MS", 1000)  # ms: in the driver core, if nothing holds it up
        interrupt(CollectiveQP, "call", "after")
        with pytest.raises(KeyboardInterrupt):
            alone.allreduce(known)
        assert counts(alone) == (3, 0)
        assert_in_step(alone, known)

    def test_behind_one_that_was_interrupted_when_it_was_submitted(self, alone, known, interrupt):
        """It does not overtake what waits to be posted."""

        class Backlog(deque):
            """Whose methods can be interrupted."""

        stream = alone._member.stream
        stream._backlog = Backlog()
        interrupt(Backlog, "extend", "after")
        with pytest.raises(KeyboardInterrupt):
            alone.iallreduce(np.ones(3))
        (waiting,) = stream._backlog
        assert np.all(alone.allreduce(known) == known)
        assert waiting.done
        assert_in_step(alone, known)

    def test_behind_one_that_a_signal_handler_came_amid(self, alone, known):
        """It has found nothing under way yet."""

        class Backlog(deque):
            def extend(self, requests):
                stream.advance()
                super().extend(requests)

        stream = alone._member.stream
        stream._backlog = Backlog()
        request = alone.iallreduce(known)
        assert stream in busy or stream.is_idle
        assert np.all(alone.allreduce(known) == known)
        assert np.all(request.wait(BOUND_S) == known)

    def test_entered_by_a_signal_handler(self, alone, known, monkeypatch):
        """Which has done something with the communicator: the books tell the rest, and nothing is posted twice."""

        def call(qp, prepared, _):
            qp.begin(prepared)
            assert counts(alone) == (3, 1)
            prepared.ended = 1  # as of one in parts, of which one has ended meanwhile
            return PENDING

        def finish(*_):
            raise AssertionError("it was finished beside the books")

        with monkeypatch.context() as once:
            once.setattr(CollectiveQP, "call", call)
            once.setattr(CollectiveQP, "finish", finish)
            assert np.all(alone.allreduce(known) == known)
        assert counts(alone) == (3, 0)
        assert_in_step(alone, known)

    def test_nobody_looks_after_it_when_it_has_failed(self, deserted, monkeypatch):
        communicator, left = deserted
        array = np.ones(4)
        communicator.allreduce(array)
        await_others()
        monkeypatch.setattr("fanin.fastpath.PATIENCE_MS", 1000)  # ms: in the driver core, if nothing holds it up
        left.set()
        with pytest.raises(errors.FaninError):
            communicator.allreduce(array)
        assert communicator._member.stream not in busy

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_while_it_takes_long(self, others, interrupt, when):
        """It is not in the books yet, and is entered by whatever comes next."""
        communicator, late = others(1, 2)
        array = np.ones(4)
        communicator.allreduce(array)
        await_others()
        interrupt(communicator._member.stream, "_sleep", when)
        with communicator:
            with pytest.raises(KeyboardInterrupt):
                communicator.allreduce(array)
            assert communicator._member.stream in busy
            assert counts(communicator)[0] == 2
            late.set()
            assert np.all(communicator.allreduce(array) == 2)
            assert counts(communicator) == (3, 0)
            assert communicator._member.stream not in busy

    @pytest.mark.usefixtures("visited")
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_when_it_is_entered(self, alone, known, interrupt, monkeypatch, when):
        with monkeypatch.context() as once:
            once.setattr(CollectiveQP, "call", lambda qp, prepared, _: qp.begin(prepared) or PENDING)
            once.setattr(CollectiveQP, "finish", lambda *_: PENDING)
            interrupt(Stream, "enter", when)
            with pytest.raises(KeyboardInterrupt):
                alone.allreduce(known)
        assert counts(alone) == (3, 1)
        assert_in_step(alone, known)

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_when_its_failure_is_entered(self, deserted, interrupt, monkeypatch, when):
        """The completion has been taken from the queue: it is not lost."""
        communicator, left = deserted
        array = np.ones(4)
        communicator.allreduce(array)
        await_others()
        monkeypatch.setattr("fanin.fastpath.PATIENCE_MS", 1000)  # ms: in the driver core, if nothing holds it up
        left.set()
        interrupt(Stream, "enter", when)
        with pytest.raises(KeyboardInterrupt):
            communicator.allreduce(array)
        assert counts(communicator) == (2, 0)
        with pytest.raises(errors.FaninError):
            communicator.allreduce(array)

    def test_its_memory_is_kept_when_the_program_forgets_the_communicator(self, others, interrupt):
        """Until the device has written to it."""
        communicator, late = others(1, 1)
        array = np.ones(4)
        communicator.allreduce(array)
        await_others()
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

    @pytest.mark.parametrize("owner", [FastPath, CollectiveQP])
    def test_before_it_is_posted(self, alone, known, persistent, interrupt, owner):
        """Then it has not been started."""
        interrupt(owner, "begin", "before")
        with pytest.raises(KeyboardInterrupt):
            persistent.start()
        assert counts(alone) == (4, 0)
        with pytest.raises(errors.InvalidRequest, match="not been started"):
            persistent.wait(BOUND_S)
        assert not persistent.under_way
        assert np.all(persistent.start().wait(BOUND_S) == known)
        assert_in_step(alone, known)

    @pytest.mark.usefixtures("visited")
    @pytest.mark.parametrize("owner", [FastPath, CollectiveQP])
    def test_before_it_is_posted_behind_one_that_took_long(
        self, alone, known, persistent, interrupt, monkeypatch, owner
    ):
        """What became of that is not taken for this one."""
        with monkeypatch.context() as once:
            once.setattr(CollectiveQP, "finish", lambda *_: PENDING)
            assert np.all(persistent.start().wait(BOUND_S) == known)
        interrupt(owner, "begin", "before")
        with pytest.raises(KeyboardInterrupt):
            persistent.start()
        assert counts(alone) == (5, 0)
        with pytest.raises(errors.InvalidRequest, match="not been started"):
            persistent.wait(BOUND_S)
        assert_in_step(alone, known)

    def test_before_it_goes_the_usual_way(self, alone, known, persistent, monkeypatch):
        """Something else is under way. Then it has not been started, and can be."""

        def interrupted(*_):
            raise KeyboardInterrupt

        other = alone.iallreduce(known)
        with monkeypatch.context() as once:
            once.setattr("fanin.persistent.Request", interrupted)
            with pytest.raises(KeyboardInterrupt):
                persistent.start()
        with pytest.raises(errors.InvalidRequest, match="not been started"):
            persistent.wait(BOUND_S)
        assert np.all(persistent.start().wait(BOUND_S) == known)
        assert other.wait(BOUND_S) is not None
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

    def test_when_it_is_done(self, alone, known, persistent, interrupt, monkeypatch):
        """It is done once: nothing is entered any more, and its progress is all."""
        persistent.start()
        with monkeypatch.context() as once:
            once.setattr("fanin.fastpath.PATIENCE_MS", 1000)
            interrupt(CollectiveQP, "finish", "after")
            with pytest.raises(KeyboardInterrupt):
                persistent.wait()
        progress = persistent.progress()
        assert progress.done == progress.segments
        assert np.all(persistent.wait(BOUND_S) == known)
        assert counts(alone) == (5, 0)
        assert_in_step(alone, known)

    def test_nobody_looks_after_it_when_it_is_done(self, alone, persistent, interrupt):
        """Also where that was seen, but not said."""
        persistent.start()
        interrupt(CollectiveQP, "finish", "after")
        with pytest.raises(KeyboardInterrupt):
            persistent.wait(BOUND_S)
        persistent.wait(BOUND_S)
        assert alone._member.stream not in busy

    def test_what_a_signal_handler_has_begun_goes_on(self, alone, known, persistent, monkeypatch):
        """Its completion is not taken for that of a call that comes later."""
        finish, requests = CollectiveQP.finish, []

        def interrupted(*arguments):
            status = finish(*arguments)
            requests.append(alone.iallreduce(known))
            return status

        persistent.start()
        with monkeypatch.context() as once:
            once.setattr("fanin.fastpath.PATIENCE_MS", 1000)
            once.setattr(CollectiveQP, "finish", interrupted)
            assert np.all(persistent.wait() == known)
        stream = alone._member.stream
        assert stream in busy or stream.is_idle
        assert np.all(alone.allreduce(known) == known)
        assert np.all(requests[0].wait(BOUND_S) == known)
        assert_in_step(alone, known)
