"""Accepting connections without ever being kept awake by one that can not be had."""

import contextlib
import errno
import os
import socket


class Accepting:
    """A listening socket, and a descriptor in reserve."""

    def __init__(self, listening: socket.socket) -> None:
        self.socket = listening
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def accept(self) -> socket.socket | None:
        """The next connection, non-blocking; None if there is none, or no descriptor for it."""
        try:
            connection, _ = self.socket.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._turn_away()
            return None
        connection.setblocking(False)
        return connection

    def _turn_away(self) -> None:
        """Close a connection for which there is no descriptor. If it waited on, it would keep the device awake."""
        os.close(self._spare)
        with contextlib.suppress(OSError):
            self.socket.accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Stop listening."""
        self.socket.close()
        os.close(self._spare)
