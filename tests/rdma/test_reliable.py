"""A reliable connection: every operation in both directions, with every fault: right data, one right completion for
each request, and a queue pair that goes on."""

import random

import pytest

from fanin_wire.verbs import RequestOpcode, SendFlag

from .cases import ALL, ATOMICS, FAULTS, RECEIVED, WITH_IMMEDIATE, opcodes, paths, ways
from .ends import Completion, End

SOURCE, TARGET = 4096, 1 << 21
GUARD = 64  # bytes after the data that must not change
LENGTHS = (0, 1, 255, 256, 1023, 4097, 20_000)
LONGEST = {True: 1 << 20, False: 1 << 17}  # bytes, without faults or in the full run, and otherwise
MANY = 40
WORD = 1 << 64


def in_order(way: str, connection: tuple[End, End]) -> tuple[End, End]:
    fanin, rxe = connection
    return (fanin, rxe) if way.startswith("fanin") else (rxe, fanin)


def transfer(one: End, two: End, opcode: RequestOpcode, data: bytes, number: int) -> None:
    """One request from its post to its completions and its data."""
    length, immediate = len(data), 0x1234_5600 + number
    source, target = (two, one) if opcode == RequestOpcode.RDMA_READ else (one, two)
    source.fill(SOURCE, data)
    target.fill(TARGET, bytes(length + GUARD))
    if opcode in RECEIVED:
        two.post_receive(TARGET, length, wr_id=1000 + number)
    if opcode == RequestOpcode.RDMA_READ:
        one.post(opcode, TARGET, length, to=two, at=SOURCE, wr_id=number)
    else:
        one.post(opcode, SOURCE, length, to=two, at=TARGET, wr_id=number, immediate=immediate)
    (sent,) = one.sent()
    assert (sent.wr_id, sent.status) == (number, "SUCCESS")
    assert sent.opcode == opcode.name.removesuffix("_WITH_IMM")
    if opcode in RECEIVED:
        expected = immediate if opcode in WITH_IMMEDIATE else None
        kind = "RECV" if "SEND" in opcode.name else "RECV_RDMA_WITH_IMM"
        assert two.received() == [Completion(1000 + number, "SUCCESS", kind, length, expected, 0)]
    assert target.bytes(TARGET, length + GUARD) == data + bytes(GUARD)


@paths
@ways
@opcodes
def test_every_length(connect, wire, way, opcode, mtu, faults):
    one, two = in_order(way, connect(PATH_MTU=mtu))
    wire.faults = FAULTS[faults]
    for number, length in enumerate((*LENGTHS, LONGEST[ALL or faults == "none"])):
        transfer(one, two, opcode, random.Random(number).randbytes(length), number)
    assert (one.state(), two.state()) == ("RTS", "RTS")


@paths
@ways
def test_atomics(connect, wire, way, mtu, faults):
    one, two = in_order(way, connect(PATH_MTU=mtu))
    wire.faults = FAULTS[faults]
    value = WORD - 5
    two.fill(TARGET, value.to_bytes(8, "little"))
    for number in range(MANY):
        if number % 2:
            add = random.Random(number).randrange(WORD)
            arguments, after = {"compare_add": add}, (value + add) % WORD
        else:
            compare = value if number % 4 else value ^ 1  # every second one finds another value
            swap = random.Random(number).randrange(WORD)
            arguments, after = {"compare_add": compare, "swap": swap}, swap if compare == value else value
        one.post(ATOMICS[number % 2], SOURCE, 8, to=two, at=TARGET, wr_id=number, **arguments)
        (sent,) = one.sent()
        assert (sent.wr_id, sent.status) == (number, "SUCCESS")
        assert sent.opcode == ("FETCH_ADD" if number % 2 else "COMP_SWAP")
        assert int.from_bytes(one.bytes(SOURCE, 8), "little") == value
        assert int.from_bytes(two.bytes(TARGET, 8), "little") == after
        value = after


@paths
@ways
def test_many_requests_under_way(connect, wire, way, mtu, faults):
    """All kinds at once, posted before the first one ends. Completions are in order, and the data prove that execution
    was, too. No WRITE goes where an earlier READ reads: a repeated READ may find later data (section 10.8.3.3 demands a
    fence for that). Some of Fanin's requests are fenced; rxe's are not, since a lost packet would stop it for good
    (`test_defects.py`).
    """
    one, two = in_order(way, connect(PATH_MTU=mtu))
    wire.faults = FAULTS[faults]
    block, numbers = 3000, random.Random(7)
    image, counter = bytearray(block * MANY), 0
    data = numbers.randbytes(block * MANY)
    one.fill(SOURCE, data)
    reads, atomics = {}, {}
    for number in range(MANY):
        two.post_receive((1 << 20) + number * block, block, wr_id=1000 + number)
    expected, place, written = [], 1 << 19, []
    for number in range(MANY):
        offset, at = number * block, TARGET + number * block
        kind = numbers.choice(["send", "write", "read", "add"])
        fence = int(SendFlag.FENCE) if way.startswith("fanin") and number % 3 == 0 else 0
        flags = int(SendFlag.SIGNALED) | fence
        expected.append({"send": "SEND", "write": "RDMA_WRITE", "read": "RDMA_READ", "add": "FETCH_ADD"}[kind])
        if kind == "send":
            one.post(RequestOpcode.SEND, SOURCE + offset, block, to=two, wr_id=number, flags=flags)
        elif kind == "write":
            one.post(RequestOpcode.RDMA_WRITE, SOURCE + offset, block, to=two, at=at, wr_id=number, flags=flags)
            written.append(at)
            image[at - TARGET : at - TARGET + block] = data[offset : offset + block]
        elif kind == "read":
            at = numbers.choice(written) if written else at
            one.post(RequestOpcode.RDMA_READ, place + offset, block, to=two, at=at, wr_id=number, flags=flags)
            reads[place + offset] = bytes(image[at - TARGET : at - TARGET + block])
        else:
            word = 1 << 18
            operation = RequestOpcode.ATOMIC_FETCH_AND_ADD
            one.post(operation, place + offset, 8, to=two, at=word, wr_id=number, compare_add=3, flags=flags)
            atomics[place + offset], counter = counter, counter + 3
    done = one.sent(MANY)
    assert [(each.wr_id, each.status, each.opcode) for each in done] == [
        (number, "SUCCESS", opcode) for number, opcode in enumerate(expected)
    ]
    sends = [number for number, opcode in enumerate(expected) if opcode == "SEND"]
    for place_in_order, (number, each) in enumerate(zip(sends, two.received(len(sends)), strict=True)):
        assert (each.wr_id, each.status, each.length) == (1000 + place_in_order, "SUCCESS", block)
        got = two.bytes((1 << 20) + place_in_order * block, block)
        assert got == data[number * block : (number + 1) * block]
    assert two.bytes(TARGET, len(image)) == bytes(image)
    assert {offset: one.bytes(offset, block) for offset in reads} == reads
    assert {offset: int.from_bytes(one.bytes(offset, 8), "little") for offset in atomics} == atomics


@pytest.mark.parametrize("first", [0, (1 << 24) - 3])
@ways
def test_numbers_of_packets_run_over(connect, way, first):
    one, two = in_order(way, connect(PATH_MTU=256, SQ_PSN=first, RQ_PSN=first))
    for number in range(4):
        transfer(one, two, RequestOpcode.RDMA_WRITE_WITH_IMM, random.Random(number).randbytes(1000), number)
        transfer(one, two, RequestOpcode.RDMA_READ, random.Random(number).randbytes(1000), number)
