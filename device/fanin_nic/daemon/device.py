"""One running device: parts, loop, sleep."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
from typing import NamedTuple

import numpy as np

from fanin_nic.daemon import lane as lanes
from fanin_nic.daemon.host_port import HostPort
from fanin_nic.daemon.status import DeviceStatus
from fanin_nic.daemon.warm import warm
from fanin_nic.engine.actions import ACTION
from fanin_nic.engine.control.membership import BUFFER_OVERHEAD
from fanin_nic.engine.engine import Engine, Limits
from fanin_nic.engine.transfer.read import READ_BYTES
from fanin_nic.hostif import messages
from fanin_nic.hostif.client import DeviceLimits
from fanin_nic.hostif.server import ControlServer
from fanin_nic.port.sockets import UdpPort
from fanin_wire import abi, fields

log = logging.getLogger(__name__)

SMALLEST_CHUNK, LARGEST_CHUNK = 256, 8192


class Settings(NamedTuple):
    """What a device is started with."""

    name: str
    address: str
    socket: str
    is_switch: bool
    mtu: int = 9000
    slots: int = 4096
    receive_buffer: int | None = None


def largest_chunk(mtu: int) -> int:
    """The largest power of two whose packets fit the path MTU, between 256 and 8192 bytes."""
    room = mtu - fields.IPV4_UDP_SIZE - fields.TRANSPORT_SIZE - fields.ICRC_SIZE
    chunk = SMALLEST_CHUNK
    while chunk * 2 <= min(room, LARGEST_CHUNK):
        chunk *= 2
    return chunk


class Device:
    """A NIC or a switch. `run` serves until `stop` is called (from a signal handler)."""

    def __init__(self, settings: Settings) -> None:
        self._stopping = False
        self._wake, self.wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.port = UdpPort(settings.address, settings.mtu, receive_buffer=settings.receive_buffer)
        warm()
        max_chunk = largest_chunk(settings.mtu)
        segments = self.port.receive_buffer_bytes // (max_chunk + BUFFER_OVERHEAD)
        limits = Limits(slots=settings.slots, max_chunk=max_chunk, receive_segments=max(1, segments))
        self.engine = Engine(
            settings.address, is_switch=settings.is_switch, boot_id=secrets.randbits(63) + 1, limits=limits
        )
        self.host = HostPort(self.engine)
        self._lane = np.zeros(1, lanes.LANE)
        self._staging = np.zeros(READ_BYTES, np.uint8)
        self._notices = np.zeros(lanes.MAX_NOTICES, ACTION)
        self._reads = np.zeros(limits.queues * abi.MAX_ADDRESSES, ACTION)
        status = DeviceStatus(settings.name, self.engine, self.port, self._lane)
        offer = DeviceLimits(max_chunk, settings.slots, int(ipaddress.IPv4Address(settings.address)))
        self.server = ControlServer(
            settings.socket, status, None if settings.is_switch else self.host, None if settings.is_switch else offer
        )
        self._fill_lane()

    def _fill_lane(self) -> None:
        record = self._lane[0]
        record["engine"], record["port"] = self.engine.base, self.port.state
        record["send_rings"] = self.host.send_rings.ctypes.data
        record["completion_rings"] = self.host.completion_rings.ctypes.data
        record["memory_fds"] = self.host.memory_fds.ctypes.data
        record["staging"] = self._staging.ctypes.data
        record["reads"] = self._reads.ctypes.data
        record["write_failed"] = self.host.write_failed.ctypes.data
        record["notices"] = self._notices.ctypes.data
        record["control_fd"], record["receive_fd"] = self.server.fileno(), self.port.receive_fd
        record["wake_fd"] = self._wake

    def run(self) -> None:
        """Serve until `stop`."""
        while not self._stopping:
            self._show_clients()
            lanes.run(self._lane.ctypes.data)
            self._give_notice()  # before `service`, which may give a queue to another client
            self.server.service()

    def stop(self) -> None:
        """Leave `run`. From a signal handler: the signal must also write to `wake_writer` (signal.set_wakeup_fd), since
        Python runs the handler only when the compiled loop has returned."""
        self._stopping = True

    def close(self) -> None:
        """Detach the clients and give the sockets back."""
        self.server.close()
        self.port.close()
        os.close(self._wake)
        os.close(self.wake_writer)

    def _show_clients(self) -> None:
        """The queues and doorbells as they are now, for the compiled loop."""
        record, doorbells = self._lane[0], self.server.doorbells
        record["queues"] = self.host.queues_in_use
        record["doorbells"], record["doorbell_count"] = doorbells.ctypes.data, len(doorbells)

    def _give_notice(self) -> None:
        """Answers to JOIN and LEAVE, to the clients that wait for them."""
        count = int(self._lane[0]["notice_count"])
        self._lane[0]["notice_count"] = 0
        for notice in self._notices[:count]:
            queue = self.engine.tables["queues"][notice["queue"]]
            if queue["active"]:
                self.server.notice(int(queue["client"]), _reply(notice))


def _reply(notice: np.void) -> bytes:
    tag, status = int(notice["wr_id"]), int(notice["status"])
    if notice["opcode"] == abi.MessageType["LEAVE"]:
        return messages.leave_reply(tag, status)
    return messages.join_reply(
        tag,
        status,
        slots=int(notice["byte_length"]),
        window=int(notice["window"]),
        chunk=int(notice["length"]),
        missing=int(notice["missing"]),
        missing_kind=int(notice["missing_kind"]),
    )
