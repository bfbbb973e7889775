"""A TCP connection by way of this process, which ends for one side only."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

LONGEST = 1 << 16


class Relay:
    """Accepts one connection at `port`, and passes it on to `target`, a port of this host.

    When `cut`, it has ended for who has connected, and not for the other side.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._near = self._far = self._listener
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for end in (self._listener, self._near, self._far):
            with contextlib.suppress(OSError):  # it has ended
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # nobody came
            self._near, _ = self._listener.accept()
            self._far = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pass, args=(self._far, self._near), daemon=True).start()
            self._pass(self._near, self._far)

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is cut, or has ended
            while data := source.recv(LONGEST):
                target.sendall(data)

    def cut(self) -> None:
        """End the connection for who has connected."""
        self._near.shutdown(socket.SHUT_RDWR)
