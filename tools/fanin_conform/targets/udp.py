"""A device at an address: datagrams to its UDP port 4791, from several addresses of this host."""

import ipaddress
import select
import socket
import time

from fanin_conform.agents.agent import Agent
from fanin_conform.agents.remote import RemoteAgent
from fanin_conform.targets.target import Frame, Uncontrolled
from fanin_wire.fields import UDP_PORT

BUFFER_BYTES = 1 << 21
MAX_PACKET = 1 << 16
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2  # linux/in.h: the kernel then sends the identification 0


class UdpTarget(Uncontrolled):
    """See `target.Target`. Raises OSError if an address or its port 4791 is unusable, or `group` is not multicast."""

    has_port, is_virtual = True, False
    agent: Agent | None

    def __init__(self, address: str, first: str, count: int, group: str = "") -> None:
        self.name, self.address, self.group, self.agent = f"udp://{address}", address, group, None
        self.addresses = [str(ipaddress.IPv4Address(first) + number) for number in range(count)]
        self._sockets: dict[str, socket.socket] = {}
        self._poll = select.poll()
        self._by_descriptor: dict[int, str] = {}
        try:
            if group:  # first, because a packet to the group before a STATUS must be taken first
                self._join(group)
            for own in self.addresses:
                self._open(own)
        except OSError:
            self.close()
            raise

    def _join(self, group: str) -> None:
        joined = self._open(group)
        membership = socket.inet_aton(group) + socket.inet_aton(self.addresses[0])
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)

    def _open(self, own: str) -> socket.socket:
        opened = self._sockets[own] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        if own == self.group:  # the devices that listen to it have sockets like this one
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((own, UDP_PORT))
        self._poll.register(opened, select.POLLIN)
        self._by_descriptor[opened.fileno()] = own
        return opened

    def connect(self, agent: str) -> None:
        """Use an agent of the device, a NIC. Raises AgentError if none answers."""
        try:
            self.agent = RemoteAgent(agent)
        except BaseException:
            self.close()
            raise
        self.name = f"nic://{self.address}"

    def send(self, source: str, data: bytes) -> None:
        self._sockets[source].sendto(data, (self.address, UDP_PORT))

    def receive(self, seconds: float) -> Frame | None:
        ready = self._poll.poll(round(seconds * 1000))
        if not ready:
            return None
        own = self._by_descriptor[ready[0][0]]
        data, (source, port) = self._sockets[own].recvfrom(MAX_PACKET)
        return Frame(own, source, port, data)

    def now(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        """Close the sockets, and release the agent."""
        if self.agent:
            self.agent.close()
        for opened in self._sockets.values():
            opened.close()
