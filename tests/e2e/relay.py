"""A TCP connection through this process, which can end for one side only."""

import contextlib
import socket
import threading
import time
from typing import Self

MAX_LENGTH = 1 << 16
SLOW_S = 0.05  # longer than between two looks of the driver at its connection


class Relay:
    """Accepts one connection at `port`, and relays it to `target`, a port of this host."""

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
        with contextlib.suppress(OSError):  # no client came
            self._near, _ = self._listener.accept()
            self._far = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pass_replies, daemon=True).start()
            self._pass(self._near, self._far)

    def _pass_replies(self) -> None:
        self._pass(self._far, self._near)

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it is cut, or has ended
            while data := source.recv(MAX_LENGTH):
                target.sendall(data)

    def cut(self) -> None:
        """End the client's connection only."""
        self._near.shutdown(socket.SHUT_RDWR)

    def cut_target(self) -> None:
        """End the target's connection only."""
        self._far.shutdown(socket.SHUT_RDWR)


class OneReply(Relay):
    """Ends the client's connection with the first reply, which is slow: both are in one packet."""

    def _pass_replies(self) -> None:
        with contextlib.suppress(OSError):
            reply = self._far.recv(MAX_LENGTH)
            time.sleep(SLOW_S)
            self._near.send(reply, socket.MSG_MORE)
            self.cut()
