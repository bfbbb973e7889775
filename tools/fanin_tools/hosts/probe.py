"""A packet that a device only counts: it has another version, so the port drops it.

Only the counter shows that it has arrived: UDP port 4791 of the address belongs to the device.
"""

import errno
import ipaddress
import os
import socket
from typing import Any

from fanin_nic.port.sockets import enable_group_send
from fanin_wire.fields import IPV4_UDP_SIZE, UDP_PORT

COUNTER = "drop_version"
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14  # linux/in.h
ANOTHER_VERSION = 0xF  # the transport header version of BTH, in its second byte
SHORTEST = 128  # bytes of an IP packet
BURST = 4  # packets, since one may be lost


def send(source: str, destination: str, size: int) -> dict[str, Any]:
    """Send probes of `size` bytes, as IP packets that may not be fragmented; also why the system refuses one."""
    packet = bytearray(size - IPV4_UDP_SIZE)
    packet[1] = ANOTHER_VERSION
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        try:
            udp.bind((source, 0))
            udp.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
            if ipaddress.IPv4Address(destination).is_multicast:
                enable_group_send(udp, source)
            udp.connect((destination, UDP_PORT))
            for _ in range(BURST):
                udp.send(packet)
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, str(error.errno))
            return {"error": name, "text": os.strerror(error.errno or 0), "mtu": _mtu(udp)}
    return {}


def _mtu(udp: socket.socket) -> int:
    """Bytes of an IP packet that the path to the connected address carries, as far as the system knows; 0: unknown."""
    try:
        return udp.getsockopt(socket.IPPROTO_IP, IP_MTU)
    except OSError:
        return 0
