"""Settings from the environment, for programs that do not know Fanin."""

import os
from collections.abc import Iterable
from typing import NamedTuple, Self

from fanin.errors import InvalidRequest
from fanin.job.description import REPRODUCIBLE, ROUTES
from fanin_wire.limits import DEFAULT_JOB_SLOTS, MAX_JOB_SLOTS, MIN_JOB_SLOTS

SUBGROUP_SHARE = 4  # groups other than the first ask for a quarter, as in the MPI shim
KEPT_SECONDS = 60
MESSAGES = ("auto", "nic")
ORDERS = {"rank": "run", "arrival": "none"}  # FANIN_ORDER -> reproducible


class Settings(NamedTuple):
    """Rank 0's route, reproducible and slots hold for the job of a group."""

    report: bool = False
    strict: bool = False
    route: str = "auto"
    reproducible: str = "run"
    slots: int = DEFAULT_JOB_SLOTS
    messages: str = "auto"

    @classmethod
    def from_environment(cls) -> Self:
        """FANIN_TORCH_REPORT, _STRICT, _REPRODUCIBLE, _SLOTS, _MESSAGES, _KEEP, FANIN_ORDER and FANIN_ROUTE.
        InvalidRequest names one that is wrong."""
        kept_seconds()
        order = ORDERS[_one_of("FANIN_ORDER", "rank", ORDERS)]
        return cls(
            report=os.environ.get("FANIN_TORCH_REPORT", "0") not in ("", "0"),
            strict=os.environ.get("FANIN_TORCH_STRICT", "0") not in ("", "0"),
            route=_one_of("FANIN_ROUTE", "auto", ROUTES),
            reproducible=_one_of("FANIN_TORCH_REPRODUCIBLE", order, REPRODUCIBLE),
            slots=_slots("FANIN_TORCH_SLOTS"),
            messages=_one_of("FANIN_TORCH_MESSAGES", "auto", MESSAGES),
        )


def kept_seconds() -> int:
    """FANIN_TORCH_KEEP: seconds that the NIC of a run stays for the next one. InvalidRequest if it is no number."""
    text = os.environ.get("FANIN_TORCH_KEEP") or str(KEPT_SECONDS)
    if not text.isdecimal() or len(text) > 6:
        raise InvalidRequest(f"FANIN_TORCH_KEEP is {text!r}", remedy="Set it to a number of seconds; 0: none.")
    return int(text)


def _one_of(name: str, default: str, allowed: Iterable[str]) -> str:
    value = os.environ.get(name) or default
    if value not in allowed:
        raise InvalidRequest(f"{name} is {value!r}", remedy=f"Set it to one of {', '.join(allowed)}, or not at all.")
    return value


def _slots(name: str) -> int:
    text = os.environ.get(name) or str(DEFAULT_JOB_SLOTS)
    slots = int(text) if text.isdecimal() and len(text) <= len(str(MAX_JOB_SLOTS)) else 0
    if not MIN_JOB_SLOTS <= slots <= MAX_JOB_SLOTS or slots & (slots - 1):
        remedy = f"Set it to a power of two from {MIN_JOB_SLOTS} to {MAX_JOB_SLOTS}."
        raise InvalidRequest(f"{name} is {text!r}", remedy=remedy)
    return slots
