"""Tells `fanin run` that a rank's failure has its cause elsewhere.

When one rank fails the others fail too, and often end first, so exit codes do not show which one failed by itself. The
others write a line into a file of the run.
"""

import contextlib
import os

from fanin_wire.abi import Status

ENVIRONMENT_VARIABLE = "FANIN_CONSEQUENCES"
OF_OTHERS = frozenset(int(Status[name]) for name in ("PEER_LOST", "ABORTED", "TIMEOUT"))


def note(status: int) -> None:
    """Append "RANK STATUS" to the run's file, if there is one and another rank can cause the status."""
    if status in OF_OTHERS:
        _append(Status(status).name)


def take_back() -> None:
    """Append "RANK -": the rank has joined a job and goes on. A rank's last line counts."""
    _append("-")


def _append(word: str) -> None:
    path, rank = os.environ.get(ENVIRONMENT_VARIABLE), os.environ.get("FANIN_RANK")
    if path is None or rank is None:
        return
    with contextlib.suppress(OSError):  # the run is over
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"{rank} {word}\n".encode())
        finally:
            os.close(descriptor)
