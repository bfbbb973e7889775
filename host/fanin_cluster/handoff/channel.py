"""Messages between the processes of a hand-off: lines of JSON over a connection."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any

from fanin_cluster.errors import ClusterError

MAX_LINE = 1 << 20
OTHER_NODE = "the other node"


class HandoffFailed(ClusterError):
    """A transfer that ended without its data."""


class Lines:
    """Messages over a connection, each a line of JSON. `other` names the other end in errors."""

    def __init__(self, channel: socket.socket, other: str = OTHER_NODE) -> None:
        self.file = channel.makefile("rwb")
        self.other = other

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *reason: object) -> None:
        with contextlib.suppress(OSError):
            self.file.close()

    def put(self, message: Mapping[str, Any]) -> None:
        try:
            self.file.write(json.dumps(message).encode() + b"\n")
            self.file.flush()
        except OSError as error:
            raise broken(str(error), self.other) from None

    def take(self, *names: str) -> dict[str, Any]:
        """The next message. Raises HandoffFailed if it has none of the names, or if none comes."""
        try:
            line = self.file.readline(MAX_LINE)
            message = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            raise broken(str(error), self.other) from None
        if message is None:
            raise broken("it has closed the connection", self.other)
        if not isinstance(message, dict) or not message.keys() & set(names):
            raise broken(f"it has said {line[:80]!r} and not {' or '.join(names)}", self.other)
        return message


def broken(how: str, other: str = OTHER_NODE) -> HandoffFailed:
    """The error of a connection whose other end has failed."""
    return HandoffFailed(f"{other} has stopped: {how}", f"see the error of {other}")
