"""Memory lives as long as the device may access it, whatever references the program keeps."""

import gc
import os
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.membership import member
from tests.waiting import BOUND_S

COUNT = 4000


def start_and_drop(communicator: Communicator) -> list[weakref.ref]:
    """Drops the request and both arrays."""
    mine, out = np.full(COUNT, 2.0), np.zeros(COUNT)
    communicator.iallreduce(mine, out=out)
    return [weakref.ref(mine), weakref.ref(out)]


def take_part(communicator, event):
    """The other rank: one allreduce of COUNT elements at the event, and one of 4."""
    assert event.wait(BOUND_S)
    communicator.allreduce(np.ones(COUNT))
    communicator.allreduce(np.ones(4))


def test_dropped_request_keeps_its_memory(beside):
    with beside(take_part) as (communicator, event):
        arrays = start_and_drop(communicator)
        gc.collect()
        assert all(array() is not None for array in arrays)
        event.set()
        communicator.allreduce(np.ones(4))
        communicator.status()
        gc.collect()
        assert all(array() is None for array in arrays)


def test_interrupted_call_keeps_its_memory(beside):
    """The result still comes, and no later call is mixed up with it."""
    with beside(take_part) as (communicator, event):
        mine, out = np.full(COUNT, 2.0), np.zeros(COUNT)
        arrays = [weakref.ref(mine), weakref.ref(out)]
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            communicator.allreduce(mine, out=out)
        copy = out
        del mine, out
        gc.collect()
        assert arrays[0]() is not None
        event.set()
        assert np.all(communicator.allreduce(np.ones(4)) == 2)
        assert np.all(copy == 3)


def test_memory_of_a_failed_request_lives_until_the_job_is_left(deserted):
    communicator, event = deserted
    communicator.allreduce(np.ones(4))
    mine = np.ones(COUNT)
    array = weakref.ref(mine)
    request = communicator.iallreduce(mine)
    event.set()
    with pytest.raises(errors.PeerLost):
        request.wait(BOUND_S)
    del mine, request
    gc.collect()
    assert array() is not None
    communicator.close()
    gc.collect()
    assert array() is None


def test_memory_is_never_given_back_if_the_device_does_not_confirm(own_device, make_job, monkeypatch):
    """It may go on later, and write."""
    monkeypatch.setattr(member, "LEAVE_TIMEOUT_MS", 200)
    job = make_job(2)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda rank: Communicator(job, rank, own_device.socket), range(2))
    arrays = start_and_drop(first)
    mine = np.ones(COUNT)
    arrays.append(weakref.ref(mine))
    request = first.iallreduce(mine)
    own_device.process.send_signal(signal.SIGSTOP)
    try:
        first.close()
        with pytest.raises(errors.Flushed):
            request.wait(BOUND_S)
        del request, mine, first
        gc.collect()
        assert all(array() is not None for array in arrays)
    finally:
        own_device.process.send_signal(signal.SIGCONT)
    second.close()


def test_results_outlive_the_communicator(beside):
    with beside(take_part) as (communicator, event):
        event.set()
        request = communicator.iallreduce(np.ones(COUNT))
        communicator.allreduce(np.ones(4))
        communicator.close()
        assert np.all(request.wait() == 2)
        assert request.progress().done == request.progress().segments > 0
        assert str(request) == "allreduce on rank 0"


def test_dropped_communicator_does_not_keep_others_waiting(device, make_job):
    """The garbage collector takes it; the other rank gets PeerLost."""
    job = make_job(2)
    with ThreadPoolExecutor(2) as pool:
        kept, dropped = pool.map(lambda rank: Communicator(job, rank, device.socket), range(2))
    request = kept.iallreduce(np.ones(COUNT))
    del dropped
    gc.collect()
    with pytest.raises(errors.PeerLost):
        request.wait(BOUND_S)
    kept.close()


def test_two_threads_wait_for_one_request(beside):
    with beside(take_part) as (communicator, event), ThreadPoolExecutor(3) as pool:
        request = communicator.iallreduce(np.ones(COUNT))
        waiters = [pool.submit(request.wait, BOUND_S) for _ in range(3)]
        time.sleep(0.1)
        assert not request.done
        event.set()
        assert len({id(waiter.result(BOUND_S)) for waiter in waiters}) == 1
        communicator.allreduce(np.ones(4))


def test_failed_request_in_a_cycle_is_collected(deserted):
    """An exception refers to its frames, these to the request, which keeps the exception."""
    communicator, event = deserted
    communicator.allreduce(np.ones(4))
    event.set()

    class Marker:
        pass

    def fail():
        marker = Marker()
        request = communicator.iallreduce(np.ones(4))
        with pytest.raises(errors.PeerLost):
            request.wait(BOUND_S)
        return weakref.ref(marker)

    marker = fail()
    gc.collect()
    assert marker() is None
