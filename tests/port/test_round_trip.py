"""Packets between two ports on loopback: content, order, super-packets and counters."""

import struct
from collections import Counter

import numpy as np
import pytest

from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.native.profile import Profile
from fanin_nic.port.descriptors import BATCH_BYTES, SEND_MESSAGES
from fanin_wire import fields

TRANSPORT = fields.TRANSPORT_SIZE
OVERHEAD = fields.IPV4_UDP_SIZE + TRANSPORT + fields.ICRC_SIZE
SEGMENT_INDEX = fields.BTH.size + fields.CETH.byte_offset("segment_index")
POSITION = fields.BTH.size + fields.CETH.byte_offset("position")
LENGTH = fields.BTH.size + fields.CETH.byte_offset("length")


def payload_of(length: int, seed: int = 0) -> bytes:
    return np.random.default_rng([length, seed]).bytes(length)


def positions(arrivals) -> list[int]:
    return [struct.unpack_from(">I", arrival.content, POSITION)[0] for arrival in arrivals]


def segment_indices(arrivals) -> list[int]:
    return [arrival.content[SEGMENT_INDEX] for arrival in arrivals]


def payloads(arrivals) -> list[bytes]:
    """Payload without padding, by the CETH's length; the padding must be zeros."""
    found = []
    for arrival in arrivals:
        (length,) = struct.unpack_from(">H", arrival.content, LENGTH)
        assert arrival.content[TRANSPORT + length :] == bytes(-length % 4)
        found.append(arrival.content[TRANSPORT : TRANSPORT + length])
    return found


def stream(traffic, destination: str, sizes: list[int]) -> list:
    return [traffic.Packet(destination, payload_of(size, k), position=k) for k, size in enumerate(sizes)]


@pytest.mark.parametrize("size", [0, 1, 3, 4, 256, 1023, 1024, 4095, 4096, 8192])
@pytest.mark.parametrize("count", [1, 2, 70])
def test_equal_packets_arrive_in_order(open_port, traffic, size, count):
    sender, receiver = open_port(), open_port()
    packets = stream(traffic, receiver.address, [size] * count)
    assert traffic.send(sender, packets) == count
    arrivals = traffic.take(receiver, count)
    assert payloads(arrivals) == [packet.payload for packet in packets]
    assert positions(arrivals) == list(range(count))
    assert {arrival.source for arrival in arrivals} == {sender.address}


@pytest.mark.parametrize(("size", "per_super_packet"), [(4096, 15), (1024, 59), (8, 64), (0, 64)])
def test_super_packets_are_as_large_as_they_may_be(open_port, traffic, size, per_super_packet):
    sender, receiver = open_port(), open_port()
    count = 2 * per_super_packet + 3
    traffic.send(sender, stream(traffic, receiver.address, [size] * count))
    assert segment_indices(traffic.take(receiver, count)) == [k % per_super_packet for k in range(count)]


@pytest.mark.parametrize(
    ("sizes", "indices"),
    [
        ([1024, 1024, 100, 100], [0, 1, 2, 0]),  # a shorter one ends the super-packet
        ([100, 1024, 1024], [0, 0, 1]),  # a longer one can not join
        ([1024, 0, 1024, 0], [0, 0, 0, 0]),  # headers never join payload, nor overtake it
        ([0, 0, 1024], [0, 1, 0]),
        ([1022, 1023, 1024, 1021], [0, 1, 2, 3]),  # equal with their padding
    ],
)
def test_packets_that_may_join_a_super_packet(open_port, traffic, sizes, indices):
    sender, receiver = open_port(), open_port()
    traffic.send(sender, stream(traffic, receiver.address, sizes))
    arrivals = traffic.take(receiver, len(sizes))
    assert segment_indices(arrivals) == indices
    assert positions(arrivals) == list(range(len(sizes)))


def test_interleaved_destinations_get_their_own_streams(open_port, traffic):
    sender, receivers = open_port(), [open_port() for _ in range(3)]
    random = np.random.default_rng(7)
    packets = [
        traffic.Packet(receivers[k % 3].address, payload_of(int(random.choice([0, 4, 512, 2048])), k), position=k)
        for k in range(300)
    ]
    assert traffic.send(sender, packets) == 300
    for k, receiver in enumerate(receivers):
        arrivals = traffic.take(receiver, 100)
        assert positions(arrivals) == list(range(k, 300, 3))
        assert payloads(arrivals) == [packet.payload for packet in packets[k::3]]


def test_more_super_packets_than_one_batch(open_port, traffic):
    sender, receiver = open_port(), open_port()
    sizes = [0, 16] * (SEND_MESSAGES + 1)
    assert traffic.send(sender, stream(traffic, receiver.address, sizes)) == len(sizes)
    assert positions(traffic.take(receiver, len(sizes))) == list(range(len(sizes)))


def test_a_batch_is_as_large_as_what_came_last_lets_it_be(open_port, traffic):
    """Few large packets, which stay in the cache until they are checked; as many small ones as there is room for."""
    sender, receiver = open_port(), open_port()

    def batches(sizes):
        traffic.send(sender, stream(traffic, receiver.address, sizes))
        found = [traffic.take_once(receiver)]
        while sum(map(len, found)) < len(sizes):
            found.append(traffic.take_once(receiver))
        assert [place for batch in found for place in positions(batch)] == list(range(len(sizes)))
        return [len(batch) for batch in found]

    large, small = [4096] * 15 * 6, list(range(4, 4 * 65, 4))  # super-packets of 15; single datagrams
    assert batches(large) == [90]
    assert batches(large) == [30, 30, 30]
    assert batches(small) == [2, 16, 16, 16, 14]
    assert batches(large) == [90]


def test_large_packets_are_sent_in_batches(open_port, traffic):
    """Each goes to the kernel before a super-packet of another batch. The order to one destination is kept."""
    sender, receivers, profile = open_port(), [open_port() for _ in range(2)], Profile()
    count = 6 * BATCH_BYTES // 4096
    packets = [traffic.Packet(receivers[k % 2].address, payload_of(4096, k), position=k) for k in range(count)]
    sender.set_profile(profile.begin())
    assert traffic.send(sender, packets) == count
    sender.set_profile(0)
    assert profile.stages()["send"][1] == -(-count // 60)  # super-packets of 15: two are less than a batch
    for k, receiver in enumerate(receivers):
        arrivals = traffic.take(receiver, count // 2)
        assert positions(arrivals) == list(range(k, count, 2))
        assert payloads(arrivals) == [packet.payload for packet in packets[k::2]]


def test_counters_are_bytes_of_ip_packets(open_port, traffic):
    sender, receiver = open_port(), open_port()
    sizes = [4096] * 20 + [5, 0, 0, 1]
    traffic.send(sender, stream(traffic, receiver.address, sizes))
    traffic.take(receiver, len(sizes))
    expected = {
        "packets": len(sizes),
        "bytes": sum(OVERHEAD + size + -size % 4 for size in sizes),
        "payload_bytes": sum(sizes),
    }
    sent, received = sender.peers()[receiver.address], receiver.peers()[sender.address]
    assert {name: sent[f"tx_{name}"] for name in expected} == expected
    assert {name: received[f"rx_{name}"] for name in expected} == expected
    assert Counter(sender.drops()) + Counter(receiver.drops()) == Counter()


def test_the_port_fills_in_the_transport_header(open_port, traffic):
    sender, receiver = open_port(), open_port()
    traffic.send(sender, [traffic.Packet(receiver.address, b"abcde", opcode=0xC6), traffic.Packet(receiver.address)])
    first, second = [arrival.content for arrival in traffic.take(receiver, 2)]
    assert first[:12] == bytes.fromhex("c6 30 ffff 00 fa0c01 00 000000")
    assert second[:12] == bytes.fromhex("c0 00 ffff 00 fa0c01 00 000001")
    assert first[12] == second[12] == fields.WIRE_VERSION


@pytest.mark.parametrize("size", [1, 1023, 4096])
def test_one_payload_for_several(open_port, traffic, size):
    """Its CRC is computed once for a batch; in the next one its memory may have other content."""
    sender, receivers = open_port(), [open_port() for _ in range(3)]
    payload = bytearray(size)
    for batch in range(2):
        payload[:] = payload_of(size, batch)
        packets = [traffic.Packet(receiver.address, payload, position=batch) for receiver in receivers]
        assert traffic.send(sender, packets) == 3
        for receiver in receivers:
            arrivals = traffic.take(receiver, 1)
            assert (positions(arrivals), payloads(arrivals)) == ([batch], [bytes(payload)])
            assert receiver.drops()["drop_icrc"] == 0


def test_other_actions_are_skipped(open_port, traffic):
    sender, receiver = open_port(), open_port()
    assert traffic.send(sender, stream(traffic, receiver.address, [4, 4]), kind=ActionKind.DMA_WRITE) == 0
    assert sender.peers() == {}


def test_packets_longer_than_the_path_mtu_are_dropped_alone(open_port, traffic):
    sender, receiver = open_port(mtu=1500), open_port()
    largest = 1500 - OVERHEAD
    packets = stream(traffic, receiver.address, [largest, largest + 1, 70_000, largest])
    assert traffic.send(sender, packets) == 2
    assert positions(traffic.take(receiver, 2)) == [0, 3]
    assert sender.drops()["drop_too_long"] == 2


def test_a_destination_that_can_not_be_reached_is_counted(open_port, traffic):
    """From a loopback address the kernel sends nothing outside (EINVAL); the others get their packets."""
    sender, receiver = open_port(), open_port()
    packets = [traffic.Packet("192.0.2.1", b"lost"), traffic.Packet(receiver.address, b"good")]
    assert traffic.send(sender, packets) == 1
    assert payloads(traffic.take(receiver, 1)) == [b"good"]
    assert sender.drops()["drop_send_error"] == 1
    assert sender.last_error() == "EINVAL"
    assert sender.peers()["192.0.2.1"]["tx_packets"] == 0
