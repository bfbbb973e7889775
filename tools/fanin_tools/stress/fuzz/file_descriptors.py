"""File descriptors of every kind that a client can pass to a device."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Callable, Iterator

PAGE = 4096


def memfd(seals: int = fcntl.F_SEAL_SHRINK, length: int = 4 * PAGE, flags: int = 0) -> int:
    """With seals. flags: of memfd_create(2)."""
    made = os.memfd_create("fanin-hostile", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
    with contextlib.suppress(OSError):  # the machine may have no huge pages
        os.ftruncate(made, length)
    fcntl.fcntl(made, fcntl.F_ADD_SEALS, seals)
    return made


def path(name: str, flags: int = os.O_RDWR) -> Callable[[], int]:
    """A function that opens the file `name`."""
    return lambda: os.open(name, flags | os.O_CLOEXEC)


def pipe_end() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


KINDS: dict[str, Callable[[], int]] = {
    "sealed": memfd,
    "unsealed": lambda: memfd(seals=0),
    "read-only": lambda: memfd(seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE),
    "empty": lambda: memfd(length=0),
    "huge pages": lambda: memfd(flags=os.MFD_HUGETLB, length=2 << 20),
    "process memory": path("/proc/self/mem"),
    "memory to look at": path("/proc/self/mem", os.O_RDONLY),
    "bare path": path("/proc/self/mem", os.O_PATH),
    "zeros": path("/dev/zero"),
    "nothing": path("/dev/null"),
    "folder": path("/", os.O_RDONLY | os.O_DIRECTORY),
    "score": path("/proc/self/oom_score_adj"),
    "pipe": pipe_end,
    "socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).detach(),
    "event": lambda: os.eventfd(0),
}


@contextlib.contextmanager
def opened(kinds: list[str]) -> Iterator[list[int]]:
    """Open descriptors of these kinds for the time of the block, without kinds that this machine lacks."""
    made: list[int] = []
    try:
        for kind in kinds:
            with contextlib.suppress(OSError):
                made.append(KINDS[kind]())
        yield made
    finally:
        for descriptor in made:
            os.close(descriptor)
