"""Ctrl-C while a long message is under way: parts are posted once, in order, and nothing of them is lost."""

from __future__ import annotations

import contextlib
import itertools
import threading

import numpy as np
import pytest

from fanin import Communicator
from fanin.completions import Completions
from fanin.fastpath import FastPath
from fanin.plan import PART
from fanin.relay import DEPTH, Relay
from fanin.stream import Stream
from fanin.verbs import WC, CollectiveQP
from fanin_wire.abi import Status

BOUND_S = 20
PENDING = int(Status["PENDING"])
LONG = (DEPTH + 2) * PART + 12  # bytes: more parts than a relay holds, the last a short one


@pytest.fixture
def array():
    return np.arange(LONG // 4, dtype="u4")


@pytest.fixture
def interrupted_call(monkeypatch):
    """Function: the next long call of this thread is begun by the driver core, and then Ctrl-C comes."""
    call, thread = CollectiveQP.call, threading.get_ident()

    def arm():
        armed = [True]

        def begun(qp, prepared, timeout_ms):
            if threading.get_ident() != thread or not armed or prepared.parts == 1:
                return call(qp, prepared, timeout_ms)
            armed.clear()
            call(qp, prepared, 0)
            raise KeyboardInterrupt

        monkeypatch.setattr(CollectiveQP, "call", begun)

    return arm


class TestInterrupted:
    """Parts of a call are posted when Ctrl-C comes, others are not; another rank knows nothing of it."""

    def test_the_rest_comes_before_the_next_call(self, device, make_job, interrupted_call):
        """Lengths are alike, so that no device would notice that parts of two calls are added up."""
        job, ones, tens, sums = make_job(2), np.full(LONG // 4, 1, "u4"), np.full(LONG // 4, 10, "u4"), []

        def other():
            with Communicator(job, 1, device.socket) as communicator:
                communicator.allreduce(ones)
                sums.extend(np.unique(communicator.allreduce(array)).tolist() for array in (ones, tens))

        thread = threading.Thread(target=other)
        thread.start()
        with Communicator(job, 0, device.socket) as communicator:
            communicator.allreduce(ones)
            interrupted_call()
            with pytest.raises(KeyboardInterrupt):
                communicator.allreduce(ones)
            assert np.all(communicator.allreduce(tens) == 20)
            thread.join(BOUND_S)
        assert sums == [[2], [20]]

    def test_the_rest_is_posted_by_whoever_waits_elsewhere(self, device, make_job, interrupted_call):
        jobs, ones, few, sums = [make_job(2), make_job(2)], np.ones(LONG // 4, "u4"), np.ones(4), []

        def other():
            with Communicator(jobs[0], 1, device.socket) as long, Communicator(jobs[1], 1, device.socket) as short:
                sums.extend(
                    np.unique(communicator.allreduce(array)).tolist()
                    for communicator, array in [(long, ones), (long, ones), (short, few)]
                )

        thread = threading.Thread(target=other)
        thread.start()
        with Communicator(jobs[0], 0, device.socket) as long, Communicator(jobs[1], 0, device.socket) as short:
            long.allreduce(ones)
            interrupted_call()
            with pytest.raises(KeyboardInterrupt):
                long.allreduce(ones)
            assert np.all(short.iallreduce(few).wait(BOUND_S) == 2)
            thread.join(BOUND_S)
        assert sums == [[2]] * 3

    def test_twice_while_its_end_is_entered(self, alone, monkeypatch):
        array, forget = np.ones(100, "u4"), Completions._forget
        alone.allreduce(array)
        armed = ["call", "forget"]

        def once(qp, prepared, _):
            status = qp.begin(prepared)
            if "call" in armed:
                armed.remove("call")
                raise KeyboardInterrupt
            return status or PENDING

        def late(*arguments):
            if "forget" in armed:
                armed.remove("forget")
                raise KeyboardInterrupt
            forget(*arguments)

        monkeypatch.setattr(CollectiveQP, "call", once)
        monkeypatch.setattr(Completions, "_forget", late)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                alone.allreduce(array)
        assert np.all(alone.iallreduce(array, fence=True).wait(BOUND_S) == 1)
        assert alone.status()["outstanding"] == 0

    def test_while_completions_are_taken(self, device, make_job, monkeypatch):
        job, late, made, make = make_job(2), threading.Event(), itertools.count(), WC.of

        def other():
            with Communicator(job, 1, device.socket) as communicator:
                late.wait(BOUND_S)
                for number in range(3):
                    communicator.allreduce(np.full(50, number))

        def once(entry):
            if threading.get_ident() == here and next(made) == 0:
                raise KeyboardInterrupt
            return make(entry)

        here, thread = threading.get_ident(), threading.Thread(target=other)
        thread.start()
        with Communicator(job, 0, device.socket) as communicator:
            requests = [communicator.iallreduce(np.full(50, number)) for number in range(3)]
            monkeypatch.setattr(WC, "of", once)
            late.set()
            with pytest.raises(KeyboardInterrupt):
                requests[-1].wait(BOUND_S)
            assert [np.unique(request.wait(BOUND_S)).tolist() for request in requests] == [[0], [2], [4]]
        thread.join(BOUND_S)


POINTS = [
    (Relay, "bring"),
    (Relay, "end_part"),
    (Relay, "end"),
    (Completions, "complete"),
    (CollectiveQP, "post_send"),
    (CollectiveQP, "post_part"),
    (CollectiveQP, "call"),
    (Stream, "enter"),
    (Stream, "_enter"),
    (Stream, "_enter_next"),
    (FastPath, "settle"),
]


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("which", [1, 3, DEPTH + 2])
@pytest.mark.parametrize(("owner", "name"), POINTS, ids=lambda point: getattr(point, "__name__", point))
def test_control_c(alone, array, interrupt, monkeypatch, owner, name, when, which, again):
    """It comes at the `which`-th time that a step is done. What was begun ends by itself; nothing is done twice."""
    if again:
        alone.allreduce(array)
        monkeypatch.setattr("fanin.fastpath.PATIENCE_MS", 0)
    interrupt(owner, name, when, which)
    with contextlib.suppress(KeyboardInterrupt):  # a step that is done less often is not interrupted
        assert np.array_equal(alone.allreduce(array), array)
    monkeypatch.undo()
    for _ in range(2):
        array += 1
        assert np.array_equal(alone.allreduce(array), array)
        assert np.array_equal(alone.iallreduce(array[:5]).wait(BOUND_S), array[:5])
    assert alone.status()["outstanding"] == alone.status()["backlog"] == 0
