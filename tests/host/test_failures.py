"""Devices, ranks and connections die. All others get a named error, and nothing hangs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import Communicator, device_status, errors
from fanin_wire.abi import SQ_DEPTH
from tests.waiting import BOUND_S

ONES = np.ones(16, "f4")


def join_all(device, job):
    found: dict[int, Communicator] = {}

    def join(rank):
        found[rank] = Communicator(job, rank, device.socket, timeout=BOUND_S)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(job.size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
    return [found[rank] for rank in range(job.size)]


def wait_until(condition):
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_device_that_ends_in_the_middle(own_device, make_job, end):
    communicator, other = join_all(own_device, make_job(2))
    requests = [communicator.iallreduce(ONES) for _ in range(3)]
    timer = threading.Timer(0.2, getattr(own_device, end))
    timer.start()
    for request in requests:
        with pytest.raises(errors.DeviceLost):
            request.wait(BOUND_S)
    timer.join()
    with pytest.raises(errors.DeviceLost):
        communicator.allreduce(ONES)
    with pytest.raises(errors.DeviceLost):
        communicator.alloc(10)
    with pytest.raises(errors.DeviceLost):
        communicator.status()
    for one in (communicator, other):
        one.close()


def test_device_that_ends_is_seen_by_test(own_device, make_job):
    communicator, _ = join_all(own_device, make_job(2))
    request = communicator.iallreduce(ONES)
    own_device.kill()
    with pytest.raises(errors.DeviceLost):
        wait_until(request.test)


def test_results_before_the_end_of_the_device_are_delivered(own_device, make_job):
    (communicator,) = join_all(own_device, make_job(1))
    request = communicator.iallreduce(ONES)
    wait_until(lambda: device_status(own_device.socket)["completed"] == 1)
    own_device.kill()
    assert np.array_equal(request.wait(BOUND_S), ONES)
    with pytest.raises(errors.DeviceLost):
        communicator.allreduce(ONES)


def test_device_that_ends_during_a_join(own_device, make_job):
    threading.Timer(0.2, own_device.kill).start()
    with pytest.raises(errors.DeviceLost):
        Communicator(make_job(2), 0, own_device.socket, timeout=BOUND_S)


def test_device_that_hangs(own_device, make_job):
    """A stopped process keeps its socket: requests and attaching time out by name."""
    (communicator,) = join_all(own_device, make_job(1))
    own_device.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(errors.Timeout):
            communicator.allreduce(ONES, timeout=0.1)
        with pytest.raises(errors.Timeout):
            device_status(own_device.socket)
    finally:
        own_device.process.send_signal(signal.SIGCONT)
    communicator.close()


def test_rank_that_is_killed(device, make_job, tmp_path):
    """The device forgets it, and its job's other rank gets an error."""
    job = make_job(2)
    code = (
        "import sys, json, time, fanin\n"
        "job = fanin.Job.from_dict(json.loads(sys.argv[1]))\n"
        "communicator = fanin.Communicator(job, 1, sys.argv[2])\n"
        "print('joined', flush=True)\n"
        "time.sleep(60)\n"
    )
    arguments = [sys.executable, "-c", code, json.dumps(job.to_dict()), str(device.socket)]
    with (
        subprocess.Popen(arguments, stdout=subprocess.PIPE) as victim,
        Communicator(job, 0, device.socket, timeout=BOUND_S) as communicator,
    ):
        assert victim.stdout.readline() == b"joined\n"
        clients = device_status(device.socket)["clients"]
        request = communicator.iallreduce(ONES)
        victim.kill()
        with pytest.raises(errors.PeerLost, match="rank 1") as caught:
            request.wait(BOUND_S)
        assert caught.value.missing_ranks == (1,)
        assert device_status(device.socket)["clients"] == clients - 1


def test_rank_that_ends_with_an_exception(device, make_job):
    first, second = join_all(device, make_job(2))
    with pytest.raises(ZeroDivisionError), second:
        _ = 1 // 0
    with first, pytest.raises(errors.PeerLost):
        first.allreduce(ONES, timeout=BOUND_S)


def test_a_long_message_counts_once(device, make_job):
    """Its parts are messages of the devices, not of the program."""
    long = np.ones(1 << 20)
    first, second = join_all(device, make_job(2))
    with first, ThreadPoolExecutor() as pool:
        for _ in range(2):
            other = pool.submit(second.allreduce, long)
            first.allreduce(long, timeout=BOUND_S)
            other.result(BOUND_S)
        request = first.iallreduce(long)
        second.abort()
        with pytest.raises(errors.PeerLost, match="on rank 0, message 2 of job"):
            request.wait(BOUND_S)
        with pytest.raises(
            errors.PeerLost, match=r"barrier on rank 0 was not done: .* ended at message 2 \(allreduce\)"
        ):
            first.barrier()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("split", lambda communicator: communicator.split(0, timeout=BOUND_S)),
        ("allgatherv_init", lambda communicator: communicator.allgatherv_init(ONES, timeout=BOUND_S)),
        ("scatterv_init", lambda communicator: communicator.scatterv_init(ONES, [8, 8], timeout=BOUND_S)),
    ],
)
def test_a_failure_names_what_the_program_has_called(device, make_job, name, call):
    """Not the collective with which the ranks agree on it."""
    first, second = join_all(device, make_job(2))
    second.abort()
    with first, pytest.raises(errors.PeerLost, match=f"PEER_LOST: {name} on rank 0, message 0 of job"):
        call(first)


def test_deadline_names_the_missing(device, make_job):
    first, second = join_all(device, make_job(2))
    with first, second:
        with pytest.raises(errors.Timeout, match=r"missing: rank 1 \(node 127.0.0.1\)") as caught:
            first.allreduce(ONES, timeout=0.1)
        assert caught.value.missing_ranks == (1,)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"array": ONES}, {"array": np.ones(17, "f4")}),
        ({"array": ONES}, {"array": np.ones(16, "i4")}),
        ({"array": ONES}, {"array": ONES, "op": "max"}),
    ],
    ids=["length", "type", "operation"],
)
def test_mismatch_between_ranks(device, make_job, mine, theirs):
    first, second = join_all(device, make_job(2))
    with first, second:
        requests = [first.iallreduce(**mine), second.iallreduce(**theirs)]
        for request in requests:
            with pytest.raises(errors.OpMismatch):
                request.wait(BOUND_S)


def test_zero_length_on_one_rank_only_is_found(device, make_job):
    first, second = join_all(device, make_job(2))
    with first, second:
        first.allreduce(ONES[:0])
        with pytest.raises(errors.OpMismatch):
            [one.wait(BOUND_S) for one in [first.iallreduce(ONES), second.iallreduce(ONES), second.iallreduce(ONES)]]


def test_forked_child_has_no_communicator(device, make_job):
    (communicator,) = join_all(device, make_job(1))
    memory = communicator.alloc(16)
    for _ in range(2):
        communicator.allreduce(ONES)  # so that the error has a message to name
    child = os.fork()
    if child == 0:
        refused = False
        try:
            communicator.allreduce(ONES)
        except errors.InvalidRequest:
            refused = True
        memory[:] = 3  # shared with the parent, and still mapped
        communicator.close()
        os._exit(0 if refused else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.all(memory == 3)
    assert np.array_equal(communicator.allreduce(ONES), ONES)
    communicator.close()


def test_ctrl_c_gets_through_a_wait(device, make_job):
    first, second = join_all(device, make_job(2))
    with second:
        request = first.iallreduce(ONES)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            request.wait(BOUND_S)
        first.close()


def test_ctrl_c_within_a_function_of_the_program(run_ranks, device):
    """It gets through; neither this request nor one that ended with it counts as complete or lost."""

    def program(communicator):
        def interrupted(one, other):
            raise KeyboardInterrupt

        # In this order: starting another one could end the one that raises.
        requests = [communicator.iallreduce(ONES), communicator.iallreduce(ONES, op=interrupted)]
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                requests[1].wait(BOUND_S)
        return requests[0].wait(BOUND_S)[0]

    assert run_ranks(device, 2, program, fallback=True) == [2.0, 2.0]


def test_close_while_another_thread_waits(device, make_job):
    """All that is under way ends as Flushed, even requests that wait for room in the queue."""
    first, second = join_all(device, make_job(2))
    requests = [first.iallreduce(ONES) for _ in range(SQ_DEPTH + 5)]
    with ThreadPoolExecutor(3) as pool:
        waiters = [pool.submit(request.wait, BOUND_S) for request in (requests[0], requests[0], requests[-1])]
        time.sleep(0.2)
        first.close()
        for waiter in waiters:
            assert isinstance(waiter.exception(BOUND_S), errors.Flushed)
    for request in requests:
        with pytest.raises(errors.Flushed, match="its communicator was closed"):
            request.wait(BOUND_S)
    second.close()


def test_forked_child_makes_its_own_communicator(device, make_job):
    """Its parent's requests under way do not affect it."""
    parent, other = join_all(device, make_job(2))
    job, waiting = make_job(1), make_job(2)
    request = parent.iallreduce(ONES)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException), Communicator(job, 0, device.socket, timeout=BOUND_S) as own:
            try:
                Communicator(waiting, 0, device.socket, timeout=0.1)
            except errors.Timeout:  # meanwhile it has looked at all streams of this process
                os._exit(int(own.allreduce(ONES, timeout=BOUND_S).sum()))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 16
    other.allreduce(ONES)
    assert request.wait(BOUND_S)[0] == 2
    for communicator in (parent, other):
        communicator.close()
