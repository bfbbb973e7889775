"""The other rank of a test, in a thread of its own."""

from __future__ import annotations

import queue
import threading
from typing import Any

import numpy as np
import pytest

from fanin import Communicator, errors
from tests.host.waiting import BOUND_S


class Partner:
    """The other rank: it comes late to what is not a rehearsal."""

    def __init__(self, forms: list[str]) -> None:
        self._forms = forms
        self._rehearse: queue.Queue[bool] = queue.Queue()  # once more?
        self._done: queue.Queue[bool] = queue.Queue()

    def late(self, communicator: Communicator, event: threading.Event) -> None:
        """Two calls, with 2 and 3."""
        self._wait(communicator, event)
        for number in (2, 3):
            communicator.allreduce(np.full(4, float(number)))

    def leave(self, communicator: Communicator, event: threading.Event) -> None:
        """It ends the job."""
        self._wait(communicator, event)
        communicator.abort()

    def bereft(self, communicator: Communicator, event: threading.Event) -> None:
        """One call, for which it is alone."""
        self._wait(communicator, event)
        with pytest.raises(errors.PeerLost):
            communicator.allreduce(np.ones(4))

    def _wait(self, communicator: Communicator, event: threading.Event) -> None:
        array = np.zeros(4)
        while self._rehearse.get(timeout=BOUND_S):
            communicator.allreduce(array)
            self._done.put(True)
        event.wait(BOUND_S)

    def meet(self, communicator: Communicator, array: np.ndarray, **out: Any) -> None:
        """Rehearse until the next allreduce with these arguments is the driver core's alone. The other rank is in this
        process, and registers memory of its own meanwhile."""
        for _ in range(10):
            self._rehearse.put(True)
            communicator.allreduce(array, **out)
            self._done.get(timeout=BOUND_S)
            known = communicator.direct.last
            if known is not None and known._spare and known.version == known._regions.version:
                break
        self._rehearse.put(False)
        self._forms.clear()
