"""Work: what torch waits for, and the thread that ends it where nobody waits.

The host's part (to copy a result to ordinary memory, to post what had no room) is done by the thread that waits, or by
sleeping threads of the group for works that nobody waits for.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

from fanin.errors import FaninError, Timeout
from fanin_torch.errors import as_torch

PATIENCE = 0.5  # seconds
WORKING = 0.001  # seconds of a core in that time: a callback that uses more is not waiting
DEEPEST = 3  # of callbacks of works that have begun in callbacks
_local = threading.local()  # completer: whose callbacks this thread runs


class Step(Protocol):
    def wait(self, timeout: float | None = None) -> Any: ...

    def test(self) -> bool: ...


class Ending(Protocol):
    def when_ended(self, call: Callable[[], None]) -> None: ...


def nothing() -> None:
    """For works whose results need no copy."""


class FaninWork(dist.Work):
    """Some steps, after which `conclude` is called once, in the thread that first sees their end.

    result: value of its future.
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        result: Sequence[torch.Tensor] = (),
        conclude: Callable[[], None] = nothing,
        source: int = -1,
    ) -> None:
        super().__init__()
        self.name = name
        self._steps = list(steps)
        self._result = list(result)
        self._conclude = conclude
        self._source = source
        self._error: BaseException | None = None
        self._is_done = False
        self._ending = threading.Lock()  # held by the thread that waits for the steps
        self._waiter: int | None = None  # the thread that waits for the steps
        self._is_untold = False  # it has ended, and its future does not know yet
        self._telling = threading.Lock()  # between the end and `get_future`
        self._future: Any = None
        self._end: Any = None
        self._at_end: Callable[[], None] | None = None
        self._to_tell: tuple[Any, Callable[[], None] | None] = (None, None)  # its future and callback when it ended

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True at its end. Raises its error; or Timeout, after which it goes on."""
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        self.finish(seconds if seconds > 0 else None)
        if self._error is not None:
            raise self._error
        return True

    def finish(self, seconds: float | None = None) -> None:
        """Wait for its end, good or bad, and tell it. Timeout after `seconds`."""
        if self.take_end(seconds):
            self.tell()

    def take_end(self, seconds: float | None = None) -> bool:
        """Wait for its end, good or bad. True if the caller is to tell it. Timeout after `seconds`."""
        if not self._is_done:
            if not self._ending.acquire(timeout=-1 if seconds is None else seconds):
                raise as_torch(Timeout(f"{self.name} is still under way after {seconds:g} s"))
            self._waiter = threading.get_ident()
            try:
                if not self._is_done:
                    self._take_steps(seconds)
            finally:
                self._waiter = None
                self._ending.release()
        return self._claim()

    def settle(self) -> bool:
        """Its steps have ended: end it here. False: only a thread can, since it may wait for callbacks."""
        if self._waiter == threading.get_ident():
            return True  # called from its own take_end
        if self._end is not None or not self._ending.acquire(blocking=False):
            return False
        try:
            if not self._is_done:
                self._take_steps(None)
        finally:
            self._ending.release()
        if self.has_future:
            return False
        if self._claim():
            self.tell()
        return True

    def _claim(self) -> bool:
        """Whether the caller is to tell its end."""
        with self._telling:
            claimed, self._is_untold = self._is_untold, False
        return claimed

    def _take_steps(self, seconds: float | None) -> None:
        error: BaseException | None = None
        for step in self._steps:
            try:
                step.wait(seconds)
            except Timeout as late:
                if seconds is not None and not getattr(step, "done", False):
                    raise as_torch(late) from None
                error = error or as_torch(late)
            except FaninError as failure:
                error = error or as_torch(failure)
            except Exception as failure:  # of a work in a batch whose result could not be copied
                error = error or failure
        if error is None:
            try:
                self._conclude()
            except Exception as failure:
                error = failure
        with self._telling:
            self._error, self._is_done, self._is_untold = error, True, True
            self._steps.clear()
            self._conclude = nothing
            self._to_tell = self._end, self._at_end

    @property
    def has_ended(self) -> bool:
        """Whether its end has been seen."""
        return self._is_done

    @property
    def has_future(self) -> bool:
        """Whether its future was asked for before its end."""
        return self._to_tell[0] is not None

    def tell(self) -> None:
        """Fulfil its future and callback, once. The program's callbacks may wait for other works."""
        end, at_end = self._to_tell
        if end is not None:
            end.set_result(None)
        if at_end is not None:
            at_end()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call it once at the end; it must not wait."""
        with self._telling:
            if not self._is_done:
                self._at_end = call
                return
        call()

    def get_future(self) -> torch.futures.Future:
        """A future of the results, or of the error, also for those who wait in C++."""
        with self._telling:
            if self._future is None:
                self._end = torch.futures.Future()
                # The future of `then` has an error of its own. One of set_exception looks successful to C++.
                self._future = self._end.then(self._outcome)
                is_over = self._is_done
            else:
                is_over = False
        if is_over:
            self._end.set_result(None)
        return self._future

    def _outcome(self, _: Any) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result

    def is_completed(self) -> bool:
        """Whether it has ended, well or not; without waiting."""
        if not self._is_done and self._ending.acquire(blocking=False):
            try:
                if not self._is_done and all(map(_has_ended, self._steps)):
                    self._take_steps(None)
            finally:
                self._ending.release()
            if self._is_done and self._claim():
                self.tell()
        return self._is_done

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error if self.is_completed() else None

    def result(self) -> list[torch.Tensor]:
        """The tensors that it has written."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """The sender, of a receive from anyone."""
        self.wait()
        return self._source

    _source_rank = source_rank

    def synchronize(self) -> None:
        self.wait()


def _has_ended(step: Step) -> bool:
    try:
        return step.test()
    except FaninError:
        return True


class Completer:
    """A thread that ends works in the order in which it gets them, and lets a teller tell each.

    It sleeps while there are none. Works that begin in a callback have a completer of their own, since the callback may
    wait for them.
    """

    def __init__(self, name: str, depth: int = 0) -> None:
        self._name, self._depth = name, depth
        self._works: queue.SimpleQueue[FaninWork | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._teller = Teller(f"{name}-callbacks", self)
        self._deeper: Completer | None = None  # for works that begin in callbacks
        self._starting = threading.Lock()

    def take(self, work: FaninWork) -> None:
        """End it, whether or not anybody waits."""
        if (deeper := self._below(getattr(_local, "completer", None))) is not None:
            deeper.take(work)
            return
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._works.put(work)

    def _below(self, completer: Completer | None) -> Completer | None:
        """The completer for works of `completer`'s callbacks, if `completer` is this one or a deeper one."""
        if self._depth == DEEPEST:
            return None
        if completer is self:
            with self._starting:
                self._deeper = self._deeper or Completer(self._name, self._depth + 1)
            return self._deeper
        return self._deeper._below(completer) if completer is not None and self._deeper is not None else None

    def take_when_ended(self, work: FaninWork, steps: Sequence[Ending]) -> None:
        """End it when all its steps have ended, in any order: it waits for no other work."""
        left = itertools.count(len(steps) - 1, -1)  # a step ends in any thread, and next() of this is one operation

        def count() -> None:
            if next(left) == 0 and not work.settle():
                self.take(work)

        if not steps:
            self.take(work)
        for step in steps:
            step.when_ended(count)

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            if work.take_end():
                self._teller.tell(work) if work.has_future else work.tell()
            del work  # its tensors are the program's

    def close(self) -> None:
        """Return when all works have ended; a callback in such a thread does not wait for that."""
        if self._thread is not None:
            self._works.put(None)
            if self._thread is not threading.current_thread():
                self._thread.join()
            self._thread = None
        self._teller.close()
        if self._deeper is not None:
            self._deeper.close()


class Teller:
    """A thread that runs the callbacks of works one by one, so that all ranks have the same order. If one sleeps for
    PATIENCE seconds it may wait for a later one, so another thread goes on."""

    def __init__(self, name: str, completer: Completer) -> None:
        self._name, self._completer = name, completer
        self._works: queue.SimpleQueue[FaninWork | None] = queue.SimpleQueue()  # of the last thread: it goes on
        self._threads: list[threading.Thread] = []
        self._is_free = threading.Event()
        self._changing = threading.Lock()

    def tell(self, work: FaninWork) -> None:
        if not self._threads or not self._gets_free():
            with self._changing:
                self._works.put(None)
                self._works = queue.SimpleQueue()
            thread = threading.Thread(target=self._run, args=(self._works,), name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._is_free.clear()
        self._works.put(work)

    def _gets_free(self) -> bool:
        """Wait until the thread is free. False if it sleeps instead."""
        spent: float | None = None
        while not self._is_free.wait(PATIENCE):
            before, spent = spent, _seconds_of_core(self._threads[-1])
            if before is not None and spent - before < WORKING:
                return False
        return True

    def _run(self, works: queue.SimpleQueue[FaninWork | None]) -> None:
        _local.completer = self._completer
        while (work := works.get()) is not None:
            work.tell()
            del work
            with self._changing:
                if works is self._works:
                    self._is_free.set()

    def close(self) -> None:
        """Return when all callbacks have run; a callback does not wait for that."""
        self._works.put(None)
        if not hasattr(_local, "completer"):
            for thread in self._threads:
                thread.join()
        self._threads.clear()


def _seconds_of_core(thread: threading.Thread) -> float:
    """Processor time of a living thread."""
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
