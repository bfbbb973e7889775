"""Unreliable services: UC and UD. Nothing is acknowledged; unacceptable packets are dropped and counted."""

import ipaddress

import pytest
from scapy.layers.inet import IP

from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, QueuePairState, RequestOpcode

from .rig import Packet, Pair, make
from .test_operations import SOURCE, TARGET, data_of
from .test_reliability import SEND, WRITE

QKEY = 0x1234
GRH = 40


def datagram(pair: Pair, length: int = 100, opcode: RequestOpcode = SEND, **members: int) -> None:
    pair.one.fill(SOURCE, data_of(length))
    where = {"destination": pair.two.address, "remote_qpn": pair.two.qpn(0), "remote_qkey": QKEY}
    pair.one.post(opcode, (SOURCE, length), **(where | members))
    pair.run()


@pytest.mark.parametrize("length", [0, 1, 255, 1000, 4096])
def test_datagram_arrives_behind_the_header_of_the_network(length: int):
    pair = Pair(Service.UD)
    pair.two.post_receive((TARGET, GRH + length))
    datagram(pair, length)
    assert pair.two.bytes(TARGET + GRH, length + 8) == data_of(length) + bytes(8)
    (received,) = pair.two.completions
    assert (received.length, received.flags, received.source_qpn) == (length + GRH, 1, pair.one.qpn(0))
    header = IP(pair.two.bytes(TARGET + 20, 20))
    assert (header.src, header.dst, header.proto) == ("10.0.0.1", "10.0.0.2", 17)
    assert header.len == 28 + len(pair.log[0].data) + 4
    assert pair.one.statuses() == ["SUCCESS"]


def test_key_of_the_queue_pair_itself():
    pair = Pair(Service.UD)
    pair.two.post_receive((TARGET, 200))
    datagram(pair, remote_qkey=0x80000000)
    assert pair.two.statuses() == ["SUCCESS"]


@pytest.mark.parametrize(
    ("length", "receive", "members", "counter"),
    [
        (100, (TARGET, 200), {"remote_qkey": 1}, "drop_qkey"),
        (100, None, {}, "drop_no_receive"),
        (100, (TARGET, GRH + 99), {}, "drop_length"),
        (100, (TARGET, 200), {"remote_qpn": 99}, "drop_unknown_queue_pair"),
    ],
)
def test_datagrams_that_are_dropped(length: int, receive: tuple | None, members: dict, counter: str):
    pair = Pair(Service.UD)
    if receive:
        pair.two.post_receive(receive)
    datagram(pair, length, **members)
    assert pair.two.count(counter) == 1
    assert pair.two.completions == []
    assert not pair.two.memory.any()
    assert pair.one.statuses() == ["SUCCESS"]


def test_datagram_for_memory_that_may_not_be_written():
    pair = Pair(Service.UD)
    pair.two.post_receive((TARGET, 200), lkey=pair.two.register(Access.REMOTE_READ))
    datagram(pair)
    assert pair.two.count("drop_protection") == 1


def test_datagram_longer_than_the_port_carries_is_a_local_error():
    pair = Pair(Service.UD)
    datagram(pair, 4097)
    assert pair.one.statuses() == ["LOC_LEN_ERR"]
    assert pair.one.state() == QueuePairState.SQE


def test_datagrams_go_to_many():
    pair = Pair(Service.UD)
    strangers = int(ipaddress.IPv4Address("10.0.0.9"))
    datagram(pair, destination=strangers)
    assert pair.log[0].destination == strangers


# UC


def test_messages_of_an_unreliable_connection_that_are_dropped():
    pair = Pair(Service.UC)
    pair.one.post(SEND, (SOURCE, 10))
    pair.run()
    assert pair.two.count("drop_no_receive") == 1
    pair.two.post_receive((TARGET, 9))
    pair.one.post(SEND, (SOURCE, 10))
    pair.run()
    assert pair.two.count("drop_length") == 1
    pair.one.post(WRITE, (SOURCE, 10), remote_address=0, rkey=1)
    pair.run()
    assert pair.two.count("drop_protection") == 1
    assert pair.two.completions == []
    assert pair.two.state() == QueuePairState.RTS
    pair.one.post(SEND, (SOURCE, 9))
    pair.run()
    assert pair.two.statuses() == ["SUCCESS"]


def test_reliable_operations_have_no_opcode_for_unreliable_connections():
    pair = Pair(Service.UC)
    packet = make("UC_SEND_ONLY", pair.one, pair.two)
    pair.two.receive(Packet(packet.source, packet.destination, b"\x2c" + packet.data[1:]))  # READ request of UC
    assert pair.two.count("drop_unknown_opcode") == 1


def test_part_without_a_beginning():
    pair = Pair(Service.UC)
    pair.two.post_receive((TARGET, 1000))
    pair.two.receive(make("UC_SEND_LAST", pair.one, pair.two, b"abcd", psn=0))
    assert pair.two.count("drop_opcode_sequence") == 1
    assert pair.two.completions == []
