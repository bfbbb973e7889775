"""Blocking collectives that the driver core does again alone, amid other ranks, threads and signal handlers."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import errors
from fanin.busy import busy
from fanin.completions import Completions
from fanin.prepared import Remembered
from fanin.verbs import CollectiveQP
from fanin_wire.abi import Status
from tests.host.waiting import BOUND_S


def test_a_failure_says_what_and_whom(forms, partner, beside):
    with beside(partner.leave) as (communicator, event):
        array, out = np.ones(4), np.zeros(4)
        partner.meet(communicator, array, out=out)
        threading.Timer(0.05, event.set).start()
        with pytest.raises(errors.PeerLost, match=r"allreduce.*rank 0.*missing") as caught:
            communicator.allreduce(array, out=out)
        assert caught.value.missing_ranks == (1,)
        assert forms == ["go_on"]
        with pytest.raises(errors.FaninError):
            communicator.allreduce(array, out=out)


def when_under_way(forms, program):
    """Do it in another thread as soon as a call has been handed over to Python."""

    def wait():
        deadline = time.monotonic() + BOUND_S
        while "go_on" not in forms and time.monotonic() < deadline:
            time.sleep(0.001)
        return program()

    return wait


@pytest.mark.parametrize("given", [True, False], ids=["out", "new"])
def test_a_partner_that_comes_late(forms, partner, beside, given):
    """Another thread looks meanwhile: the call is entered into the books of its stream."""
    with beside(partner.late) as (communicator, late), ThreadPoolExecutor(1) as pool:
        array, out, seen = np.ones(4), np.zeros(4), []
        named = {"out": out} if given else {}
        call = functools.partial(communicator.allreduce, array, **named)
        partner.meet(communicator, array, **named)
        posted = communicator.status()["posted"]

        def look():
            deadline = time.monotonic() + BOUND_S
            try:
                while not any(each.waiting_for for each in seen) and time.monotonic() < deadline:
                    seen[:] = communicator.progress()  # the device may not have got to it yet
            finally:
                late.set()

        looked = pool.submit(when_under_way(forms, look))
        result = call()
        looked.result(BOUND_S)
        assert np.all(result == 3)
        assert (result is out) == given
        assert [each.waiting_for for each in seen] == [(1,)]
        assert np.all(call() == 4)
        assert communicator.status()["posted"] == posted + 2
        assert communicator._member.stream not in busy
    assert forms[0] == "go_on"


def test_ctrl_c_while_it_waits(forms, partner, beside):
    with beside(partner.late) as (communicator, late):
        array, out = np.ones(4), np.zeros(4)
        partner.meet(communicator, array, out=out)
        posted = communicator.status()["posted"]
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            communicator.allreduce(array, out=out)
        assert forms == ["go_on"]
        assert communicator.status()["posted"] == posted + 1
        late.set()
        assert np.all(communicator.allreduce(array) == 4)
        assert np.all(out == 3)  # the device went on


def test_a_signal_handler_that_calls_it(ready):
    """Whatever the main thread does then: both end well."""
    communicator, array = ready
    own, calls = np.full(7, 2.0), []

    def handler(*_):
        calls.append(np.all(communicator.allreduce(own, out=own) == 2))
        signal.setitimer(signal.ITIMER_REAL, 0.0003)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003)
        deadline = time.monotonic() + BOUND_S
        while len(calls) < 100 and time.monotonic() < deadline:
            assert np.all(communicator.allreduce(array, out=array) == 3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(calls) >= 100
    assert all(calls)
    status = communicator.status()
    assert (status["outstanding"], status["backlog"]) == (0, 0)


def test_several_threads(ready):
    """One array each, and one that all of them bring: the device reads the same of it each time."""
    communicator, shared = ready

    def program(number):
        own = np.full(10, float(number))
        for _ in range(300):
            assert communicator.allreduce(own, out=own) is own
            assert np.all(own == number)
            assert np.all(communicator.allreduce(shared) == 3)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(program, number) for number in range(4)]:
            done.result(BOUND_S)
    status = communicator.status()
    assert (status["posted"], status["outstanding"]) == (2 + 4 * 600, 0)


def test_a_thread_that_has_the_lock_is_waited_for(ready, forms):
    communicator, array = ready
    with ThreadPoolExecutor(1) as pool:
        with communicator._member.stream.lock:
            done = pool.submit(communicator.allreduce, array, out=array)
            deadline = time.monotonic() + BOUND_S
            while not forms and time.monotonic() < deadline:
                time.sleep(0.001)
            assert not done.done()
        assert done.result(BOUND_S) is array
    assert forms == ["run"]


def test_results_in_order(partner, beside):
    """Behind another call, for which the other rank comes late."""
    with beside(partner.late) as (communicator, late):
        array, out = np.ones(4), np.zeros(4)
        partner.meet(communicator, array, out=out)
        request = communicator.iallreduce(np.full(4, 10.0))
        late.set()
        assert np.all(communicator.allreduce(array, out=out) == 4)
        assert np.all(request.wait(BOUND_S) == 12)


def test_not_past_what_nobody_has_looked_at(ready, forms):
    """Its completion is there, and would be dropped."""
    communicator, array = ready
    other = np.full(10, 7.0)
    for _ in range(3):
        communicator.iallreduce(other, out=other).wait(BOUND_S)
        communicator.allreduce(array, out=array)
    request = communicator.iallreduce(other, out=other)
    forms.clear()
    assert communicator.allreduce(array, out=array) is array
    assert forms == ["run"]
    assert request.wait(BOUND_S) is other


def test_not_amid_another_call(ready, forms, monkeypatch):
    """A signal handler comes when that has been posted by Python."""
    communicator, array = ready
    other, inner = np.full(10, 7.0), []

    def call(qp, prepared, _):
        qp.begin(prepared)
        forms.clear()
        inner.append(communicator.allreduce(array, out=array))
        assert forms == ["run"]
        return int(Status["PENDING"])

    communicator.allreduce(other, out=other)
    communicator.allreduce(array, out=array)  # what follows it
    with monkeypatch.context() as once:
        once.setattr(CollectiveQP, "call", call)
        assert communicator.allreduce(other, out=other) is other
    assert inner[0] is array
    assert communicator.status()["posted"] == 2 + 4


def test_the_same_call_amid_its_end(ready, forms, monkeypatch):
    """By a signal handler: one of both attempts is kept for the next time, and that one is done then."""
    communicator, array = ready
    array, may_stay, calls, is_inside = np.full(1000, 5.0), Remembered._may_stay, [], []

    def interrupted(remembered, attempt):
        stays = may_stay(remembered, attempt)
        if not is_inside:
            is_inside.append(True)
            calls.append(communicator.allreduce(array))
        return stays

    monkeypatch.setattr(Remembered, "_may_stay", interrupted)
    results = []
    for number in range(4):
        results.append(communicator.allreduce(array))
        assert len(communicator.direct.last._spare) == min(number, 1)
    assert all(np.all(result == 5) for result in [*results, *calls])
    assert len({result.ctypes.data for result in [*results, *calls]}) == 5
    assert communicator.status()["posted"] == 2 + 5


def test_completions_that_a_handler_takes_meanwhile(alone, monkeypatch):
    """It comes while its thread takes two of them: all is done once."""
    complete, inside = Completions._complete_one, []

    def interrupted(completions, completion):
        complete(completions, completion)
        if not inside:
            inside.append(completion)
            completions.take()

    monkeypatch.setattr(Completions, "_complete_one", interrupted)
    arrays = [np.full(5, float(number)) for number in range(3)]
    with alone._member.stream.lock:  # so that they are taken together
        requests = [alone.iallreduce(array) for array in arrays]
        time.sleep(0.05)
    for request, array in zip(requests, arrays, strict=True):
        assert np.all(request.wait(BOUND_S) == array)
    assert inside


def test_no_memory_for_the_result(forms, alone):
    """The Python function says so, which asks for it itself."""
    array = np.ones(1000)
    for _ in range(2):
        alone.allreduce(array)
    remembered = alone.direct.last

    def none_left():
        raise MemoryError("none left")

    make, remembered._terms.make = remembered._terms.make, none_left
    remembered.c.make = id(none_left)
    forms.clear()
    with pytest.raises(MemoryError, match="none left"):
        alone.allreduce(array)
    assert forms == ["run"]
    remembered._terms.make, remembered.c.make = make, id(make)
    assert np.all(alone.allreduce(array) == 1)


def test_another_thread_that_closes_it(forms, partner, beside):
    """It waits for the lock, and ends what is under way."""
    with beside(partner.bereft) as (communicator, _), ThreadPoolExecutor(1) as pool:
        array, out = np.ones(4), np.zeros(4)
        partner.meet(communicator, array, out=out)
        called = pool.submit(communicator.allreduce, array, out=out)
        communicator.abort()
        with pytest.raises(errors.FaninError):
            called.result(BOUND_S)
        with pytest.raises(errors.InvalidRequest, match="closed"):
            communicator.allreduce(array, out=out)
