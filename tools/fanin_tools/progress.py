"""Progress for the user, on the error output: lines; on a terminal a changing line for what takes long."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

ProgressCallback = Callable[[str], None]

SILENCE_SECONDS = 2.0  # shorter activities print nothing
BEAT_SECONDS = 0.5
LINE_SECONDS = 15.0  # between lines about one activity


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Activity:
    """Something that takes long, as a line now and then.

    what: in words. progress: called with each line. total: number of steps, or None. silence: seconds before the first
    line.
    """

    def __init__(self, what: str, progress: ProgressCallback, total: int | None, silence: float) -> None:
        self._what, self._progress, self._total = what, progress, total
        self._begun = time.monotonic()
        self._next = self._begun + silence
        self._done = 0

    def update(self, done: int | None = None, note: str = "") -> None:
        """done: complete steps; None: as before. note: how far it is, in words."""
        self._done = self._done if done is None else done
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_SECONDS
            seconds = now - self._begun
            parts = [f"{self._done} of {self._total}"] if self._total is not None else []
            parts += [note] if note else []
            parts += [f"{seconds:.0f} s"] if seconds >= 1 else []
            self._progress(f"{self._what} ... {', '.join(parts)}".rstrip())


class ChangingLine(Activity):
    """On a terminal: a line that changes, and vanishes at the end."""

    def __init__(self, what: str, progress: ProgressCallback, total: int | None, silence: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        super().__init__(what, progress, total, silence)
        counted = () if total is None else (MofNCompleteColumn(),)
        columns = TextColumn("{task.description}"), BarColumn(20), *counted, TimeElapsedColumn()
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(what, total=total)

    def update(self, done: int | None = None, note: str = "") -> None:
        text = f"{self._what}, {note}" if note else self._what
        self._bar.update(self._task, completed=done, description=text)

    def __enter__(self) -> ChangingLine:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


@contextlib.contextmanager
def activity(
    what: str, progress: ProgressCallback, total: int | None = None, silence: float = LINE_SECONDS
) -> Iterator[Activity]:
    """An activity for the time of the block. Arguments as of `Activity`. On a terminal the line changes if `progress`
    is `print_progress`: another callback may have a display of its own."""
    if progress is print_progress and sys.stderr.isatty():
        with ChangingLine(what, progress, total, silence) as line:
            yield line
    else:
        yield Activity(what, progress, total, silence)


@contextlib.contextmanager
def steady(
    what: str,
    progress: ProgressCallback = print_progress,
    total: int | None = None,
    note: Callable[[], str] = lambda: "",
) -> Iterator[Activity]:
    """An activity that a thread updates, so that its block need not; the block must not fork. note: how far the block
    is, in words; called by the thread."""
    over = threading.Event()
    with activity(what, progress, total, SILENCE_SECONDS) as shown:

        def beat() -> None:
            while not over.wait(BEAT_SECONDS):
                shown.update(note=note())

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield shown
        finally:
            over.set()
            thread.join()
