"""Parts of one message in the engines of two lanes: each byte is sent once, and one completion counts all."""

import numpy as np
import pytest

from fanin_wire.abi import ContributorClass, DType, Op, Status, WqeFlag, WqeOpcode
from tests.lanes.rig import CHUNK
from tests.lanes.stepped_lanes import LANES, LKEY, SteppedLanes

PENDING, SUCCESS = Status.PENDING, Status.SUCCESS


def segments_of(length: int, block: int) -> int:
    """Segments of a message: each block begins a new one."""
    whole, rest = divmod(length, block)
    return whole * -(-block // CHUNK) + -(-rest // CHUNK)


def post(lanes: SteppedLanes, source: np.ndarray, destination: np.ndarray, block: int, **members) -> int:
    """A message that the only rank brings and wants as a whole. Returns its number of segments."""
    length = source.nbytes
    blocks = -(-length // block)
    address = (destination.ctypes.data, 0, blocks, 0, blocks, source.ctypes.data)
    lanes.post(
        length=length, block=block, segments=segments_of(length, block), source_lkey=LKEY, destination_lkey=LKEY,
        address=np.array([address], "u8,u4,u4,u4,u4,u8"), **members,
    )  # fmt: skip
    return segments_of(length, block)


def run(lanes: SteppedLanes) -> list[np.void]:
    """Let the lanes run until the client has completions."""
    for _ in range(1000):
        for lane in (*range(LANES), 0):
            lanes.turn(lane)
        if found := lanes.completions():
            return found
    raise AssertionError("no completion")


@pytest.mark.parametrize(("contributors", "op"), [("ONE", "NONE"), ("ALL", "SUM")])
@pytest.mark.parametrize("block", [1 << 20, 5 * CHUNK, CHUNK + 4, 400])
def test_a_message_of_all_lanes_is_whole(lanes, contributors, op, block):
    size = 70 * CHUNK + 8
    memory = np.zeros(2 * size, np.uint8)
    source, destination = memory[:size], memory[size:]
    source[:] = np.random.default_rng(1).integers(0, 255, size)
    lanes.register(memory)
    lanes.joined()
    kind = {"op": Op[op], "dtype": DType.I32, "contributors": ContributorClass[contributors]}
    segments = post(lanes, source, destination, min(block, size), mid=3, wr_id=8, **kind)
    (cqe,) = run(lanes)
    assert (cqe["status"], cqe["wr_id"], cqe["positions"], cqe["byte_length"]) == (SUCCESS, 8, segments, size)
    assert np.array_equal(source, destination)
    assert all(core.engine.counters()["segments"] for core in lanes.cores)


def test_a_query_counts_the_part_that_is_done_and_the_one_that_is_not(lanes):
    """Lane 0 finishes its part before lane 1 has begun."""
    size = 40 * CHUNK - 12
    memory = np.zeros(2 * size, np.uint8)
    lanes.register(memory)
    lanes.joined()
    all_bring = {"op": Op.SUM, "dtype": DType.I32, "contributors": ContributorClass.ALL}
    post(lanes, memory[:size], memory[size:], size, mid=3, wr_id=8, **all_bring)
    for _ in range(10):
        lanes.turn(0)
    lanes.post(opcode=WqeOpcode.QUERY, mid=3, wr_id=9)
    answer, *others = run(lanes)
    assert (answer["wr_id"], answer["status"], answer["mid"]) == (9, PENDING, 3)
    assert 20 <= answer["positions"] < 40
    assert answer["byte_length"] == answer["positions"] * CHUNK
    (cqe,) = others or run(lanes)
    assert (cqe["wr_id"], cqe["byte_length"]) == (8, size)


def test_inline_data_go_to_all_lanes(lanes):
    """Inline data, of one block, go to all lanes with every part."""
    memory = np.zeros(64, np.uint8)
    lanes.register(memory)
    lanes.joined()
    lanes.post(
        op=Op.SUM, dtype=DType.I32, contributors=ContributorClass.ALL, length=16, block=16, segments=1,
        flags=WqeFlag.SIGNALED | WqeFlag.INLINE, destination_lkey=LKEY, inline_tail=7,
        address=np.array([(memory.ctypes.data, 0, 1, 0, 1, 5)], "u8,u4,u4,u4,u4,u8"),
    )  # fmt: skip
    (cqe,) = run(lanes)
    assert (cqe["status"], cqe["byte_length"]) == (SUCCESS, 16)
    assert list(memory[:16].view("u8")) == [5, 7]
