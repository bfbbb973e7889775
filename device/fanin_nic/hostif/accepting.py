"""Accepting connections: one without a descriptor must not keep the device awake."""

import contextlib
import errno
import os
import socket


class Accepting:
    """A listening socket, and a spare descriptor."""

    def __init__(self, listening: socket.socket) -> None:
        self.socket = listening
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def accept(self) -> socket.socket | None:
        """The next connection, non-blocking; None if none has come, or it gets no descriptor."""
        try:
            connection, _ = self.socket.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._turn_away()
            return None
        connection.setblocking(False)
        return connection

    def _turn_away(self) -> None:
        """Close a connection that gets no descriptor. If it waited on, it would keep the device awake."""
        os.close(self._spare)
        with contextlib.suppress(OSError):
            self.socket.accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        self.socket.close()
        os.close(self._spare)
