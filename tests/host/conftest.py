"""Shared by the tests of the host side: device processes, and the ranks of a job as threads of the test."""

import contextlib
import faulthandler
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin import Communicator, FaninError, Job, JobNode, device_status
from fanin.verbs import CQ, PD, CollectiveQP, Context, Lease
from tests.waiting import BOUND_S

MODEL_DEVICE = Path(__file__).with_name("model_device.py")
START_S = 600  # it compiles on the first run, and may be emulated
Pair = tuple[Communicator, threading.Event]
Beside = Callable[[Callable[[Communicator, threading.Event], None]], contextlib.AbstractContextManager[Pair]]
_jids = itertools.count(1)


class Device:
    def __init__(self, folder: Path, kind: str = "nic") -> None:
        self.socket = folder / "control"
        self.process = subprocess.Popen([sys.executable, str(MODEL_DEVICE), str(self.socket), kind])
        deadline = time.monotonic() + START_S
        while True:
            try:
                device_status(self.socket)
                return
            except FaninError:
                assert self.process.poll() is None, "the device process has ended"
                assert time.monotonic() < deadline, "the device process does not answer"
                time.sleep(0.02)

    def kill(self) -> None:
        """Without any chance to clean up."""
        self.process.kill()
        self.process.wait(BOUND_S)

    def stop(self) -> None:
        """End it as a service manager would."""
        self.process.terminate()
        try:
            self.process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            self.kill()


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """For a socket: pytest's own paths can be too long. Every user may enter it."""
    with tempfile.TemporaryDirectory(prefix="fanin-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def device() -> Iterator[Device]:
    """Shared by all tests."""
    with short_folder() as folder:
        shared = Device(folder)
        yield shared
        end_shared(shared)


def end_shared(shared: Device) -> None:
    """Stop it, and check that no test has harmed it."""
    alive = shared.process.poll() is None
    shared.stop()
    assert alive, "some test has ended the shared device"
    assert shared.process.returncode == 0
    assert not shared.socket.exists()


@pytest.fixture
def own_device() -> Iterator[Device]:
    """A device that the test may kill."""
    with short_folder() as folder:
        own = Device(folder)
        yield own
        own.stop()


@pytest.fixture
def own_switch() -> Iterator[Device]:
    """A device without a host interface."""
    with short_folder() as folder:
        switch = Device(folder, "switch")
        yield switch
        switch.stop()


@pytest.fixture
def make_job() -> Callable[..., Job]:
    """Function: a new job of `size` ranks on one node."""

    def make(size: int, **parts: Any) -> Job:
        node = JobNode("127.0.0.1", tuple(range(size)))
        return Job(jid=os.getpid() * 1000 + next(_jids), key=7, nodes=(node,), **parts)

    return make


@pytest.fixture
def run_ranks(make_job: Callable[..., Job]) -> Callable[..., list[Any]]:
    """Function: run `program(communicator)` as every rank of a new job, each in a thread; the results in rank order.
    parts: of the job; fallback: of the communicators."""

    def run(
        device: Device, size: int, program: Callable[[Communicator], Any], fallback: bool = False, **parts: Any
    ) -> list[Any]:
        job, communicators = make_job(size, **parts), []

        def rank_program(rank: int) -> Any:
            with Communicator(job, rank, device.socket, timeout=BOUND_S, fallback=fallback) as communicator:
                communicators.append(communicator)
                return program(communicator)

        with ThreadPoolExecutor(size) as pool:
            futures = [pool.submit(rank_program, rank) for rank in range(size)]
            if wait(futures, BOUND_S).not_done:  # the pool would wait for them for ever
                faulthandler.dump_traceback(sys.__stderr__)
                for communicator in communicators:
                    communicator.abort()
            return [future.result() for future in futures]

    return run


@pytest.fixture
def beside(device: Device, make_job: Callable[..., Job]) -> Beside:
    """Function: rank 0 of a new job of two, and an event. Meanwhile a thread runs `program(communicator, event)` as
    rank 1, which waits for the event before it goes on; its exception is raised at the end."""

    @contextlib.contextmanager
    def pair(program: Callable[[Communicator, threading.Event], None]) -> Iterator[Pair]:
        job, event = make_job(2), threading.Event()

        def other() -> None:
            with Communicator(job, 1, device.socket, timeout=BOUND_S) as communicator:
                program(communicator, event)

        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(other)
            try:
                with Communicator(job, 0, device.socket, timeout=BOUND_S) as communicator:
                    yield communicator, event
            finally:
                event.set()
            ended.result(BOUND_S)

    return pair


@pytest.fixture
def deserted(beside: Beside) -> Iterator[Pair]:
    """Rank 0 of a job of two, and an event at which the other rank, after one allreduce, ends the job."""

    def abort_after_one(communicator: Communicator, event: threading.Event) -> None:
        communicator.allreduce(np.ones(4))
        event.wait(BOUND_S)
        communicator.abort()

    with beside(abort_after_one) as pair:
        yield pair


@pytest.fixture
def alone(device: Device, make_job: Callable[..., Job]) -> Iterator[Communicator]:
    with Communicator(make_job(1), 0, device.socket) as communicator:
        yield communicator


@pytest.fixture
def context(device: Device) -> Iterator[Context]:
    with Context(device.socket) as opened:
        yield opened


@pytest.fixture
def pd(context: Context) -> PD:
    return PD(context)


@pytest.fixture
def joined(pd: PD, make_job: Callable[..., Job]) -> Iterator[tuple[CollectiveQP, CQ]]:
    """A queue pair that is the only member of its job, and its completion queue."""
    cq = CQ(pd.context)
    qp = CollectiveQP(pd, cq)
    job = make_job(1)
    membership = job.membership(0)
    assert qp.join(membership, BOUND_S) == Lease(job.slots, job.slots // 2, membership.chunk)
    yield qp, cq
    qp.close()
    cq.close()
