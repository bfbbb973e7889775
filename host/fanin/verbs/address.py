"""Address: one entry of a collective's address list."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """Where a rank's data lies and where its result goes: virtual addresses of this process."""

    source: int
    destination: int
