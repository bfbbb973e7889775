"""A fake device that refuses the first request of a client over RDMA."""

import socket
import threading
from typing import Self

from fanin_nic.hostif import messages
from fanin_nic.hostif.remote.tcp import LENGTH, send_message

MAX_LENGTH = 1 << 12


class Refusing:
    """Accepts one connection at `port`, and refuses its first request with `status`."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # no client came
            return
        with connection:
            (length,) = LENGTH.unpack(connection.recv(LENGTH.size, socket.MSG_WAITALL))
            request = connection.recv(length, socket.MSG_WAITALL)
            send_message(connection, messages.refusal(messages.read_head(request), self._status))
            connection.recv(MAX_LENGTH)  # until the client has ended
