"""Contributor classes, blocks, and flags of packets decide which ranks bring data and which receive it."""

import numpy as np
import pytest

from fanin_wire import abi
from fanin_wire.abi import ContributorClass, Op, Route, Status
from fanin_wire.fields import Flag, Opcode
from tests.engine.rig import CHUNK, ONE, PARENT, NicRig, Sent, SwitchRig, child_address, f32, place

U8 = abi.DType.U8
ABOVE = ((PARENT, 5, 0xFF),)


def one_of(opcode: Opcode, sent: list[Sent]) -> Sent:
    (packet,) = [packet for packet in sent if packet.opcode == opcode]
    return packet


def bring(rig: SwitchRig, bit: int, position: int, data: np.ndarray | None = None, wants: bool = True) -> list[Sent]:
    """A child's CONTRIBUTION to a ONE position."""
    flags = ONE | (Flag.HAS_DATA if data is not None else 0) | (Flag.WANTS_RESULT if wants else 0)
    return rig.contribute(bit, position, data, op=0, dtype=U8, flags=flags)


# A switch


def test_position_without_data_is_a_mismatch() -> None:
    rig = SwitchRig(2)
    bring(rig, 0, 0)
    assert {packet.ceth["status"] for packet in bring(rig, 1, 0)} == {Status.OP_MISMATCH}


def test_data_of_one_go_up_without_waiting_for_the_others() -> None:
    rig = SwitchRig(3, above=ABOVE)
    up = one_of(Opcode.CONTRIBUTION, bring(rig, 1, 0, f32(7)))
    assert (up.destination, up.payload, up.ceth["flags"] & Flag.WANTS_RESULT) == (PARENT, f32(7).tobytes(), 0)
    assert bring(rig, 0, 0) == []
    assert bring(rig, 2, 0) == []  # nothing goes up twice
    sent = rig.receive(Opcode.RESULT, PARENT, **place(0), flags=ONE, dtype=U8, source=5, node_bitmap=1 << 5)
    assert {packet.payload for packet in sent if packet.destination != child_address(1)} == {f32(7).tobytes()}


def test_result_before_the_contribution_of_the_last_child() -> None:
    rig = SwitchRig(3, above=ABOVE)
    bring(rig, 1, 0, f32(7))
    assert rig.receive(Opcode.RESULT, PARENT, **place(0), flags=ONE, dtype=U8, source=5, node_bitmap=1 << 5) == []
    assert bring(rig, 0, 0) == []
    sent = bring(rig, 2, 0)
    assert {packet.opcode for packet in sent} == {Opcode.RESULT}
    assert len(sent) == 3


def test_need_repeats_early_contributions() -> None:
    rig = SwitchRig(2, above=ABOVE)
    bring(rig, 0, 0, f32(7))
    again = one_of(Opcode.CONTRIBUTION, rig.receive(Opcode.NEED, PARENT, **place(0), source=5))
    assert again.payload == f32(7).tobytes()


@pytest.mark.parametrize("dtype", [0, 1, 40, 255])
@pytest.mark.parametrize("op", [Op.SUM, Op.MEAN])
def test_headers_alone_where_all_bring_data_are_a_mismatch(op: abi.Op, dtype: int) -> None:
    """Nothing is computed, for any operation and type."""
    rig = SwitchRig(2)
    for bit in range(2):
        sent = rig.contribute(bit, 0, None, op=op, dtype=dtype, contributions=2)
    assert {packet.ceth["status"] for packet in sent} == {Status.OP_MISMATCH}


@pytest.mark.parametrize("kind", [ContributorClass.NONE, 3])
def test_data_of_a_class_that_has_none_are_dropped(kind: int) -> None:
    rig = SwitchRig(2)
    assert rig.contribute(0, 0, f32(1), flags=kind << 5 | Flag.HAS_DATA) == []
    assert rig.count("drop_unexpected") == 1


def test_poison_that_comes_after_the_data_went_up_fails_its_own_rank_only() -> None:
    rig = NicRig(ranks=2)
    rig.post(f32(9), rank=0, source_blocks=1, destination_blocks=0, **ONE_CLASS)
    rig.post(f32(0), rank=1, source_blocks=0, destination_blocks=1, destination_lkey=99, **ONE_CLASS)
    rig.from_parent(Opcode.RESULT, 0, flags=ONE, op=0, dtype=U8)
    status = {int(c["queue"]): Status(int(c["status"])) for c in rig.device.completions}
    assert status == {0: Status.SUCCESS, 1: Status.LOCAL_PROTECTION_ERROR}


ONE_CLASS = {"contributors": ContributorClass.ONE, "op": Op.NONE, "dtype": U8}

# A node


def post_blocks(rig: NicRig, source: np.ndarray, result: np.ndarray, rank: int = 0, **changes) -> list[Sent]:
    """Post a WQE over 3 blocks of CHUNK + 4 bytes: two segments each."""
    block = CHUNK + 4
    values = {"length": 3 * block, "block": block, "segments": 6}
    return rig.post(source, result, rank, **(values | changes))


def test_blocks_are_cut_and_put_where_they_belong() -> None:
    rig = NicRig(Route.LOCAL, ranks=2)
    block = (CHUNK + 4) // 4
    data = [np.arange(3 * block, dtype="<f4"), np.ones(3 * block, "<f4")]
    results = [np.zeros(2 * block, "<f4"), np.zeros(block, "<f4")]
    wanted = [{"destination_first": 1, "destination_blocks": 2}, {"destination_first": 0, "destination_blocks": 1}]
    for rank in range(2):
        post_blocks(rig, data[rank], results[rank], rank, source_blocks=3, **wanted[rank])
    assert rig.statuses() == [Status.SUCCESS] * 2
    total = data[0] + data[1]
    assert np.array_equal(results[0], total[block:])
    assert np.array_equal(results[1], total[:block])
    assert rig.engine.tables["queues"][0]["position"] == 6


def test_gathered_blocks() -> None:
    rig = NicRig(Route.LOCAL, ranks=3)
    block = (CHUNK + 4) // 4
    data = [np.full(block, rank, "<f4") for rank in range(3)]
    results = [np.zeros(3 * block, "<f4") for _ in range(3)]
    for rank in (2, 0, 1):
        ranges = {"source_first": rank, "source_blocks": 1, "destination_blocks": 3 if rank == 1 else 0}
        post_blocks(rig, data[rank], results[rank], rank, **ranges, **ONE_CLASS)
    assert rig.statuses() == [Status.SUCCESS] * 3
    assert np.array_equal(results[1], np.repeat(np.arange(3, dtype="<f4"), block))
    assert not results[0].any()


SENSELESS = {
    "a source beyond the message": {"source_first": 3, "source_blocks": 1},
    "a destination beyond the message": {"destination_first": 2, "destination_blocks": 2},
    "a source range that wraps": {"source_first": 2**32 - 1, "source_blocks": 2},
}


@pytest.mark.parametrize("change", SENSELESS.values(), ids=SENSELESS)
def test_senseless_ranges_poison_the_request(change: dict) -> None:
    rig = NicRig(Route.LOCAL)
    post_blocks(rig, np.zeros(64, "<f4"), np.zeros(64, "<f4"), **({"source_blocks": 3} | change), **ONE_CLASS)
    assert rig.statuses() == [Status.INVALID_REQUEST]


@pytest.mark.parametrize(
    "change",
    [
        {"block": 0},
        {"block": 10**6},
        {"block": 6, "segments": 34},  # not whole elements
        {"segments": 5, "sid": 2},
        {"segments": 0},
        {"sid": 2**32 - 1, "segments": 2},
        {"flags": 32 | 1},
        {"flags": 2 | 1},  # a list of one
    ],
    ids=str,
)
def test_message_that_makes_no_sense_ends_the_job(change: dict) -> None:
    rig = NicRig(Route.LOCAL)
    post_blocks(rig, np.zeros(51, "<f4"), np.zeros(51, "<f4"), **({"source_blocks": 3} | change))
    assert rig.statuses() == [Status.INVALID_REQUEST]


def test_rank_that_expects_another_length_is_a_mismatch() -> None:
    rig = NicRig(Route.LOCAL, ranks=2)
    rig.post(f32(1, 2), rank=0, source_blocks=1, destination_blocks=0, **ONE_CLASS)
    rig.post(f32(1), rank=1, source_blocks=0, destination_blocks=1, **ONE_CLASS)
    rig.settle()
    assert rig.statuses()[-1] == Status.OP_MISMATCH


# Fence, inline data, queries


def test_fence_waits_for_earlier_requests() -> None:
    rig = NicRig()
    data = f32(1)
    rig.post(data, data)
    assert rig.post(data, data, flags=9) == []
    (second,) = rig.from_parent(Opcode.RESULT, 0, f32(5).tobytes())
    assert (second.ceth["position"], second.payload) == (1, f32(5).tobytes())


def test_inline_data_need_no_memory() -> None:
    rig = NicRig()
    result = np.zeros(4, "<f4")
    wqe = rig.request(np.zeros(4, "<f4"), result, flags=5, source_lkey=99)
    wqe.view("u1")[112:128] = np.arange(4, dtype="<f4").view("u1")
    rig.engine.post(0, wqe, rig.now)
    (up,) = rig.settle()
    assert np.frombuffer(up.payload, "<f4").tolist() == [0, 1, 2, 3]


def test_too_much_inline_data() -> None:
    rig = NicRig(Route.LOCAL)
    rig.post(np.zeros(5, "<f4"), flags=5)
    assert rig.statuses() == [Status.INVALID_REQUEST]


def test_query_asks_the_parent_for_its_missing_members() -> None:
    rig = NicRig()
    rig.post(f32(1))
    query = {"opcode": abi.WqeOpcode.QUERY, "mid": 3}
    rig.engine.post(0, rig.request(f32(0), f32(0), **query), rig.now)
    assert [packet.opcode for packet in rig.settle()] == [Opcode.PROBE]
    rig.receive(Opcode.WAIT, PARENT, bytes([0, 0, 0, 0, 1, 1, 0, 0]), **place(0), node_bitmap=0b10)
    rig.engine.post(0, rig.request(f32(0), f32(0), **query), rig.now)
    assert rig.settle() == []
    assert [(int(c["missing_kind"]), int(c["missing"])) for c in rig.device.completions] == [(0, 0), (1, 0b10)]


def test_query_says_how_far_a_message_is() -> None:
    rig = NicRig(ranks=2)
    rig.post(np.zeros(40, "<f4"), rank=0)
    rig.engine.post(0, rig.request(f32(0), f32(0), opcode=abi.WqeOpcode.QUERY, mid=3, wr_id=77), rig.now)
    rig.settle()
    (answer,) = rig.device.completions
    assert (answer["status"], answer["wr_id"], answer["opcode"]) == (Status.PENDING, 77, abi.WqeOpcode.QUERY)
    assert (answer["position"], answer["missing_kind"], answer["missing"]) == (0, 0, 0b10)
    rig.engine.post(0, rig.request(f32(0), f32(0), opcode=abi.WqeOpcode.QUERY, mid=9), rig.now)
    rig.settle()
    assert rig.statuses() == [Status.PENDING, Status.SUCCESS]
