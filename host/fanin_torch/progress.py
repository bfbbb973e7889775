"""Who takes the completions of messages: whoever waits for a message; a thread, while nobody does.

A message that another thread sees first costs its waiter two changes of threads more. So the thread keeps away from the
queue as long as others have waited a moment ago.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from fanin.errors import FaninError
from fanin.verbs import CQ

LOOK_SECONDS = 0.2  # between two looks at what has no completion, such as time-outs
AWAY_SECONDS = 0.002  # between two looks of the thread whether somebody waits


class Progress:
    """Of one completion queue. lock: of all that is done here.

    handle: called for each completion. look: called every LOOK_SECONDS. fail: called with the error of a queue of which
    nothing comes any more. All of them with the lock.
    """

    def __init__(
        self,
        name: str,
        cq: CQ,
        lock: threading.RLock,
        handle: Callable[[list[Any]], None],
        look: Callable[[], None],
        fail: Callable[[FaninError], None],
    ) -> None:
        self._cq, self._lock, self._handle, self._look, self._fail = cq, lock, handle, look, fail
        self._waiting = 0  # threads that take completions, because they wait for some
        self._waits = 0  # how often one has begun to
        self._nobody = threading.Condition(lock)  # waits
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def until(self, is_over: Callable[[], bool], deadline: float) -> None:
        """Take completions until `is_over`, or until a time of time.monotonic()."""
        with self._lock:
            self._waiting += 1
            self._waits += 1
        try:
            while True:
                with self._lock:
                    self._take()
                    if is_over() or not self._is_open:
                        return
                    seen = self._cq.seen  # another thread may take what comes from now on: that ends the sleep, too
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._cq.wait(min(left, LOOK_SECONDS), seen)
        except FaninError as error:
            with self._lock:
                self._fail(error)
        finally:
            with self._lock:
                self._waiting -= 1
                if self._waiting == 0:
                    self._nobody.notify_all()

    def close(self) -> None:
        """Nobody takes completions when this returns, in at most LOOK_SECONDS. The thread itself may call it."""
        self._is_open = False
        if self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            self._nobody.wait_for(lambda: self._waiting == 0, 2 * LOOK_SECONDS)

    def _take(self) -> None:
        count = 1
        while count:
            count, completions = self._cq.poll(64)
            if count:
                self._handle(completions)

    def _run(self) -> None:
        looked, waits = time.monotonic(), 0
        try:
            while self._is_open:
                if self._waiting or self._waits != waits:
                    waits = self._waits
                    time.sleep(AWAY_SECONDS)
                elif self._cq.wait(LOOK_SECONDS) and not self._waiting:
                    with self._lock:
                        self._take()
                if time.monotonic() - looked > LOOK_SECONDS:
                    looked = time.monotonic()
                    with self._lock:
                        self._look()
        except FaninError as error:
            with self._lock:
                self._fail(error)
