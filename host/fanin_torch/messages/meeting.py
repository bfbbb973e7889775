"""How two ranks meet: what they exchange in their group's store, and the socket between ranks of one host.

The lower rank listens at a name that it gives the other. Each checks that the other is of the same user.
"""

import errno
import json
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from fanin.errors import Flushed
from fanin_torch.messages.progress import LOOK_SECONDS

POLL_MIN, POLL_MAX = 0.001, 0.02  # seconds between two looks into the store while a peer has not connected
SEND_BUFFER = 1 << 20  # bytes; the system may grant less
BACKLOG = 64  # room also for strangers that try the name
CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group

Keep = Callable[[socket.socket], None]  # gets each new socket at once, so that a forked child closes its copy


class Meeting:
    """Of two ranks. is_wanted: whether the group still wants it. limit: seconds until the store is asked less often."""

    def __init__(self, store: Any, rank: int, peer: int, is_wanted: Callable[[], bool], limit: float) -> None:
        self._store, self._rank, self._peer, self._is_wanted, self._limit = store, rank, peer, is_wanted, limit

    def swap(self, what: str, mine: Any) -> Any:
        """Exchange a value with the other rank. Flushed: nobody wants it any more."""
        self._store.set(f"messages/{self._rank}/{self._peer}/{what}", json.dumps(mine))
        theirs = f"messages/{self._peer}/{self._rank}/{what}"
        self._until(lambda: self._store.check([theirs]))
        return json.loads(self._store.get(theirs))

    def by_socket(self, keep: Keep) -> socket.socket:
        """A non-blocking stream to the other rank. Raises OSError, Flushed."""
        return self._listen(keep) if self._rank < self._peer else self._connect(keep)

    def _listen(self, keep: Keep) -> socket.socket:
        name = f"\0fanin-messages-{secrets.token_hex(16)}"
        found: list[socket.socket] = []

        def accepts() -> bool:
            try:
                stranger, _ = listener.accept()
            except BlockingIOError:
                return False
            if _user(stranger) == os.geteuid():
                found.append(stranger)
            else:
                stranger.close()
            return bool(found)

        with _new_socket(keep) as listener:
            listener.bind(name.encode())
            listener.listen(BACKLOG)
            self.swap("socket", name)
            self._until(accepts)
            found[0].setblocking(False)
            found[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            keep(found[0])
        return found[0]

    def _connect(self, keep: Keep) -> socket.socket:
        name = self.swap("socket", "").encode()
        found = _new_socket(keep)

        def is_there() -> bool:
            code = found.connect_ex(name)
            if code not in (0, errno.EAGAIN):
                raise OSError(code, os.strerror(code))
            return code == 0

        self._until(is_there)
        if (user := _user(found)) != os.geteuid():
            raise PermissionError(errno.EACCES, f"user {user} has it")
        return found

    def _until(self, is_there: Callable[[], bool]) -> None:
        """Poll: a call that waits in the store would keep it from the program."""
        pause, begin = POLL_MIN, time.monotonic()
        while not is_there():
            if not self._is_wanted():
                raise Flushed("the group was left")
            time.sleep(pause)
            is_late = time.monotonic() - begin > self._limit
            pause = min(2 * pause, LOOK_SECONDS if is_late else POLL_MAX)


def _new_socket(keep: Keep) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    keep(made)
    return made


def _user(peer: socket.socket) -> int:
    """Of the process at the other end: strangers of this network can open sockets as well."""
    return int(CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))[1])
