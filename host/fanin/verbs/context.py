"""Context: the connection of this process to one device."""

import json
import os
import weakref
from typing import Any, NamedTuple

from fanin.driver import because, check, ffi, library
from fanin.errors import InvalidRequest
from fanin.verbs.gid import GID
from fanin.verbs.resource import Resource, columns
from fanin_wire import abi
from fanin_wire.abi import Status

DOMAINS = 1 << 16
MAX_STATUS_BYTES = 192 * 1024
NO_ROOM = "Correct what the log of the device names, or end other clients of it."


class DeviceAttributes(NamedTuple):
    """The limits of the device for this client."""

    max_qp: int
    max_cq: int
    max_chunk: int  # bytes: the largest payload of a segment
    slots: int  # seg buffers of the device
    address: int  # IPv4, host order; 0: none
    max_ordinary_qp: int  # queue pairs of ordinary traffic
    path_mtu: int  # bytes: the largest of ordinary traffic
    max_shared_queues: int  # shared receive queues of ordinary traffic
    mtu: int  # bytes: the largest IP packet that the device sends


class Context(Resource):
    """Attach to the device whose control socket is at `socket_path`, or that RDMA reaches at rdma://ADDRESS:PORT.

    Raises NoDevice, PermissionDenied, NoResources (too many clients), VersionMismatch or Timeout (no answer). In a
    forked child every context is closed: memory and queues belong to the parent.
    """

    def __init__(self, socket_path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.socket_path = os.fspath(socket_path)
        self.handle = ffi.gc(_connect(self.socket_path), library().fanin_close)
        limits = ffi.new("struct fanin_attach_reply *")
        status = library().fanin_attach(self.handle, limits)
        if status:
            detail = f"this process can not attach to the device at {self.socket_path}"
            detail += _versions(status, self.handle) + because()
            self.close()
            check(status, detail, NO_RESOURCES=NO_ROOM)
        self._attributes = DeviceAttributes(*(getattr(limits, name) for name in DeviceAttributes._fields))
        self._domains = 0
        _contexts.add(self)

    def query_device(self) -> DeviceAttributes:
        return self._attributes

    def query_gid(self, port_num: int = 1, index: int = 0) -> GID:
        """The device's GID: its IPv4 address, mapped."""
        if (port_num, index) != (1, 0):
            raise InvalidRequest(
                f"there is no GID {index} of port {port_num}", remedy="A device has port 1 with GID 0."
            )
        return GID.of_ipv4(self._attributes.address)

    def new_domain(self) -> int:
        self._domains = (self._domains + 1) % DOMAINS
        return self._domains

    def status(self) -> dict[str, Any]:
        """The device's status: jobs, slots, links, counters (the STATUS reply of the control socket)."""
        self.require_open()
        return _read_status(self.handle, self.socket_path)

    @property
    def device_stands_still(self) -> bool:
        """Whether the device was lost because it stopped running. It may go on later, and write then."""
        return bool(library().fanin_device_stands_still(self.handle))

    def _release(self) -> None:
        ffi.release(self.handle)
        self.handle = ffi.NULL

    def abandon(self) -> None:
        """Close the connection, and mark all that was made from it as closed, without asking the device."""
        if not self.closed:
            super().abandon()
            self._release()

    def forget(self) -> None:
        """Drop a connection that belongs to the parent process."""
        if not self.closed:
            super().abandon()
            ffi.gc(self.handle, None)
            library().fanin_close_inherited(self.handle)
            self.handle = ffi.NULL

    def require_open(self) -> None:
        if self.closed:
            remedy = "Make a new one; a forked child needs its own."
            raise InvalidRequest(f"the context of {self.socket_path} is closed", remedy=remedy)

    def __str__(self) -> str:
        return columns(socket=self.socket_path, **self._attributes._asdict())


def device_status(socket_path: str | os.PathLike[str]) -> dict[str, Any]:
    """Status of a device (NIC or switch) without attaching to it."""
    handle = _connect(os.fspath(socket_path))
    try:
        return _read_status(handle, os.fspath(socket_path))
    finally:
        library().fanin_close(handle)


def _connect(socket_path: str) -> Any:
    handle = ffi.new("struct fanin_context **")
    status = library().fanin_connect(os.fsencode(socket_path), handle)
    if status:
        check(status, f"can not connect to {socket_path}{because()}")
    return handle[0]


def _read_status(handle: Any, socket_path: str) -> dict[str, Any]:
    text = ffi.new("char[]", MAX_STATUS_BYTES)
    length = ffi.new("size_t *")
    status = library().fanin_read_status(handle, text, MAX_STATUS_BYTES, length)
    if status:
        check(status, f"no status from {socket_path}{_versions(status, handle)}")
    return json.loads(bytes(ffi.buffer(text, length[0])))


def _versions(status: int, handle: Any) -> str:
    """Both versions of the host interface, after a colon, if they differ; else ""."""
    device = library().fanin_device_version(handle)
    if status != Status.VERSION_MISMATCH or device == abi.ABI_VERSION:
        return ""
    return f": it speaks version {device} of the host interface, this program version {abi.ABI_VERSION}"


_contexts: weakref.WeakSet[Context] = weakref.WeakSet()


def _forget_all() -> None:
    for context in list(_contexts):
        context.forget()


os.register_at_fork(after_in_child=_forget_all)
