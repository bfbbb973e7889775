"""A RAW_PACKET queue pair: whole Ethernet frames, for devices such as mlx5. Not tried on any device.

Steering rules (infiniband/verbs.h) say which frames the queue pair gets; without one it gets none. The functions that
make and remove a rule are not symbols of libibverbs: they are in struct verbs_context, in front of the struct
ibv_context that programs have.
"""

import ctypes
import ipaddress
import socket
from ctypes import c_int, c_void_p
from typing import Any

import numpy as np

from fanin_nic.port.verbs import frames, interface
from fanin_nic.port.verbs import library as ibv
from fanin_nic.port.verbs.interface import VerbsFailed, checked
from fanin_nic.port.verbs.queue_pair import QueuePair
from fanin_wire.fields import IPV4_UDP_SIZE, UDP_PORT
from fanin_wire.settings import RAW_SUFFIX

# struct ibv_flow_attr
RULE_HEAD = np.dtype(
    [
        ("mask", "u4"),
        ("type", "i4"),
        ("size", "u2"),
        ("priority", "u2"),
        ("parts", "u1"),
        ("port", "u1"),
        ("padding", "u2"),
        ("flags", "u4"),
    ]
)
# struct ibv_flow_spec_eth: values, then masks, 16 bytes later
ETHERNET_PART = np.dtype(
    {
        "names": ["type", "size", "destination", "ether_type", "destination_mask", "ether_type_mask"],
        "formats": ["i4", "u2", "6u1", ">u2", "6u1", ">u2"],
        "offsets": [0, 4, 6, 18, 22, 34],
        "itemsize": 40,
    }
)
# struct ibv_flow_spec_ipv4
IPV4_PART = np.dtype(
    {
        "names": ["type", "size", "destination", "destination_mask"],
        "formats": ["i4", "u2", ">u4", ">u4"],
        "offsets": [0, 4, 12, 20],
        "itemsize": 24,
    }
)
# struct ibv_flow_spec_tcp_udp
UDP_PART = np.dtype(
    {
        "names": ["type", "size", "destination", "destination_mask"],
        "formats": ["i4", "u2", ">u2", ">u2"],
        "offsets": [0, 4, 6, 10],
        "itemsize": 16,
    }
)
RULE = np.dtype([("head", RULE_HEAD), ("ethernet", ETHERNET_PART), ("ipv4", IPV4_PART), ("udp", UDP_PART)])
NORMAL = 0  # IBV_FLOW_ATTR_NORMAL
ETHERNET, IPV4, UDP = 0x20, 0x30, 0x41  # enum ibv_flow_spec_type
ETHER_TYPE = 0x0800
STEERING_REMEDY = "run as root or with CAP_NET_RAW, and see that the device allows steering"

# struct verbs_context, from the struct ibv_context on
CREATE_FLOW, DESTROY_FLOW, CONTEXT_SIZE = -80, -96, -8
MIN_CONTEXT_SIZE = 424  # of a struct verbs_context that reaches DESTROY
ABI_COMPAT, EXTENDED = 320, (1 << 64) - 1  # in struct ibv_context: whether it has a struct verbs_context
IS_KNOWN = 1 << 48  # in a handle, above the Ethernet address


def flow_rule(port: int, mac: int, address: str) -> np.ndarray:
    """RULE [1]: frames to an Ethernet address (48 bits) and an IPv4 address, for the UDP port of RoCEv2."""
    made = np.zeros(1, RULE)
    made["head"]["type"], made["head"]["size"], made["head"]["parts"] = NORMAL, RULE.itemsize, 3
    made["head"]["port"] = port
    parts = (
        ("ethernet", ETHERNET, {"destination": np.frombuffer(mac.to_bytes(6), np.uint8), "ether_type": ETHER_TYPE}),
        ("ipv4", IPV4, {"destination": int(ipaddress.IPv4Address(address))}),
        ("udp", UDP, {"destination": UDP_PORT}),
    )
    for name, kind, values in parts:
        made[name]["type"], made[name]["size"] = kind, made[name].dtype.itemsize
        for member, value in values.items():
            made[name][member] = value
            made[name][f"{member}_mask"] = np.iinfo(made[name][f"{member}_mask"].dtype).max
    return made


def create_flow(context: int, queue_pair: int, rule: np.ndarray, name: str) -> int:
    """Apply a rule to a queue pair; returns the struct ibv_flow. Raises VerbsFailed."""
    create = _function(context, CREATE_FLOW)
    if not create or not _function(context, DESTROY_FLOW):
        raise VerbsFailed(f"verbs device {name} has no steering rules; leave out {RAW_SUFFIX}")
    made = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, use_errno=True)(create)(queue_pair, rule.ctypes.data)
    return int(checked(made, f"steer UDP port {UDP_PORT} of {name} to a queue pair", STEERING_REMEDY))


def destroy_flow(context: int, flow: int) -> None:
    ctypes.CFUNCTYPE(c_int, c_void_p)(_function(context, DESTROY_FLOW))(flow)


def _function(context: int, offset: int) -> int:
    """Address of a function of struct verbs_context; 0: the device lacks it."""
    has_extension = c_void_p.from_address(context + ABI_COMPAT).value == EXTENDED
    if not has_extension or int(c_void_p.from_address(context + CONTEXT_SIZE).value or 0) < MIN_CONTEXT_SIZE:
        return 0
    return int(c_void_p.from_address(context + offset).value or 0)


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
        rule = flow_rule(self.port, mac, address)
        self._flows.append(create_flow(self._context, self._address_of_queue_pair, rule, self.name))

    def close(self) -> None:
        for flow in self._flows:
            destroy_flow(self._context, flow)
        self._flows = []
        self.handles.clear()  # not objects of the device
        if self._reservation is not None:
            self._reservation.close()
        super().close()
