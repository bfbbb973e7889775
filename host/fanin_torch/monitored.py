"""The monitored barrier: rank 0 names the ranks that have not come in time.

It uses the group's store, so the group survives its failure; a collective of the devices that times out ends its job.
Its texts begin as Gloo's do, since programs look for those.
"""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch.distributed import DistStoreError

from fanin.errors import Timeout
from fanin_torch.errors import as_torch

GRACE = 1.0  # seconds more for rank 0 to say who is missing


class MonitoredBarrier:
    """Of one group. global_ranks: the names of its ranks in messages."""

    def __init__(self, store: Any, rank: int, global_ranks: Sequence[int]) -> None:
        self._store, self._rank, self._names = store, rank, global_ranks
        self._number = 0

    def wait(self, seconds: float, wait_all_ranks: bool) -> None:
        """Wait until all have come. wait_all_ranks: rank 0 names all missing ranks, not only the first."""
        self._number += 1
        prefix = f"monitored/{self._number}"
        if self._rank:
            self._store.set(f"{prefix}/{self._rank}", "here")
            self._follow(prefix, seconds)
        else:
            self._lead(prefix, seconds, wait_all_ranks)

    def _follow(self, prefix: str, seconds: float) -> None:
        answer = self._read(f"{prefix}/answer", seconds + GRACE)
        if answer == "go":
            return
        here, leader = f"Rank {self._names[self._rank]} successfully reached monitoredBarrier", f"rank {self._names[0]}"
        why = answer or f"{leader} has not come in {seconds:g} s"
        raise as_torch(Timeout(f"{here}, but received errors while waiting for send/recv from {leader}: {why}"))

    def _lead(self, prefix: str, seconds: float, wait_all_ranks: bool) -> None:
        if seconds == 0:
            raise as_torch(Timeout(f"Rank {self._names[0]} timed out in monitoredBarrier after 0 ms"))
        end, missing = time.monotonic() + seconds, []
        for rank in range(1, len(self._names)):
            if self._read(f"{prefix}/{rank}", max(0.001, end - time.monotonic())) is None:
                missing.append(self._names[rank])
                if not wait_all_ranks:
                    break
        if not missing:
            self._store.set(f"{prefix}/answer", "go")
            return
        milliseconds = round(seconds * 1000)
        who = ", ".join(map(str, missing))
        text = f"[Rank {self._names[0]}]: Ranks {who} failed to pass monitoredBarrier in {milliseconds} ms"
        if not wait_all_ranks:
            text = f"Rank {missing[0]} failed to pass monitoredBarrier in {milliseconds} ms"
        self._store.set(f"{prefix}/answer", text)
        raise as_torch(Timeout(text))

    def _read(self, key: str, seconds: float) -> str | None:
        """The value of a key; None if it is missing after `seconds`."""
        try:
            self._store.wait([key], timedelta(seconds=seconds))
        except RuntimeError as error:  # each kind of store has an error of its own
            if "timeout" not in str(error).lower() and not isinstance(error, DistStoreError):
                raise
            return None
        return self._store.get(key).decode()
