"""Every operation of RC between two transports: right bytes, completions, and packets of the specification."""

import random

import pytest

from fanin_wire.verbs import CompletionOpcode, RequestOpcode, SendFlag

from .rig import MILLISECOND, SIGNALED, Pair

LENGTHS = (0, 1, 3, 255, 256, 257, 512, 1000, 8192)
MTUS = (256, 1024, 4096)
SOURCE, TARGET = 1024, 32768


def data_of(length: int) -> bytes:
    return random.Random(length).randbytes(length)


def part_names(operation: str, length: int, mtu: int, suffix: str = "") -> list[str]:
    packets = max(1, -(-length // mtu))
    if packets == 1:
        return [f"{operation}_ONLY{suffix}"]
    return [f"{operation}_FIRST", *[f"{operation}_MIDDLE"] * (packets - 2), f"{operation}_LAST{suffix}"]


def remote(pair: Pair, offset: int = TARGET) -> dict[str, int]:
    """A place in the memory of the other side."""
    return {"remote_address": pair.two.start + offset, "rkey": pair.two.key}


def requests_of(pair: Pair) -> list[str]:
    """Packets of the first endpoint, without acknowledgements."""
    return [p.name[3:] for p in pair.log if p.source == pair.one.address and p.name != "RC_ACKNOWLEDGE"]


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("length", LENGTHS)
def test_send(length: int, mtu: int):
    pair = Pair(PATH_MTU=mtu, psns=(0xFFFFFE, 5))
    data = data_of(length)
    pair.one.fill(SOURCE, data)
    pair.two.post_receive((TARGET, length + 10))
    pair.one.post(RequestOpcode.SEND, (SOURCE, length))
    pair.run()
    assert pair.two.bytes(TARGET, length + 10) == data + bytes(10)
    assert requests_of(pair) == part_names("SEND", length, mtu)
    (sent,), (received,) = pair.one.completions, pair.two.completions
    assert (sent.wr_id, sent.status, sent.opcode, sent.length) == (100, 0, CompletionOpcode.SEND, length)
    assert (received.wr_id, received.status, received.opcode, received.length) == (200, 0, 128, length)
    assert (sent.cq, received.cq) == (0, 1)
    assert received.flags == received.solicited == 0


@pytest.mark.parametrize("length", LENGTHS)
def test_send_with_immediate(length: int):
    pair = Pair()
    pair.one.fill(SOURCE, data_of(length))
    pair.two.post_receive((TARGET, 8192))
    flags = SIGNALED | SendFlag.SOLICITED
    pair.one.post(RequestOpcode.SEND_WITH_IMM, (SOURCE, length), immediate=0xCAFE0001, flags=flags)
    pair.run()
    assert requests_of(pair) == part_names("SEND", length, 256, "_WITH_IMMEDIATE")
    (received,) = pair.two.completions
    assert (received.immediate, received.flags, received.solicited) == (0xCAFE0001, 2, 1)
    assert pair.two.bytes(TARGET, length) == data_of(length)


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("length", LENGTHS)
def test_write(length: int, mtu: int):
    pair = Pair(PATH_MTU=mtu)
    pair.one.fill(SOURCE, data_of(length))
    pair.one.post(RequestOpcode.RDMA_WRITE, (SOURCE, length), **remote(pair))
    pair.run()
    assert pair.two.bytes(TARGET - 8, length + 16) == bytes(8) + data_of(length) + bytes(8)
    assert requests_of(pair) == part_names("RDMA_WRITE", length, mtu)
    assert pair.one.completions[0][1:4] == (0, CompletionOpcode.RDMA_WRITE, length)
    assert pair.two.completions == []


@pytest.mark.parametrize("length", LENGTHS)
def test_write_with_immediate(length: int):
    pair = Pair()
    pair.one.fill(SOURCE, data_of(length))
    pair.two.post_receive()
    pair.one.post(RequestOpcode.RDMA_WRITE_WITH_IMM, (SOURCE, length), immediate=7, **remote(pair))
    pair.run()
    assert pair.two.bytes(TARGET, length) == data_of(length)
    assert requests_of(pair) == part_names("RDMA_WRITE", length, 256, "_WITH_IMMEDIATE")
    (received,) = pair.two.completions
    assert received.opcode == CompletionOpcode.RECV_RDMA_WITH_IMM
    assert (received.length, received.immediate, received.flags) == (length, 7, 2)


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("length", LENGTHS)
def test_read(length: int, mtu: int):
    pair = Pair(PATH_MTU=mtu, psns=(0xFFFFF0, 0))
    pair.two.fill(TARGET, data_of(length))
    pair.one.post(RequestOpcode.RDMA_READ, (SOURCE, length), **remote(pair))
    pair.run()
    assert pair.one.bytes(SOURCE - 8, length + 16) == bytes(8) + data_of(length) + bytes(8)
    assert pair.names() == ["RDMA_READ_REQUEST", *part_names("RDMA_READ_RESPONSE", length, mtu)]
    assert pair.one.completions[0][1:4] == (0, CompletionOpcode.RDMA_READ, length)


def test_atomics_of_one_queue_pair_run_in_order():
    pair = Pair()
    for number in range(12):  # more than may be under way
        pair.one.post(
            RequestOpcode.ATOMIC_FETCH_AND_ADD, (SOURCE + 8 * number, 8), compare_add=1, wr_id=number, **remote(pair)
        )
    assert pair.one.transport.queue_pair(0)["reads"] == 4
    pair.run()
    values = [int.from_bytes(pair.one.bytes(SOURCE + 8 * number, 8), "little") for number in range(12)]
    assert values == list(range(12))
    assert [completion.wr_id for completion in pair.one.completions] == list(range(12))


def test_fence_waits_for_reads():
    pair = Pair()
    pair.one.post(RequestOpcode.RDMA_READ, (SOURCE, 100), **remote(pair))
    flags = SIGNALED | SendFlag.FENCE
    pair.two.post_receive((TARGET, 100))
    pair.one.post(RequestOpcode.SEND, (SOURCE, 10), flags=flags)
    assert [packet.name for packet in pair.one.sent] == ["RC_RDMA_READ_REQUEST"]
    pair.run()
    assert pair.one.statuses() == ["SUCCESS", "SUCCESS"]


@pytest.mark.parametrize("length", [0, 1, 100, 128])
def test_inline(length: int):
    pair = Pair()
    pair.one.post(RequestOpcode.RDMA_WRITE, inline=data_of(length), **remote(pair))
    pair.run()
    assert pair.two.bytes(TARGET, length) == data_of(length)
    assert pair.one.completions[0].length == length


def test_pieces_are_gathered_and_scattered():
    pair = Pair()
    lengths_out, lengths_in = (1, 0, 300, 7, 256, 100, 2, 34), (400, 13, 0, 287)
    data = data_of(sum(lengths_out))
    at, pieces = 0, []
    for number, length in enumerate(lengths_out):
        pair.one.fill(SOURCE + 1000 * number, data[at : at + length])
        pieces.append((SOURCE + 1000 * number, length))
        at += length
    pair.two.post_receive(*((TARGET + 1000 * number, length) for number, length in enumerate(lengths_in)))
    pair.one.post(RequestOpcode.SEND, *pieces)
    pair.run()
    got = b"".join(pair.two.bytes(TARGET + 1000 * number, length) for number, length in enumerate(lengths_in))
    assert got == data
    assert pair.two.completions[0].length == len(data) == 700


def test_unsignaled_requests_have_no_completion():
    pair = Pair()
    pair.one.post(RequestOpcode.RDMA_WRITE, (SOURCE, 10), flags=0, **remote(pair))
    pair.one.post(RequestOpcode.RDMA_WRITE, (SOURCE, 10), wr_id=2, **remote(pair))
    pair.run()
    assert [completion.wr_id for completion in pair.one.completions] == [2]


def test_queue_pair_that_signals_all():
    pair = Pair()
    pair.one.transport.queue_pair(0)["all_signaled"] = 1
    pair.one.post(RequestOpcode.RDMA_WRITE, (SOURCE, 10), flags=0, **remote(pair))
    pair.run()
    assert pair.one.statuses() == ["SUCCESS"]


def test_window_is_kept_and_acknowledgements_are_coalesced():
    pair = Pair()
    length = 256 * 100
    pair.one.fill(SOURCE, data_of(length))
    pair.one.post(RequestOpcode.RDMA_WRITE, (SOURCE, length), **remote(pair))
    assert len(pair.one.sent) == 16  # the window
    pair.run()
    assert pair.two.bytes(TARGET, length) == data_of(length)
    assert pair.names().count("ACKNOWLEDGE") < 100 // 4
    assert pair.one.count("resent") == 0


def test_one_acknowledgement_for_a_batch():
    pair = Pair()
    for _ in range(10):
        pair.one.post(RequestOpcode.RDMA_WRITE, (SOURCE, 10), **remote(pair))
    pair.run()
    assert pair.names() == ["RDMA_WRITE_ONLY"] * 10 + ["ACKNOWLEDGE"]
    assert pair.one.statuses() == ["SUCCESS"] * 10


def test_responder_answers_before_it_acknowledges():
    """An acknowledgement that overtakes a response would mean that it is lost."""
    pair = Pair()
    pair.two.fill(TARGET, data_of(8192))
    pair.one.post(RequestOpcode.RDMA_READ, (SOURCE, 8192), **remote(pair))
    pair.one.post(RequestOpcode.RDMA_WRITE, (SOURCE + 20000, 10), **remote(pair, TARGET + 10000))
    pair.run()
    assert pair.one.count("implied_naks") == 0
    assert pair.one.statuses() == ["SUCCESS", "SUCCESS"]


def test_both_directions_at_once():
    pair = Pair(psns=(0xFFFFFF, 0x7FFFFF))
    for end, other in ((pair.one, pair.two), (pair.two, pair.one)):
        end.fill(SOURCE, data_of(3000))
        end.post(RequestOpcode.RDMA_WRITE, (SOURCE, 3000), remote_address=other.start + TARGET, rkey=other.key)
        end.post(RequestOpcode.RDMA_READ, (SOURCE + 5000, 3000), remote_address=other.start + SOURCE, rkey=other.key)
    pair.run()
    for end in (pair.one, pair.two):
        assert end.bytes(TARGET, 3000) == end.bytes(SOURCE + 5000, 3000) == data_of(3000)
        assert end.statuses() == ["SUCCESS", "SUCCESS"]


def test_queue_pairs_without_work_send_nothing():
    pair = Pair()
    pair.pass_time(100 * MILLISECOND)
    assert pair.log == []
