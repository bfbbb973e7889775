"""Times that programs give, in seconds."""

from typing import Any

import numpy as np

from fanin.errors import InvalidRequest

MAX_TIMEOUT = 1e12  # seconds; some 30,000 years
NUMBERS = (int, float, np.integer, np.floating)


def require_seconds(timeout: Any, *, unlimited: bool = True) -> None:
    """InvalidRequest unless `timeout` is a number from 0 on, or None where it may be `unlimited`."""
    if timeout is None and unlimited:
        return
    if isinstance(timeout, NUMBERS) and 0 <= timeout <= MAX_TIMEOUT:
        return
    otherwise = ", or None for no limit" if unlimited else ""
    raise InvalidRequest(
        f"timeout {timeout!r} is not a time to wait", remedy=f"Give seconds, a number from 0 on{otherwise}."
    )
