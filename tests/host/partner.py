"""The other rank of a test, in a thread of its own."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.busy import busy
from tests.host.waiting import BOUND_S


class Partner:
    """The other rank: what it does third comes late."""

    def __init__(self, forms: list[str]) -> None:
        self._forms, self._is_there = forms, threading.Event()

    def late(self, communicator: Communicator, event: threading.Event) -> None:
        """Four calls."""
        array = np.ones(4)
        for number in range(4):
            if number == 2:
                self._wait(event)
            array[:] = number
            communicator.allreduce(array)

    def leave(self, communicator: Communicator, event: threading.Event) -> None:
        """Two calls, then it ends the job."""
        for _ in range(2):
            communicator.allreduce(np.ones(4))
        self._wait(event)
        communicator.abort()

    def bereft(self, communicator: Communicator, event: threading.Event) -> None:
        """Two calls, and one for which it is alone."""
        for _ in range(2):
            communicator.allreduce(np.ones(4))
        self._wait(event)
        with pytest.raises(errors.PeerLost):
            communicator.allreduce(np.ones(4))

    def _wait(self, event: threading.Event) -> None:
        self._is_there.set()
        event.wait(BOUND_S)

    def meet(self, communicator: Communicator, array: np.ndarray, **out: Any) -> None:
        """The next allreduce with these arguments is the driver core's alone: nothing else of this process is under
        way, which the other rank is in, too."""
        for _ in range(2):
            communicator.allreduce(array, **out)
        assert self._is_there.wait(BOUND_S)
        assert not busy
        self._forms.clear()
