"""A rank tells `fanin run` that its failure has a cause elsewhere.

When one rank fails, the others fail as well, and often end first. The launcher can not tell from exit codes which rank
has failed by itself. So the other ranks write a line into a file of the run.
"""

import contextlib
import os

from fanin_wire.abi import Status

ENVIRONMENT_VARIABLE = "FANIN_CONSEQUENCES"
OF_OTHERS = frozenset(int(Status[name]) for name in ("PEER_LOST", "ABORTED", "TIMEOUT"))


def note(status: int) -> None:
    """Append "RANK STATUS" to the file of the run, if there is one and the status is one that others cause."""
    if status in OF_OTHERS:
        _append(Status(status).name)


def take_back() -> None:
    """Append "RANK -": the rank has joined a job, and goes on. The last line of a rank counts."""
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
