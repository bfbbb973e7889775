"""The port over a verbs device as an object of Python."""

import contextlib
import ipaddress
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin_nic.engine.records.tables import BUFFER_OVERHEAD
from fanin_nic.port.port import Port, PortError
from fanin_nic.port.tables import PortTables
from fanin_nic.port.verbs.interface import VerbsFailed
from fanin_nic.port.verbs.queue_pair import QueuePair
from fanin_nic.port.verbs.raw_queue_pair import RawQueuePair
from fanin_nic.port.verbs.records import RECEIVE_BATCH
from fanin_nic.port.verbs.resolver import NeighbourResolver, Resolver
from fanin_wire.fields import FIRST_SOURCE_PORT, IPV4_UDP_SIZE
from fanin_wire.limits import MAX_VERBS_MTU, MIN_CHUNK, MIN_MTU

DEFAULT_RECEIVE_BUFFER = 32 << 20

log = logging.getLogger(__name__)


class VerbsPort(Port):
    """A port on a UD queue pair of the verbs device `device`, at `address`, one of its addresses; or on a RAW_PACKET
    one, whose packets are those of a UDP socket.

    mtu: as for sockets; None: the device's. A UD datagram carries a packet from BTH to ICRC, so there it is at most
    MAX_VERBS_MTU. group: multicast address to receive as well, if the device can; sending to groups needs nothing.
    Raises PortError, also if the device carries less than `mtu`.
    """

    def __init__(
        self,
        device: str,
        address: str,
        mtu: int | None,
        receive_buffer: int | None = None,
        *,
        group: str | None = None,
        raw: bool = False,
    ) -> None:
        mtu = min(mtu, MAX_VERBS_MTU) if mtu and not raw else mtu
        try:
            mtu = self._open(RawQueuePair if raw else QueuePair, device, address, mtu, receive_buffer)
        except VerbsFailed as error:
            raise PortError(str(error)) from error
        queue_pair, port = self._queue_pair, self._tables.port
        self.address, self.lane = address, 0
        self.mtu = mtu
        # The shortest segment takes as much buffer as the longest.
        self.receive_buffer_bytes = queue_pair.receive_depth * (MIN_CHUNK + BUFFER_OVERHEAD)
        port["address"], port["source_port"] = int(ipaddress.IPv4Address(address)), FIRST_SOURCE_PORT
        port["lane"], port["mtu"] = 0, self.mtu
        port["receive_fd"] = queue_pair.event_fd
        port["send_fd"] = port["group_fd"] = -1
        port["group"] = int(ipaddress.IPv4Address(group)) if group and self._joins(group) else 0
        port["verbs"] = queue_pair.state
        self.state = np.uint64(port.ctypes.data)

    def _open(
        self, kind: type[QueuePair], device: str, address: str, mtu: int | None, receive_buffer: int | None
    ) -> int:
        """Open the queue pair; returns its MTU: `mtu`, else that of the verbs device."""
        self._tables = PortTables(RECEIVE_BATCH, buffers=False)
        self._tables.sources["port"] = FIRST_SOURCE_PORT
        with contextlib.ExitStack() as opened:
            self._queue_pair = kind(device, address, receive_buffer or DEFAULT_RECEIVE_BUFFER)
            opened.callback(self._queue_pair.close)
            mtu = self._check_mtu(mtu)
            resolver = NeighbourResolver if isinstance(self._queue_pair, RawQueuePair) else Resolver
            self._resolver = resolver(self._queue_pair, 0, self._tables.peers)
            opened.pop_all()
        return mtu

    def _joins(self, group: str) -> bool:
        """Whether the device receives the group; if not, its packets come to the port itself."""
        try:
            self._queue_pair.join(group)
        except VerbsFailed as error:
            log.warning("%s goes on without the multicast group %s: %s", self.address, group, error)
            return False
        return True

    def _check_mtu(self, wanted: int | None) -> int:
        """The wanted MTU, else that of the verbs device. VerbsFailed if it carries less."""
        name, most = self._queue_pair.name, self._queue_pair.mtu + IPV4_UDP_SIZE
        mtu = wanted or max(most, MIN_MTU)
        if most < mtu:
            cause = f"verbs device {name} carries datagrams of {self._queue_pair.mtu} bytes, MTU {mtu} needs more"
            remedy = f"use mtu = {most}, or raise" if most >= MIN_MTU else "raise"
            raise VerbsFailed(f"{cause}; {remedy} the MTU of the device's network interface")
        return mtu

    @property
    def receive_fd(self) -> int:
        """Descriptor to poll for packets, after `longest_sleep`."""
        return self._queue_pair.event_fd

    @property
    def group_fd(self) -> int:
        """-1: packets to the group come to the queue pair."""
        return -1

    def _dropped_by_kernel(self) -> int:
        """0: a verbs device does not count packets without a buffer."""
        return 0

    def on_failure(self, tell: Callable[[str], None]) -> None:
        """Call `tell`, in any thread, with cause and remedy when the verbs device has failed."""
        self._resolver.watch.on_failure(tell)

    def verbs(self) -> dict[str, Any]:
        return self._resolver.watch.status()

    def close(self) -> None:
        """`state` must not be used any more."""
        self._resolver.close()
        self._queue_pair.close()
