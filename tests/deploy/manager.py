"""A service manager that keeps the notices."""

import contextlib
import socket
from collections.abc import Iterator

SECONDS = 300.0  # a device may have to compile its code first


class Manager:
    """At the socket `name`: a path, or "@" and an abstract name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self._socket.settimeout(SECONDS)

    def take(self) -> list[str]:
        """The lines of the next notice."""
        return self._socket.recv(4096).decode().split("\n")

    def wait_for(self, line: str) -> list[str]:
        """The first notice with this line, or a line that begins so."""
        while True:
            notice = self.take()
            if any(each.startswith(line) for each in notice):
                return notice

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def listening(name: str) -> Iterator[Manager]:
    manager = Manager(name)
    try:
        yield manager
    finally:
        manager.close()
