"""Hostile packets over UDP to real devices, with a valid ICRC. The sender knows everything but the key of a job."""

import ipaddress
import socket
import zlib

import numpy as np

from fanin_tools.stress.fuzz import packet_mutation
from fanin_tools.stress.fuzz.engine_fuzz import PacketSource
from fanin_tools.stress.tally import Tally, Work
from fanin_wire.fields import UDP_PORT

SEGMENT_INDEX = packet_mutation.BTH.size + packet_mutation.CETH.byte_offset("segment_index")


class Sender:
    """At an address, possibly that of a member of the job."""

    def __init__(self, address: str, packets: PacketSource, tally: Tally) -> None:
        self.address, self._packets, self._tally = address, packets, tally
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self._packed = ipaddress.IPv4Address(address).packed
        self._port = self._socket.getsockname()[1].to_bytes(2, "big")

    def close(self) -> None:
        self._socket.close()

    def send(self, device: str, jid: int, key: int) -> None:
        """Send a device one packet that names a job with a wrong key."""
        packets = self._packets
        length, kind = packets.mutate(), packets.draw(32)
        if kind & 1:
            packet_mutation.aim(packets.place, jid, key ^ (1 << kind), 256, packets.random)
        packet_mutation.make_plausible(packets.place, np.uint64(length), packets.random)
        self.send_packet(device, packets.packet[:length].tobytes(), is_whole=kind != 0)

    def send_packet(self, device: str, covered: bytes, *, is_whole: bool = True) -> None:
        """From BTH to padding. is_whole: with a right ICRC."""
        icrc = self._icrc(device, covered) if is_whole else b"\0" * 4
        self._socket.sendto(covered + icrc, (device, UDP_PORT))
        self._tally.work[Work.DATAGRAMS] += 1

    def _icrc(self, device: str, covered: bytes) -> bytes:
        """Of a packet from BTH to padding (SPEC.md, section 3)."""
        size = 8 + len(covered) + 4
        offload = len(covered) > SEGMENT_INDEX and covered[0] >= packet_mutation.fields.FIRST_OFFLOAD_OPCODE
        identification = covered[SEGMENT_INDEX] if offload else 0
        ip = b"\x45\xff" + (20 + size).to_bytes(2, "big") + identification.to_bytes(2, "big") + b"\x40\x00\xff\x11"
        ip += b"\xff\xff" + self._packed + ipaddress.IPv4Address(device).packed
        udp = self._port + UDP_PORT.to_bytes(2, "big") + size.to_bytes(2, "big") + b"\xff\xff"
        masked = covered[:4] + b"\xff" + covered[5:]
        return zlib.crc32(b"\xff" * 8 + ip + udp + masked).to_bytes(4, "little")
