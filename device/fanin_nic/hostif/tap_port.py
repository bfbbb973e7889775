"""The control server's interface to the recorder of the device."""

from typing import Any, Protocol

import numpy as np


class TapPort(Protocol):
    """A tap of the device (fanin_wire/tap.py); one at a time is open."""

    def begin(self, request: np.void) -> int:
        """Open it for a checked request (abi.TAP); returns its rings' descriptor, which it keeps. OSError: no
        memory."""

    def description(self) -> dict[str, Any]:
        """What a reader must know of the device, for JSON."""

    def end(self) -> None:
        """Close it."""
