"""The port over a verbs device as an object of Python."""

from __future__ import annotations

import contextlib
import ipaddress

import numpy as np

from fanin_nic.engine.records.tables import BUFFER_OVERHEAD
from fanin_nic.port.port import FIRST_SOURCE_PORT, Port, PortError
from fanin_nic.port.tables import PortTables
from fanin_nic.port.verbs.opening import VerbsFailed
from fanin_nic.port.verbs.queue_pair import QueuePair
from fanin_nic.port.verbs.records import RECEIVE_BATCH
from fanin_nic.port.verbs.resolver import Resolver
from fanin_wire.fields import IPV4_UDP_SIZE
from fanin_wire.limits import MAX_VERBS_MTU, MIN_CHUNK, MIN_MTU

DEFAULT_RECEIVE_BUFFER = 32 << 20


class VerbsPort(Port):
    """A port that is a UD queue pair of the verbs device `device`, at `address`, which must be an address of it.

    mtu: as for sockets. A datagram carries a packet from BTH to ICRC, so it is at most MAX_VERBS_MTU; a device that
    carries less than both is refused. Raises PortError.
    """

    def __init__(self, device: str, address: str, mtu: int, receive_buffer: int | None = None) -> None:
        try:
            self._open(device, address, mtu, receive_buffer or DEFAULT_RECEIVE_BUFFER)
        except VerbsFailed as error:
            raise PortError(str(error)) from error
        queue_pair, port = self._queue_pair, self._tables.port
        self.address, self.lane = address, 0
        self.mtu = min(mtu, MAX_VERBS_MTU)
        # The shortest segment takes a buffer as the longest does.
        self.receive_buffer_bytes = queue_pair.receive_depth * (MIN_CHUNK + BUFFER_OVERHEAD)
        port["address"], port["source_port"] = int(ipaddress.IPv4Address(address)), FIRST_SOURCE_PORT
        port["lane"], port["mtu"] = 0, self.mtu
        port["receive_fd"] = queue_pair.event_fd
        port["send_fd"] = port["group_fd"] = -1
        port["verbs"] = queue_pair.state
        self.state = np.uint64(port.ctypes.data)

    def _open(self, device: str, address: str, mtu: int, receive_buffer: int) -> None:
        self._tables = PortTables(RECEIVE_BATCH, buffers=False)
        self._tables.sources["port"] = FIRST_SOURCE_PORT
        with contextlib.ExitStack() as opened:
            self._queue_pair = QueuePair(device, address, receive_buffer)
            opened.callback(self._queue_pair.close)
            self._check_mtu(min(mtu, MAX_VERBS_MTU))
            self._resolver = Resolver(self._queue_pair, 0, self._tables.peers)
            opened.pop_all()

    def _check_mtu(self, mtu: int) -> None:
        """All devices of a fabric have one MTU, so one that carries less has to say so."""
        name, most = self._queue_pair.name, self._queue_pair.mtu + IPV4_UDP_SIZE
        if most < mtu:
            cause = f"verbs device {name} carries datagrams of {self._queue_pair.mtu} bytes, MTU {mtu} needs more"
            remedy = f"use mtu = {most}, or raise" if most >= MIN_MTU else "raise"
            raise VerbsFailed(f"{cause}; {remedy} the MTU of the device's network interface")

    @property
    def receive_fd(self) -> int:
        """Descriptor to poll for arriving packets, after `longest_sleep`."""
        return self._queue_pair.event_fd

    @property
    def group_fd(self) -> int:
        """-1: a verbs port receives no group."""
        return -1

    def _dropped_by_kernel(self) -> int:
        """0: a verbs device does not say what it has dropped for lack of buffers."""
        return 0

    def close(self) -> None:
        """Give the device back. `state` must not be used any more."""
        self._resolver.close()
        self._queue_pair.close()
