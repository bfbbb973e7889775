"""Steering rules (infiniband/verbs.h): which frames a device gives to a RAW_PACKET queue pair; without one it gets
none.

The functions that make and remove a rule are not symbols of libibverbs: they are in struct verbs_context, in front of
the struct ibv_context that programs have.
"""

import ctypes
import ipaddress
from ctypes import c_int, c_void_p

import numpy as np

from fanin_nic.port.verbs.opening import VerbsFailed, checked
from fanin_wire.fields import UDP_PORT
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

REMEDY = "run as root or with CAP_NET_RAW, and see that the device allows steering"

# struct verbs_context, from the struct ibv_context on
CREATE, DESTROY, SIZE = -80, -96, -8
MIN_SIZE = 424  # of a struct verbs_context that reaches DESTROY
ABI_COMPAT, EXTENDED = 320, (1 << 64) - 1  # in struct ibv_context: whether it has a struct verbs_context


def rule(port: int, mac: int, address: str) -> np.ndarray:
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


def _function(context: int, offset: int) -> int:
    """Address of a function of struct verbs_context; 0: the device lacks it."""
    has_extension = c_void_p.from_address(context + ABI_COMPAT).value == EXTENDED
    if not has_extension or int(c_void_p.from_address(context + SIZE).value or 0) < MIN_SIZE:
        return 0
    return int(c_void_p.from_address(context + offset).value or 0)


def steer(context: int, queue_pair: int, what: np.ndarray, name: str) -> int:
    """Apply a rule to a queue pair; returns the struct ibv_flow. Raises VerbsFailed."""
    create = _function(context, CREATE)
    if not create or not _function(context, DESTROY):
        raise VerbsFailed(f"verbs device {name} has no steering rules; leave out {RAW_SUFFIX}")
    made = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, use_errno=True)(create)(queue_pair, what.ctypes.data)
    return int(checked(made, f"steer UDP port {UDP_PORT} of {name} to a queue pair", REMEDY))


def remove(context: int, flow: int) -> None:
    ctypes.CFUNCTYPE(c_int, c_void_p)(_function(context, DESTROY))(flow)
