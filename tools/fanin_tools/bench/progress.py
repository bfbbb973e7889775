"""The progress of a measurement: a bar on a terminal, else some lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from fanin_tools.progress import ProgressCallback


class Steps:
    """A known number of steps, shown between measurements, never during one."""

    def __init__(self, count: int, progress: ProgressCallback) -> None:
        self._count, self._done = count, 0
        self._progress = progress
        self._shown = ""

    def note(self, text: str) -> None:
        self._progress(text)

    def next(self, text: str) -> None:
        self._done += 1
        subject = text.partition(":")[0]
        if subject != self._shown:  # one line for a size, not for each turn
            self._shown = subject
            self._progress(f"[{self._done:4} of {self._count}] {subject}")


class Bar(Steps):
    def __init__(self, count: int, progress: ProgressCallback) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        super().__init__(count, progress)
        texts = TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn(), TextColumn("{task.description}")
        self._bar = Progress(BarColumn(), *texts, console=Console(stderr=True), auto_refresh=False, transient=True)
        self._task = self._bar.add_task("", total=count)

    def note(self, text: str) -> None:
        self._bar.console.print(text)

    def next(self, text: str) -> None:
        self._bar.update(self._task, completed=self._done, description=text, refresh=True)
        self._done += 1

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


@contextlib.contextmanager
def steps_of(count: int, progress: ProgressCallback) -> Iterator[Steps]:
    """A bar if the error output is a terminal, else lines."""
    if sys.stderr.isatty():
        with Bar(count, progress) as bar:
            yield bar
    else:
        yield Steps(count, progress)
