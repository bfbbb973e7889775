"""The main thread holds lanes. No lane sleeps through a call, and its notices are delivered when it is held."""

import contextlib
import os
import threading
import time

from numba import njit

from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.daemon.lanes.threads import LaneThread
from fanin_nic.daemon.loop.lane import Reason
from fanin_nic.daemon.loop.lane_record import lane_at
from fanin_nic.daemon.loop.sleep import sleep
from fanin_nic.engine.engine import Engine
from fanin_nic.engine.records.accessors import U64
from fanin_nic.native.libc import monotonic_ns
from fanin_nic.port.sockets import UdpPort
from tests.lanes.stepped_lanes import LIMITS
from tests.waiting import BOUND_S


@njit
def fall_asleep(address):
    """Put a lane to sleep, as after some idle time."""
    return sleep(lane_at(U64(address)), U64(monotonic_ns()))


def test_a_call_just_before_sleep_is_heard(free_address):
    """The lane checks and silences its bell after the check for calls."""
    core = LaneCore(1, Engine(free_address, limits=LIMITS), UdpPort(free_address))
    with contextlib.closing(core):
        _, eventfd = core.make_doorbell()
        core.refresh([])
        core.interrupt()
        os.eventfd_read(eventfd)
        assert not fall_asleep(core.state)


class TalkativeCore:
    """In place of a LaneCore: runs until it is called, and always has notices."""

    number = 1

    def __init__(self) -> None:
        self._called = threading.Event()
        self.begun = threading.Event()

    def run(self) -> Reason:
        self.begun.set()
        self._called.wait()
        return Reason.NOTICES

    def interrupt(self) -> None:
        self._called.set()

    def resume(self) -> None:
        self._called.clear()

    def take_notices(self) -> list[str]:
        return ["news"]


def test_holding_a_lane_delivers_all_its_notices():
    delivered: list[str] = []

    def deliver(_lane: int, notices: list) -> None:
        time.sleep(0.05)  # another process has the processor
        delivered.extend(notices)

    core = TalkativeCore()
    thread = LaneThread(core, deliver)  # type: ignore[arg-type]
    thread.start()
    try:
        for count in range(1, 4):
            assert core.begun.wait(BOUND_S)
            core.begun.clear()
            thread.ask()
            thread.hold()
            assert delivered == ["news"] * count
            thread.release()
    finally:
        thread.stop()


def test_a_lane_whose_job_has_ended_is_heard_without_notices():
    """Its main thread has to look at the other lanes."""
    heard = threading.Event()

    class EndedCore(TalkativeCore):
        def run(self) -> Reason:
            super().run()
            return Reason.ENDED

        def take_notices(self) -> list[str]:
            return []

    core = EndedCore()
    thread = LaneThread(core, lambda *_: heard.set())  # type: ignore[arg-type]
    thread.start()
    assert core.begun.wait(BOUND_S)
    thread.stop()
    assert heard.is_set()
