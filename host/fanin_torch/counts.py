"""What the devices did for a group, and what they did not, by reason."""

import threading
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from fanin.errors import NotSupported

ALLOWED_IN_STRICT = ("ONE_RANK", "SAME_HOST")


class Reason(StrEnum):
    ONE_RANK = "ONE_RANK"  # the group has one rank: nothing is to be sent
    SAME_HOST = "SAME_HOST"  # a message between ranks of one host goes through a socket
    SPARSE = "SPARSE"  # the devices bring sparse tensors together, and the host adds them
    MONITORED = "MONITORED"  # a monitored barrier goes through the store, so that the group survives it


class Copy(StrEnum):
    """Why the host copies for an offloaded call, or a device reaches its tensors by system calls."""

    ORDINARY_MEMORY = "ORDINARY_MEMORY"  # a tensor is not in registered memory
    NOT_CONTIGUOUS = "NOT_CONTIGUOUS"  # the elements of a tensor do not lie one after the other
    PARTS = "PARTS"  # the tensors that make up an input or output do not
    OVERLAP = "OVERLAP"  # an output lies over an input, and not in place


class Counts:
    """Counts of one group's calls. strict: a call that is not offloaded is an error."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.offloaded: Counter[str] = Counter()
        self.not_offloaded: Counter[str] = Counter()
        self.copied: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, name: str) -> None:
        """Count an offloaded call."""
        with self._lock:
            self.offloaded[name] += 1

    def note_copies(self, reasons: Iterable[Copy]) -> None:
        """Count one call, once for each reason."""
        with self._lock:
            self.copied.update(reasons)

    def miss(self, name: str, reason: Reason, detail: str = "") -> None:
        """Count a call that is not offloaded. NotSupported if that is an error."""
        with self._lock:
            self.not_offloaded[reason] += 1
        if self.strict and reason not in ALLOWED_IN_STRICT:
            remedy = "Change the call, or unset FANIN_TORCH_STRICT to let the host do it."
            raise NotSupported(f"{name} is not offloaded ({reason}){detail}", remedy=remedy, reason=reason)

    def report(self, group: str) -> str:
        rows = [f"fanin: calls of group {group} on rank 0: offloaded"]
        rows += [f"fanin: {name:24}{count:10}" for name, count in sorted(self.offloaded.items())]
        rows += [f"fanin: not offloaded: {reason} {count}" for reason, count in sorted(self.not_offloaded.items())]
        rows += [f"fanin: copied: {reason} {count}" for reason, count in sorted(self.copied.items())]
        return "\n".join(rows)
