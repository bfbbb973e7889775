"""Opening and closing a port, and errors there."""

import socket

import pytest

from fanin_nic.port.sockets import PortError, UdpPort
from fanin_wire.fields import FIRST_SOURCE_PORT, UDP_PORT
from tests.waiting import BOUND_S


@pytest.mark.parametrize("wrong", ["localhost", "::1", "127.0.0.256", ""])
def test_not_an_ipv4_address(wrong):
    with pytest.raises(PortError, match="not an IPv4 address"):
        UdpPort(wrong)


def test_address_of_another_machine():
    with pytest.raises(PortError, match="address of this machine"):
        UdpPort("192.0.2.1")


def test_broadcast_address():
    """It can be bound, but not reached."""
    with pytest.raises(PortError, match="it is the broadcast address of a network; give the device an address of this"):
        UdpPort("127.255.255.255")


def test_address_of_another_device(open_port):
    with pytest.raises(PortError, match=r"port 4791 .* choose another address"):
        UdpPort(open_port().address)


def test_a_taken_source_port_leaves_the_receiving_port_free(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((address, FIRST_SOURCE_PORT + 3))
        with pytest.raises(PortError, match=f"port {FIRST_SOURCE_PORT + 3}"):
            UdpPort(address, lane=3)
    UdpPort(address, lane=3).close()


@pytest.mark.parametrize("options", [{"mtu": 100}, {"mtu": 65536}, {"lane": -1}, {"lane": 64}])
def test_option_out_of_range(address, options):
    with pytest.raises(PortError, match="out of range; choose"):
        UdpPort(address, **options)


def test_the_end_of_the_block_frees_the_address(address):
    with UdpPort(address) as port:
        assert socket.socket(fileno=socket.dup(port.receive_fd)).getsockname() == (address, UDP_PORT)
    UdpPort(address).close()


def test_receive_buffer_is_the_size_granted(address):
    with UdpPort(address, receive_buffer=1 << 16) as port:
        assert port.receive_buffer_bytes == 1 << 16


def test_lane_chooses_the_source_port(open_port, traffic, address):
    sender = open_port(lane=5)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((address, UDP_PORT))
        receiver.settimeout(BOUND_S)
        traffic.send(sender, [traffic.Packet(address)])
        assert receiver.recvfrom(100)[1] == (sender.address, FIRST_SOURCE_PORT + 5)
