"""A service manager that keeps what it is told."""

import contextlib
import socket
from collections.abc import Iterator

SECONDS = 300.0  # a device whose code is not in the cache compiles it first


class Manager:
    """The socket `name`: a path, or "@" and an abstract name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self._socket.settimeout(SECONDS)

    def take(self) -> list[str]:
        """The lines of the next notice."""
        return self._socket.recv(4096).decode().split("\n")

    def wait_for(self, line: str) -> list[str]:
        """The first notice with a line, or whose line begins so."""
        while True:
            notice = self.take()
            if any(each.startswith(line) for each in notice):
                return notice

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


@contextlib.contextmanager
def listening(name: str) -> Iterator[Manager]:
    """A manager for the time of the block."""
    manager = Manager(name)
    try:
        yield manager
    finally:
        manager.close()
