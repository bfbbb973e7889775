"""A RAW_PACKET queue pair: whole Ethernet frames, for devices such as mlx5. Not tried on any device."""

import ipaddress
import socket
from typing import Any

from fanin_nic.port.verbs import flow_rules, frames, interface
from fanin_nic.port.verbs import library as ibv
from fanin_nic.port.verbs.opening import VerbsFailed
from fanin_nic.port.verbs.queue_pair import QueuePair
from fanin_wire.fields import IPV4_UDP_SIZE, UDP_PORT
from fanin_wire.settings import RAW_SUFFIX

IS_KNOWN = 1 << 48  # in a handle, above the Ethernet address


def mac_of_group(group: str) -> int:
    """The Ethernet address for frames to a group."""
    return frames.GROUP_MAC | int(ipaddress.IPv4Address(group)) & frames.GROUP_BITS


class RawQueuePair(QueuePair):
    """A RAW_PACKET queue pair at `address`, for frames to its UDP port 4791. The handle of a destination is IS_KNOWN
    and its Ethernet address, or that of the router towards it. Raises VerbsFailed."""

    KIND, KIND_NAME = ibv.RAW_PACKET, "RAW_PACKET"
    INIT_MASK, RTS_MASK = ibv.PORT, 0
    SEND_HEADER, RECEIVE_HEADER = frames.HEADERS_SIZE, frames.HEADERS_SIZE
    RECEIVED_SOURCE, RECEIVED_DESTINATION = frames.SOURCE, frames.DESTINATION

    def __init__(self, name: str, address: str, receive_bytes: int) -> None:
        self._flows: list[int] = []
        self._reservation: socket.socket | None = None
        super().__init__(name, address, receive_bytes)

    def _listen(self) -> None:
        self._reserve()
        self._steer(self._mac, self.address)

    def _reserve(self) -> None:
        """Take the UDP port: the kernel then does not answer packets that it sees, and a port in use is an error."""
        self._reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # not read
            self._reservation.bind((self.address, UDP_PORT))
        except OSError as error:
            cause = f"cannot take UDP port {UDP_PORT} of {self.address}: {error.strerror}"
            remedy = "stop the device that has this address, or remove the rxe device of its network interface"
            raise VerbsFailed(f"{cause}; {remedy}") from error

    def _find_port(self) -> None:
        """Find the port by the GID or, with RoCE switched off, by the network interface."""
        gid = self._find_gid()
        self._has_gid = gid is not None
        if gid is not None:
            try:
                self.interface = socket.if_indextoname(gid.ndev_ifindex)
            except OSError as error:
                remedy = f"use a device that has one, or leave out {RAW_SUFFIX}"
                raise VerbsFailed(f"verbs device {self.name} has no network interface; {remedy}") from error
        else:
            self.interface, self.port = interface.with_address(self.name, self.address)
        self._check_active()
        self.mtu = interface.mtu_of(self.interface) - IPV4_UDP_SIZE
        self._mac = interface.mac_of(self.interface)

    def _refusal(self) -> str:
        return f"run as root or with CAP_NET_RAW; if the device has none of them, leave out {RAW_SUFFIX}"

    def _members(self) -> dict[str, Any]:
        return super()._members() | {"own_mac": self._mac}

    def has_address(self) -> bool:
        return super().has_address() if self._has_gid else interface.address_of(self.interface) == self.address

    def mac_towards(self, address: str) -> int:
        """The Ethernet address for frames to an address or a group, as the kernel knows it now; 0: it does not."""
        if ipaddress.IPv4Address(address).is_multicast:
            return mac_of_group(address)
        return interface.neighbour(self.interface, interface.next_hop(self.interface, address))

    def address_handle(self, address: str) -> int:
        """The handle for frames to an address, as the kernel knows it now. Raises VerbsFailed."""
        mac = self.mac_towards(address)
        if not mac:
            raise VerbsFailed(f"the Ethernet address of {address} is not known on {self.interface}; see ip neighbour")
        self.handles[address] = IS_KNOWN | mac
        return self.handles[address]

    def _attach(self, group: str) -> None:
        self._steer(mac_of_group(group), group)

    def _detach(self, group: str) -> None:
        """`close` removes all rules."""

    def _steer(self, mac: int, address: str) -> None:
        made = flow_rules.rule(self.port, mac, address)
        self._flows.append(flow_rules.steer(self._context, self._address_of_queue_pair, made, self.name))

    def close(self) -> None:
        for flow in self._flows:
            flow_rules.remove(self._context, flow)
        self._flows = []
        self.handles.clear()  # not objects of the device
        if self._reservation is not None:
            self._reservation.close()
        super().close()
