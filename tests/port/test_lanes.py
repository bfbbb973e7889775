"""Several ports at one address: the kernel gives each lane its packets."""

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from fanin_nic.port.sockets import PortError, UdpPort, open_udp_ports
from fanin_wire.fields import UDP_PORT, Opcode

LANES = 4
COUNT = 37  # several super-packets


@pytest.fixture
def ports(addresses: Iterator[str]) -> Iterator[list[UdpPort]]:
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(port) for port in open_udp_ports(next(addresses), 9000, LANES)]


@pytest.fixture
def senders(addresses: Iterator[str]) -> Iterator[list[UdpPort]]:
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(port) for port in open_udp_ports(next(addresses), 9000, LANES)]


def drops(port: UdpPort) -> int:
    return port.drops()["drop_lane"]


@pytest.mark.parametrize("size", [0, 100, 4096])
def test_each_lane_gets_its_own(ports, senders, traffic, size):
    for lane in (3, 0, 2, 1):
        packets = [traffic.Packet(ports[0].address, bytes([lane]) * size, position=k) for k in range(COUNT)]
        assert traffic.send(senders[lane], packets) == COUNT
    for lane, port in enumerate(ports):
        arrivals = traffic.take(port, COUNT)
        assert len(arrivals) == COUNT
        assert all(arrival.content[68:] == bytes([lane]) * size for arrival in arrivals)
        assert drops(port) == 0


def test_ordinary_traffic_is_lane_0(ports, rocev2, traffic):
    """Byte 43 of an ordinary packet is payload: it must not choose a lane."""
    address = ports[0].address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: identification 0
        stranger.bind((ports[0].address, 0))
        covered = rocev2.bth(4) + bytes([1]) * 64
        icrc = rocev2.icrc_of(address, address, stranger.getsockname()[1], covered)
        stranger.sendto(covered + icrc, (address, UDP_PORT))
    assert len(traffic.take(ports[0], 1)) == 1


def test_a_lane_that_the_receiver_lacks_is_dropped_and_counted(open_port, ports, traffic):
    alone = open_port()
    for lane, expected in ((0, 1), (2, 0)):
        with open_ports_of(lane) as sender:
            traffic.send(sender, [traffic.Packet(alone.address, opcode=Opcode.PROBE)])
        assert len(traffic.take_once(alone)) == expected
    assert drops(alone) == 1
    with open_ports_of(LANES + 1) as sender:
        traffic.send(sender, [traffic.Packet(ports[0].address)])
    assert sum(len(traffic.take_once(port)) for port in ports) == 0
    assert sum(map(drops, ports)) == 1


def open_ports_of(lane: int) -> UdpPort:
    """A port that sends as `lane`, at its own address."""
    return UdpPort(f"127.{90 + lane}.{os.getpid() % 250}.1", lane=lane)


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_second_device_is_refused(ports, lanes):
    with pytest.raises(PortError, match=r"port 4791 .* choose another address"):
        open_udp_ports(ports[0].address, 9000, lanes)


def test_a_device_of_several_lanes_does_not_join_another_of_one(open_port):
    with pytest.raises(PortError, match=r"port 4791 .* choose another address"):
        open_udp_ports(open_port().address, 9000, 2)


def test_ports_that_can_not_all_be_had_are_given_back(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((address, 0xC001))
        with pytest.raises(PortError, match="port 49153"):
            open_udp_ports(address, 9000, 2)
    for port in open_udp_ports(address, 9000, 2):
        port.close()
