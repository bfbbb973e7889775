"""The threads of lanes 1 and up. Lane 0 runs in the main thread, beside the control server."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

import numpy as np

from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.daemon.loop.lane import Reason

Deliver = Callable[[int, list[np.void]], None]


class LaneThread:
    """Runs one lane, except while the main thread holds it. deliver: called by this thread with the number of the lane
    and its notices; without notices if a job has ended there."""

    def __init__(self, core: LaneCore, deliver: Deliver) -> None:
        self._core, self._deliver = core, deliver
        self._turn = threading.Condition()
        self._running = self._paused = self._ended = False
        self._thread = threading.Thread(target=self._serve, name=f"lane-{core.number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        while self._begin():
            try:
                self._work()
            except BaseException:  # a device can not serve without one of its lanes
                os.kill(os.getpid(), signal.SIGTERM)
                raise
            finally:
                self._end()

    def _work(self) -> None:
        """Run the lane until it returns. Its notices are delivered before the main thread can hold the lane, so a
        holder of all lanes has all their notices."""
        reason = self._core.run()
        notices = self._core.take_notices()
        if notices or reason == Reason.ENDED:
            self._deliver(self._core.number, notices)

    def _begin(self) -> bool:
        """Wait until the lane is not paused. False: the lane shall end."""
        with self._turn:
            self._turn.wait_for(lambda: not self._paused or self._ended)
            self._running = not self._ended
            return self._running

    def _end(self) -> None:
        with self._turn:
            self._running = False
            self._turn.notify_all()

    def ask(self) -> None:
        """Begin to hold the lane."""
        with self._turn:
            self._paused = True
            self._core.interrupt()

    def hold(self) -> None:
        """Wait until the lane stands still, after `ask`."""
        with self._turn:
            self._turn.wait_for(lambda: not self._running)
            self._core.resume()

    def release(self) -> None:
        with self._turn:
            self._paused = False
            self._turn.notify_all()

    def stop(self) -> None:
        self.ask()
        with self._turn:
            self._ended = True
            self._turn.notify_all()
        if self._thread.ident is not None:
            self._thread.join()


class LaneThreads:
    """The threads of all lanes but lane 0."""

    def __init__(self, cores: list[LaneCore], deliver: Deliver) -> None:
        self._threads = [LaneThread(core, deliver) for core in cores[1:]]

    def start(self) -> None:
        """Let the lanes run; until then they stand still."""
        for thread in self._threads:
            thread.start()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Hold all lanes for the block. Only for the main thread, and not nested."""
        for thread in self._threads:
            thread.ask()
        try:
            for thread in self._threads:
                thread.hold()
            yield
        finally:
            for thread in self._threads:
                thread.release()

    def stop(self) -> None:
        """The lanes stand still from now on."""
        for thread in self._threads:
            thread.stop()
        self._threads = []
