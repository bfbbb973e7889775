"""Progress for the user, on the error output: lines, and for what takes long a changing line on a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

ProgressCallback = Callable[[str], None]

LINE_SECONDS = 15.0  # between lines about one activity, where no line can change


def print_progress(text: str) -> None:
    """Print a line of progress on the error output."""
    print(text, file=sys.stderr, flush=True)


class Activity:
    """Something that takes long, as a line now and then.

    Args:
        what: for the user, in words
        progress: called with each line
        total: number of steps; None if it is not known
        silence: seconds before the first line
    """

    def __init__(self, what: str, progress: ProgressCallback, total: int | None, silence: float) -> None:
        self._what, self._progress, self._total = what, progress, total
        self._begun = time.monotonic()
        self._next = self._begun + silence

    def update(self, done: int = 0) -> None:
        """Say that it goes on. done: number of steps that are complete."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_SECONDS
            seconds = now - self._begun
            parts = [f"{done} of {self._total}"] if self._total is not None else []
            parts += [f"{seconds:.0f} s"] if seconds >= 1 else []
            self._progress(f"{self._what} ... {', '.join(parts)}".rstrip())


class ChangingLine(Activity):
    """The same on a terminal: a line that changes, and goes at the end."""

    def __init__(self, what: str, progress: ProgressCallback, total: int | None, silence: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        super().__init__(what, progress, total, silence)
        counted = () if total is None else (MofNCompleteColumn(),)
        columns = TextColumn("{task.description}"), BarColumn(20), *counted, TimeElapsedColumn()
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(what, total=total)

    def update(self, done: int = 0) -> None:
        """Say that it goes on. done: number of steps that are complete."""
        self._bar.update(self._task, completed=done)

    def __enter__(self) -> ChangingLine:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


@contextlib.contextmanager
def activity(
    what: str, progress: ProgressCallback, total: int | None = None, silence: float = LINE_SECONDS
) -> Iterator[Activity]:
    """An activity for the time of the block. Arguments as of `Activity`.

    The line changes on a terminal, if `progress` is `print_progress`: another callback may have a display of its own.
    """
    if progress is print_progress and sys.stderr.isatty():
        with ChangingLine(what, progress, total, silence) as line:
            yield line
    else:
        yield Activity(what, progress, total, silence)
