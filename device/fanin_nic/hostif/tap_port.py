"""What the control server needs of whoever records what the device does."""

from typing import Any, Protocol

import numpy as np


class TapPort(Protocol):
    """A tap of the device (fanin_wire/tap.py). One at a time is open."""

    def begin(self, request: np.void) -> int:
        """Open it as a checked request (abi.TAP) wants; the descriptor of its rings, which stays the tap's. Raises
        OSError if there is no memory for them."""

    def description(self) -> dict[str, Any]:
        """What a reader must know of the device, as it goes out as JSON."""

    def end(self) -> None:
        """Close it."""
