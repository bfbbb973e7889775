"""A multicast group: every listening port gets its packets, each its own lane, checked by its address."""

import contextlib
import errno
import os
import select
import socket
from collections.abc import Callable, Iterator

import pytest

from fanin_nic.port import sockets
from fanin_nic.port.receive import receive
from fanin_nic.port.sockets import PortError, UdpPort, open_udp_ports

GROUP = f"239.{os.getpid() // 250 % 250}.{os.getpid() % 250}.1"
OTHER_GROUP = f"239.{os.getpid() // 250 % 250}.{os.getpid() % 250}.2"
COUNT, SIZE = 37, 4096  # several super-packets


@pytest.fixture
def listen(addresses: Iterator[str]) -> Iterator[Callable[..., list[UdpPort]]]:
    """Opens the ports of a device that listens to a group, one for each lane."""
    with contextlib.ExitStack() as opened:

        def ports(lanes: int = 1, group: str = GROUP) -> list[UdpPort]:
            return [opened.enter_context(port) for port in open_udp_ports(next(addresses), 9000, lanes, group=group)]

        yield ports


def packets_to(traffic, destination: str, count: int = COUNT) -> list:
    return [traffic.Packet(destination, bytes([k]) * SIZE, position=k) for k in range(count)]


def test_one_packet_reaches_all_that_listen(open_port, listen, traffic) -> None:
    sender, hearers = open_port(), [listen()[0] for _ in range(3)]
    assert traffic.send(sender, packets_to(traffic, GROUP)) == COUNT
    for port in hearers:
        assert [arrival.content[68:] for arrival in traffic.take(port, COUNT)] == [
            bytes([k]) * SIZE for k in range(COUNT)
        ]
    assert sender.peers()[GROUP]["tx_packets"] == COUNT
    assert hearers[0].peers()[sender.address]["rx_packets"] == COUNT


def test_super_packets_are_not_cut(open_port, listen, traffic) -> None:
    """The kernel passes a super-packet whole to each socket: one call brings more packets than messages."""
    sender, (port,) = open_port(), listen()
    traffic.send(sender, [traffic.Packet(GROUP, bytes(1024))] * 59)
    select.select([port.group_fd], [], [], 5)
    assert receive(port.state) == 59


def test_group_packets_are_seen_before_repeated_ones(open_port, listen, traffic) -> None:
    sender, (port,) = open_port(), listen()
    traffic.send(sender, [traffic.Packet(GROUP, b"first")])
    traffic.send(sender, [traffic.Packet(port.address, b"again")])
    assert [arrival.content[68:73] for arrival in traffic.take_once(port)] == [b"first", b"again"]


def test_a_full_group_leaves_room_for_the_port_itself(open_port, listen, traffic) -> None:
    sender, (port,) = open_port(), listen()
    for _ in range(40):
        traffic.send(sender, [traffic.Packet(GROUP, b"all")])
    traffic.send(sender, [traffic.Packet(port.address, b"one")])
    assert b"one" in {arrival.content[68:71] for arrival in traffic.take_once(port)}


def test_however_little_a_batch_is(open_port, listen, traffic) -> None:
    """Large packets make batches of two messages."""
    sender, (port,) = open_port(), listen()
    for _ in range(6):
        traffic.send(sender, [traffic.Packet(GROUP, bytes(4096))] * 15)
    while traffic.take_once(port):
        pass
    for _ in range(6):
        traffic.send(sender, [traffic.Packet(GROUP, bytes(4096))] * 15)
    traffic.send(sender, [traffic.Packet(port.address, b"one")])
    assert [arrival.content[68:71] for arrival in traffic.take_once(port)] == [bytes(3)] * 15 + [b"one"]


def test_a_group_that_can_not_be_joined_is_done_without(open_port, listen, traffic, monkeypatch, caplog) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(sockets, "join_group", refuse)
    sender, (port,) = open_port(), listen()
    assert port.group_fd == -1
    assert "goes on without the multicast group" in caplog.text
    traffic.send(sender, packets_to(traffic, port.address, 3))
    assert len(traffic.take(port, 3)) == 3


def test_unicast_packets_arrive_beside_the_group(open_port, listen, traffic) -> None:
    sender, (port,) = open_port(), listen()
    traffic.send(sender, [*packets_to(traffic, port.address, 3), *packets_to(traffic, GROUP, 4)])
    assert len(traffic.take(port, 7)) == 7


def test_the_address_counts_in_the_checksum(listen, addresses, traffic, rocev2) -> None:
    """The same bytes are right for the group, and wrong for the port itself."""
    (port,) = listen()
    address, covered = next(addresses), rocev2.bth(4) + bytes(64)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: identification 0
        stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        stranger.bind((address, 0xC000))
        datagram = covered + rocev2.icrc_of(address, GROUP, 0xC000, covered)
        stranger.sendto(datagram, (port.address, 4791))
        stranger.sendto(datagram, (GROUP, 4791))
    assert len(traffic.take(port, 1)) == 1
    assert port.drops()["drop_icrc"] == 1


def test_each_lane_gets_its_own_only(addresses, listen, traffic) -> None:
    hearers = listen(lanes=2)
    with contextlib.ExitStack() as opened:
        senders = [opened.enter_context(port) for port in open_udp_ports(next(addresses), 9000, 2)]
        for lane in (1, 0):
            traffic.send(senders[lane], packets_to(traffic, GROUP, 5 + lane))
        for lane, port in enumerate(hearers):
            assert len(traffic.take(port, 5 + lane)) == 5 + lane
            assert receive(port.state) == 0
            assert (port.drops()["drop_lane"], port.drops()["drop_receive_buffer"]) == (0, 0)


def test_other_groups_are_not_heard(open_port, listen, traffic) -> None:
    sender, (port,), (other,) = open_port(), listen(), listen(group=OTHER_GROUP)
    traffic.send(sender, packets_to(traffic, OTHER_GROUP, 2))
    assert len(traffic.take(other, 2)) == 2
    assert receive(port.state) == 0


def test_port_without_a_group_has_no_group_socket(open_port) -> None:
    assert open_port().group_fd == -1


@pytest.mark.parametrize("group", ["10.0.0.1", "127.0.0.1", "239.0.0", "group"])
def test_invalid_group_is_refused(addresses, group: str) -> None:
    with pytest.raises(PortError, match=r"multicast address|not an IPv4 address"):
        UdpPort(next(addresses), group=group)
