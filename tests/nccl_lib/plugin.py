"""The plugin as NCCL loads it: the functions of one version, by the order of that version's header."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

from fanin.nccl_lib import library_path

VERSIONS = (8, 9, 10, 11, 12)
HANDLE_BYTES = 128
SUCCESS, SYSTEM_ERROR, REMOTE_ERROR = 0, 2, 6
WITH_CONTEXT = 11  # from this version on, init makes a context, and listen and connect take it
POINTER, INT, SIZE, LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
OUT = ctypes.POINTER(ctypes.c_void_p)
LOGGER = ctypes.CFUNCTYPE(None, INT, ctypes.c_ulong, ctypes.c_char_p, INT, ctypes.c_char_p, ctypes.c_char_p)

NET = [
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "accept",
    "regMr",
    "regMrDmaBuf",
    "deregMr",
    "isend",
    "irecv",
    "iflush",
    "test",
    "closeSend",
    "closeRecv",
    "closeListen",
    "getDeviceMr",
    "irecvConsumed",
]
COLLNET = [
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "reduceSupport",
    "regMr",
    "regMrDmaBuf",
    "deregMr",
    "iallreduce",
    "iallgather",
    "ireducescatter",
    "iflush",
    "test",
    "closeColl",
    "closeListen",
]
ADDED = {9: ["makeVDevice"], 10: [], 11: ["finalize"], 12: []}  # to both
ADDED_TO_NET = {11: ["setNetAttr"]}


def entries(kind: str, version: int) -> list[str]:
    """The names of the functions of a version of `ncclNet` or `ncclCollNet`, in their order."""
    names = list(NET if kind == "ncclNet" else COLLNET)
    for later in range(9, version + 1):
        names += ADDED[later] + (ADDED_TO_NET.get(later, []) if kind == "ncclNet" else [])
    return names


class Refused(Exception):
    """A call has returned another result than success."""

    def __init__(self, name: str, result: int, said: str) -> None:
        super().__init__(f"{name} returned {result}: {said}")
        self.result = result


class Piece(ctypes.Structure):
    """ncclNetSGE_v9_t."""

    _fields_ = (("registration", POINTER), ("address", POINTER), ("bytes", SIZE))


class Piece8(ctypes.Structure):
    """ncclNetSGE_v8_t."""

    _fields_ = (("registration", POINTER), ("address", POINTER), ("bytes", ctypes.c_uint32))


class Interface:
    """`ncclNet` or `ncclCollNet` of a version. Calls raise Refused where NCCL would see an error. log: its lines."""

    def __init__(self, kind: str, version: int) -> None:
        self.kind, self.version, self.log = kind, version, list[str]()
        self._library = ctypes.CDLL(os.environ.get("FANIN_TEST_NCCL_LIBRARY") or str(library_path()))
        names = entries(kind, version)
        table = (POINTER * (1 + len(names))).in_dll(self._library, f"{kind}Plugin_v{version}")
        self.name = ctypes.cast(table[0], ctypes.c_char_p).value
        self.addresses = dict(zip(names, table[1:], strict=True))
        self._logger = LOGGER(self._take_line)
        self._context = POINTER()
        self._init()

    def _take_line(self, level: int, _subsystems: int, _file: bytes, _line: int, _format: bytes, text: bytes) -> None:
        self.log.append(f"{level} {text.decode()}")

    def _init(self) -> None:
        logger = ctypes.cast(self._logger, POINTER)
        before: list[Any] = [ctypes.byref(self._context), LONG(7)] if self.version >= WITH_CONTEXT else []
        if self.kind == "ncclNet":
            config = [POINTER()] if self.version >= WITH_CONTEXT else []
            after = [POINTER()] if self.version >= 10 else []
            self.call("init", *before, *config, logger, *after)
        else:
            self.call("init", *before, logger)

    def call(self, name: str, *arguments: Any) -> None:
        """One call. Arguments are ctypes objects."""
        function: Callable[..., int] = ctypes.CFUNCTYPE(INT)(self.addresses[name] or 0)
        if not self.addresses[name]:
            raise Refused(name, -1, "this version has it not")
        result = function(*arguments)
        if result != SUCCESS:
            raise Refused(name, result, self.log[-1] if self.log else "")

    def context(self) -> list[Any]:
        """The first argument of listen and connect, where the version has it."""
        return [self._context] if self.version >= WITH_CONTEXT else []

    def devices(self) -> int:
        """How many there are."""
        count = INT()
        self.call("devices", ctypes.byref(count))
        return count.value

    def listen(self, device: int = 0) -> tuple[bytes, ctypes.c_void_p]:
        """A handle, and the listener."""
        handle, listener = ctypes.create_string_buffer(HANDLE_BYTES), POINTER()
        self.call("listen", *self.context(), INT(device), handle, ctypes.byref(listener))
        return handle.raw, listener

    def test(self, request: ctypes.c_void_p) -> int | None:
        """The bytes of a request that is done; None: it is under way."""
        done, size = INT(), INT(-1)
        self.call("test", request, ctypes.byref(done), ctypes.byref(size))
        return size.value if done.value else None

    def wait(self, request: ctypes.c_void_p) -> int:
        """Until it is done, as NCCL's proxy thread does: again and again, with a yield in between."""
        while (size := self.test(request)) is None:
            os.sched_yield()
        return size
