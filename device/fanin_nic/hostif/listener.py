"""The UNIX socket at which clients find the device."""

import contextlib
import errno
import os
import socket
import stat
import struct
from pathlib import Path

BACKLOG = 64
OWNER_ONLY = 0o600
PEER_PIDFD = 77  # SO_PEERPIDFD, since Linux 6.5


class Acceptor:
    """A listening socket. A connection that gets no descriptor must not keep the device awake: a spare one serves to
    turn it away."""

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
        """Close a connection that gets no descriptor."""
        os.close(self._spare)
        with contextlib.suppress(OSError):
            self.socket.accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        self.socket.close()
        os.close(self._spare)


class Listener(Acceptor):
    """Listens at `path`, in place of a dead device's socket. Raises SocketInUse, also if that device is alive."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            _remove_stale(self.path)
            listening.bind(str(self.path))
            os.chmod(self.path, OWNER_ONLY)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
        super().__init__(listening)
        self._inode = os.stat(self.path).st_ino

    def close(self) -> None:
        """Stop listening and remove the socket, unless another one has replaced it."""
        super().close()
        try:
            if os.stat(self.path).st_ino == self._inode:
                self.path.unlink()
        except FileNotFoundError:
            return


class SocketInUse(RuntimeError):
    """Another device answers at the path, or it is not a socket."""


def _remove_stale(path: Path) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketInUse(f"{path} exists and is not a socket: remove it, or give the device another path")
    if _answers(path):
        raise SocketInUse(f"another device listens at {path}: end it, or give this one another path")
    path.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # its backlog is full
        except OSError:
            return False
        return True


def process_of(connection: socket.socket) -> int | None:
    """Descriptor of the peer's process, readable once that has ended. None: its PID namespace is not visible here, or
    the kernel has no such descriptors."""
    with contextlib.suppress(OSError):
        return connection.getsockopt(socket.SOL_SOCKET, PEER_PIDFD)
    with contextlib.suppress(OSError):
        return os.pidfd_open(_credentials(connection)[0])
    return None


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    """PID, user and group of the peer."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", found)
    return pid, uid, gid


def peer_is_trusted(connection: socket.socket) -> bool:
    """Whether the peer runs as our user or as root."""
    return _credentials(connection)[1] in (0, os.geteuid())
