"""Reduction of all ranks of a node: positions bypass the seg buffers, wait, or are contributed alone."""

import numpy as np
import pytest

from fanin_nic.engine.records.actions import ActionKind
from fanin_wire.abi import ContributorClass, Op, Route, Status, WqeFlag
from tests.engine.rig import CHUNK, JID, LIMITS, MILLISECOND, NicRig, f32

RANKS = 3
SHORT_BYTES = 4096  # sums of more are computed from memory to memory
LONG = CHUNK // 4 * 11 + 3  # elements: three windows of segments


def numbers(rank: int, count: int = LONG) -> np.ndarray:
    """A rank's data: whole numbers, whose sums are exact."""
    return (np.arange(count) * (rank + 1) % 251).astype("<f4")


def kinds(rig: NicRig) -> list[ActionKind]:
    """The actions for the driver."""
    return [ActionKind(int(kind)) for kind in rig.engine.tables["actions"]["kind"][: rig.engine.header["action_count"]]]


def posted(rig: NicRig, data: list[np.ndarray], **changes) -> list[np.ndarray]:
    """All ranks post before the device looks. Returns their results."""
    results = [np.zeros_like(each) for each in data]
    for rank, (source, result) in enumerate(zip(data, results, strict=True)):
        rig.engine.post(rank, rig.request(source, result, rank, **changes), rig.now)
    return results


def test_nothing_waits_in_a_seg_buffer_if_all_have_posted() -> None:
    rig = NicRig(Route.LOCAL, ranks=RANKS)
    data = [numbers(rank) for rank in range(RANKS)]
    results = posted(rig, data)
    rig.engine.serve(rig.now)
    assert kinds(rig) == [ActionKind.REDUCE, *[ActionKind.SOURCE] * RANKS, *[ActionKind.TARGET] * RANKS]
    rig.settle()
    assert rig.statuses() == [Status.SUCCESS] * RANKS
    assert all(np.array_equal(result, sum(data)) for result in results)
    assert rig.job["high_water"] == 0
    assert rig.count("segments") == RANKS * 12


def test_longer_sum_bypasses_the_seg_buffers_where_a_broadcast_of_its_length_arrives() -> None:
    length, slots = SHORT_BYTES + 4, 8
    limits = LIMITS._replace(slots=slots, max_lease=slots, max_chunk=2 * SHORT_BYTES)
    rig = NicRig(Route.LOCAL, ranks=RANKS, join=False, limits=limits)
    for rank in range(RANKS):
        rig.join(rank, slots=slots, chunk=2 * SHORT_BYTES)
    data = [numbers(rank, length // 4) for rank in range(RANKS)]
    results = posted(rig, data, chunk=2 * SHORT_BYTES, segments=1)
    rig.engine.serve(rig.now)
    assert ActionKind.REDUCE in kinds(rig)
    rig.settle()
    assert all(np.array_equal(result, sum(data)) for result in results)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_one_open_position_shows_who_is_missing(order: tuple[int, ...]) -> None:
    rig = NicRig(Route.LOCAL, ranks=RANKS)
    data, results = [numbers(rank) for rank in range(RANKS)], [np.zeros(LONG, "<f4") for _ in range(RANKS)]
    for number, rank in enumerate(order[:-1]):
        rig.post(data[rank], results[rank], rank)
        assert rig.job["in_flight"] == 1
        assert rig.slot(0)["rank_missing"] == sum(1 << other for other in order[number + 1 :])
    rig.post(data[order[-1]], results[order[-1]], order[-1])
    assert rig.statuses() == [Status.SUCCESS] * RANKS
    assert all(np.array_equal(result, sum(data)) for result in results)
    assert rig.job["high_water"] == 1


def test_messages_behind_each_other_stay_in_step() -> None:
    """One rank is several messages ahead; each message has its own results."""
    rig = NicRig(Route.LOCAL, ranks=2)
    places = [(rank, mid) for rank in range(2) for mid in range(3)]
    data = {(rank, mid): numbers(rank + mid, LONG // 3) for rank, mid in places}
    results = {place: np.zeros(LONG // 3, "<f4") for place in places}
    for rank, mid in places:
        rig.post(data[rank, mid], results[rank, mid], rank, mid=mid)
        assert rig.job["in_flight"] == ((rank, mid) != places[-1])  # of all that waits for the other rank, one
    assert rig.statuses() == [Status.SUCCESS] * 6
    for (_, mid), result in results.items():
        assert np.array_equal(result, numbers(mid, LONG // 3) + numbers(mid + 1, LONG // 3))


@pytest.mark.parametrize("changes", [{"op": Op.MAX}, {"mid": 4}, {"length": 4 * LONG - 4, "segments": 12}], ids=str)
def test_mismatching_rank_is_named(changes: dict) -> None:
    """The second rank is named; either rank, if lengths differ in the last segment only."""
    rig = NicRig(Route.LOCAL, ranks=2)
    data = [numbers(0), numbers(1)]
    rig.post(data[0], rank=0)
    rig.post(data[1], rank=1, **changes)
    assert rig.statuses() == [Status.OP_MISMATCH] * 2
    named = {int(completion["missing"]) for completion in rig.device.completions}
    assert named in ([{0b10}, {0b01}] if "length" in changes else [{0b10}])


def test_a_rank_that_leaves_ends_what_waits_for_it() -> None:
    rig, data = NicRig(Route.LOCAL, ranks=2), numbers(0)
    rig.post(data, rank=0)
    rig.engine.leave(1, 9, rig.now)
    rig.settle()
    assert rig.statuses() == [Status.ABORTED]
    assert int(rig.device.completions[0]["missing"]) == 0b10


def test_mean_is_divided_once() -> None:
    rig = NicRig(Route.LOCAL, ranks=RANKS)
    data = [numbers(rank) for rank in range(RANKS)]
    results = posted(rig, data, op=Op.MEAN)
    rig.settle()
    assert all(np.array_equal(result, sum(data) / np.float32(RANKS)) for result in results)


def test_a_rank_may_have_its_result_where_its_data_are() -> None:
    rig = NicRig(Route.LOCAL, ranks=2)
    data = [numbers(0), numbers(1)]
    expected = data[0] + data[1]
    for rank in range(2):
        rig.engine.post(rank, rig.request(data[rank], data[rank], rank, flags=WqeFlag.SIGNALED | WqeFlag.LONG), rig.now)
    rig.settle()
    assert np.array_equal(data[0], expected)
    assert np.array_equal(data[1], expected)


def reductions(rig: NicRig) -> list[bool]:
    """Whether the results of each REDUCE bypass the caches."""
    actions = rig.engine.tables["actions"][: rig.engine.header["action_count"]]
    return [bool(action["is_long"]) for action in actions if action["kind"] == ActionKind.REDUCE]


@pytest.mark.parametrize(("in_place", "past"), [((), True), ((0, 1), False), ((0,), True)])
def test_a_long_result_goes_past_the_caches_but_where_its_data_were(in_place: tuple[int, ...], past: bool) -> None:
    """In-place data have just been read."""
    rig = NicRig(Route.LOCAL, ranks=2)
    data = [numbers(rank) for rank in range(2)]
    for rank, source in enumerate(data):
        result = source if rank in in_place else np.zeros_like(source)
        rig.engine.post(rank, rig.request(source, result, rank, flags=WqeFlag.SIGNALED | WqeFlag.LONG), rig.now)
    rig.engine.serve(rig.now)
    assert reductions(rig) == [past]


def test_a_block_of_ones_own_is_where_its_data_were() -> None:
    """An allgather of 2 blocks of one segment; each rank's own block lies in its result."""
    rig, count = NicRig(Route.LOCAL, ranks=2), CHUNK // 4
    wholes = [numbers(rank, 2 * count) for rank in range(2)]
    one = {"contributors": ContributorClass.ONE, "flags": WqeFlag.SIGNALED | WqeFlag.LONG}
    blocks = {"length": 2 * CHUNK, "block": CHUNK, "segments": 2, "source_blocks": 1, "destination_blocks": 2}
    for rank, whole in enumerate(wholes):
        own = whole[rank * count :]
        rig.engine.post(rank, rig.request(own, whole, rank, source_first=rank, **one, **blocks), rig.now)
    rig.engine.serve(rig.now)
    assert reductions(rig) == [True, True]  # for the other it goes past them
    rig.settle()
    assert np.array_equal(*wholes)


@pytest.mark.parametrize("givers", [0, 1, 2])
def test_a_broadcast_has_one_giver(givers: int) -> None:
    rig = NicRig(Route.LOCAL, ranks=RANKS)
    data, results = [numbers(rank) for rank in range(RANKS)], [np.zeros(LONG, "<f4") for _ in range(RANKS)]
    for rank in range(RANKS):
        given = {"contributors": ContributorClass.ONE, "source_blocks": int(rank < givers)}
        rig.engine.post(rank, rig.request(data[rank], results[rank], rank, **given), rig.now)
    rig.settle()
    assert rig.statuses() == [Status.SUCCESS if givers == 1 else Status.OP_MISMATCH] * RANKS
    if givers == 1:
        assert all(np.array_equal(result, data[0]) for result in results)
        assert rig.job["high_water"] == 0


def test_it_ends_where_others_give_or_take() -> None:
    """A message of 3 blocks of 2 segments each; the first rank wants the last two blocks, the second the first."""
    rig, block = NicRig(Route.LOCAL, ranks=2), (CHUNK + 4) // 4
    data = [numbers(0, 3 * block), numbers(1, 3 * block)]
    results = [np.zeros(2 * block, "<f4"), np.zeros(block, "<f4")]
    blocks = {"length": 12 * block, "block": 4 * block, "segments": 6, "source_blocks": 3}
    wanted = [{"destination_first": 1, "destination_blocks": 2}, {"destination_first": 0, "destination_blocks": 1}]
    for rank in range(2):
        rig.engine.post(rank, rig.request(data[rank], results[rank], rank, **blocks, **wanted[rank]), rig.now)
    rig.engine.serve(rig.now)
    actions = rig.engine.tables["actions"][: rig.engine.header["action_count"]]
    reductions = actions[actions["kind"] == ActionKind.REDUCE]
    # Then the window ends.
    assert [(int(each["length"]), int(each["targets"])) for each in reductions] == [(4 * block, 1)] * 2
    rig.settle()
    total = sum(data)
    assert np.array_equal(results[0], total[block:])
    assert np.array_equal(results[1], total[:block])


@pytest.mark.parametrize("kind", ["barrier", "nothing"])
def test_something_without_data_comes_between(kind: str) -> None:
    rig, nothing = NicRig(Route.LOCAL, ranks=2), np.zeros(0, "<f4")
    between = {"segments": 1, "contributors": ContributorClass.NONE} if kind == "barrier" else {"segments": 0}
    data, results = [numbers(0), numbers(1)], [np.zeros((2, LONG), "<f4") for _ in range(2)]
    for rank in range(2):
        rig.post(data[rank], results[rank][0], rank, mid=1)
        rig.post(nothing, nothing, rank, mid=2, length=0, **between)
        rig.post(data[rank], results[rank][1], rank, mid=3)
    assert rig.statuses() == [Status.SUCCESS] * 6
    assert all(np.array_equal(result, sum(data)) for each in results for result in each)


def test_positions_wrap() -> None:
    rig = NicRig(Route.LOCAL, ranks=2, first=2**32 - 5)
    data = [numbers(0), numbers(1)]
    results = posted(rig, data)
    rig.settle()
    assert rig.statuses() == [Status.SUCCESS] * 2
    assert all(np.array_equal(result, sum(data)) for result in results)


def test_waiting_rank_times_out() -> None:
    """Requests after the open position have ended then, too, and the missing rank is named."""
    rig, data = NicRig(Route.LOCAL, ranks=2), numbers(0)
    results = [np.zeros_like(data) for _ in range(2)]
    for mid in range(2):
        rig.post(data, results[mid], 0, mid=mid, deadline_ms=5)
    rig.tick(6 * MILLISECOND)
    assert rig.statuses() == [Status.TIMEOUT] * 2
    assert int(rig.device.completions[0]["missing"]) == 0b10


def test_the_job_has_other_nodes_so_the_sum_goes_up() -> None:
    rig = NicRig(Route.TREE, ranks=2)
    data = [f32(1, 2), f32(3, 4)]
    posted(rig, data)
    rig.engine.serve(rig.now)
    assert ActionKind.REDUCE not in kinds(rig)
    assert [packet.payload for packet in rig.settle()] == [sum(data).tobytes()]


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
def test_no_seg_buffer_is_overrun_by_a_block(dtype: str) -> None:
    """A block is longer than the segments of this job: its seg buffers have their own neighbours."""
    rig = NicRig(Route.LOCAL, ranks=2)
    rig.engine.tables["payload"][:] = 0xA5
    data = [numbers(rank).astype(dtype) for rank in range(2)]
    results = posted(rig, data)
    rig.settle()
    assert np.array_equal(results[1], sum(data))
    untouched = rig.engine.tables["payload"].reshape(-1, int(rig.engine.header["stride"]))
    assert rig.job["jid"] == JID
    assert (untouched[:, CHUNK * 4 // np.dtype(dtype).itemsize :] == 0xA5).all()  # f16 is computed in f32
