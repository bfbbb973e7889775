"""UC and UD, in both directions: arrivals are whole and right, and loss takes whole messages only."""

import ipaddress
import random

import pytest

from fanin_wire.rocev2 import GRH_SIZE
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import RequestOpcode

from .cases import FAULTS, SENDS, WITH_IMMEDIATE, WRITES, ways
from .ends import Completion, End
from .test_reliable import GUARD, in_order, transfer

SOURCE, TARGET = 4096, 1 << 21
MESSAGES = 60
ROOM = 8192
LAST = 0xFFFF
IPV4_AT = 20  # of the 40 bytes before a datagram: the header of IPv4 is the second half


@ways
@pytest.mark.parametrize("mtu", [256, 1024, 4096])
@pytest.mark.parametrize("opcode", [*SENDS, *WRITES], ids=lambda opcode: opcode.name)
def test_unreliable_connection(connect, way, opcode, mtu):
    one, two = in_order(way, connect(Service.UC, PATH_MTU=mtu))
    for number, length in enumerate((0, 1, 256, 4097, 50_000)):
        transfer_unreliably(one, two, opcode, random.Random(number).randbytes(length), number)


def transfer_unreliably(one: End, two: End, opcode: RequestOpcode, data: bytes, number: int) -> None:
    """One message. The end of a WRITE of UC is not reported, so a message follows."""
    if opcode != RequestOpcode.RDMA_WRITE:
        transfer(one, two, opcode, data, number)
        return
    one.fill(SOURCE, data)
    two.fill(TARGET, bytes(len(data) + GUARD))
    one.post(opcode, SOURCE, len(data), to=two, at=TARGET, wr_id=number)
    assert [(done.wr_id, done.status) for done in one.sent()] == [(number, "SUCCESS")]
    two.post_receive(TARGET, 0)
    one.post(RequestOpcode.SEND, SOURCE, 0, to=two)
    assert [done.status for done in (*one.sent(), *two.received())] == ["SUCCESS", "SUCCESS"]
    assert two.bytes(TARGET, len(data) + GUARD) == data + bytes(GUARD)


def arrivals(two: End) -> list[Completion]:
    """Completions up to the last message."""
    found: list[Completion] = []
    while not found or found[-1].immediate != LAST:
        found += two.received()
    return found


def send_many(wire, one: End, two: End, faults: str, lengths: list[int], before: int) -> list[tuple[int, int, bool]]:
    """Send messages of these lengths with faults, and one without. Of each arrival: number, bytes, and whether its data
    are right. before: bytes in front of the data."""
    numbers = random.Random(3)
    data = [numbers.randbytes(length) for length in lengths]
    for place in range(MESSAGES):
        two.post_receive(TARGET + place * ROOM, ROOM, wr_id=place)
    wire.faults = FAULTS[faults]
    for number, content in enumerate(data):
        one.fill(SOURCE, content)
        one.post(RequestOpcode.SEND_WITH_IMM, SOURCE, len(content), to=two, wr_id=number, immediate=number)
        assert [(done.wr_id, done.status) for done in one.sent()] == [(number, "SUCCESS")]
    wire.rest(0.5)
    wire.faults = FAULTS["none"]
    one.post(RequestOpcode.SEND_WITH_IMM, SOURCE, 0, to=two, immediate=LAST)
    one.sent()
    found = arrivals(two)
    assert found.pop().status == "SUCCESS"
    results = []
    for done in found:
        assert done.status == "SUCCESS"
        assert done.immediate is not None
        got = two.bytes(TARGET + done.wr_id * ROOM + before, done.length - before)
        results.append((done.immediate, done.length - before, got == data[done.immediate]))
    return results


@ways
def test_loss_on_an_unreliable_connection(connect, wire, way):
    one, two = in_order(way, connect(Service.UC, PATH_MTU=256))
    lengths = [random.Random(number).randrange(1, 8000) for number in range(MESSAGES - 2)]
    results = send_many(wire, one, two, "loss", lengths, 0)
    assert 0 < len(results) < len(lengths)
    assert [number for number, *_ in results] == sorted({number for number, *_ in results})
    for number, length, is_right in results:
        assert (length, is_right) == (lengths[number], True), f"message {number}"


@ways
@pytest.mark.parametrize("faults", ["none", "all"])
def test_datagrams(connect, wire, way, faults):
    one, two = in_order(way, connect(Service.UD))
    lengths = [0, 1, 2, 3, 4, 4095, 4096, *(random.Random(number).randrange(4096) for number in range(40))]
    results = send_many(wire, one, two, faults, lengths, GRH_SIZE)
    if faults == "none":
        assert [number for number, *_ in results] == list(range(len(lengths)))
    assert len(results) > len(lengths) // 2
    for number, length, is_right in results:
        assert (length, is_right) == (lengths[number], True), f"datagram {number}"


@ways
@pytest.mark.parametrize("opcode", SENDS, ids=lambda opcode: opcode.name)
def test_a_datagram_says_where_it_comes_from(connect, way, opcode):
    one, two = in_order(way, connect(Service.UD))
    one.fill(SOURCE, b"datagram")
    two.post_receive(TARGET, 200, wr_id=4)
    one.post(opcode, SOURCE, 8, to=two, immediate=0xABCD)
    immediate = 0xABCD if opcode in WITH_IMMEDIATE else None
    assert two.received() == [Completion(4, "SUCCESS", "RECV", GRH_SIZE + 8, immediate, one.qpn)]
    header, data = two.bytes(TARGET, GRH_SIZE), two.bytes(TARGET + GRH_SIZE, 8 + GUARD)
    assert data == b"datagram" + bytes(GUARD)
    assert header[IPV4_AT] == 0x45
    assert ipaddress.IPv4Address(header[IPV4_AT + 12 : IPV4_AT + 16]) == ipaddress.IPv4Address(one.text)
    assert ipaddress.IPv4Address(header[IPV4_AT + 16 :]) == ipaddress.IPv4Address(two.text)
    assert header[:IPV4_AT] == bytes(IPV4_AT)


@ways
def test_wrong_qkey(connect, wire, way):
    """A datagram with another Q_Key is dropped without other effects."""
    one, two = in_order(way, connect(Service.UD))
    two.post_receive(TARGET, 200, wr_id=4)
    one.post(RequestOpcode.SEND, SOURCE, 8, to=two, qkey=0x2222)
    assert one.sent()[0].status == "SUCCESS"
    wire.rest(0.3)
    one.post(RequestOpcode.SEND_WITH_IMM, SOURCE, 8, to=two, immediate=9)
    assert [done.immediate for done in two.received()] == [9]
