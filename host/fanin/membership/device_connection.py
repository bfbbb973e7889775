"""DeviceConnection: the connection to the node's NIC, shared by a communicator and all that are made from it."""

import os
import threading

from fanin.verbs import PD, Context


class DeviceConnection:
    """A context and its protection domain. The last user to release it closes it."""

    def __init__(self, socket: str | os.PathLike[str]) -> None:
        self.context = Context(socket)
        self.pd = PD(self.context)
        self._users = 0
        self._lock = threading.Lock()

    def take(self) -> None:
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """The last user detaches; the device then forgets this process."""
        with self._lock:
            self._users -= 1
            unused = self._users == 0
        if unused:
            self.context.abandon()
