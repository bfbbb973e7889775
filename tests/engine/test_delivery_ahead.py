"""The data of a ONE position reach the ranks of their own device without waiting for other members."""

import numpy as np
import pytest

from fanin_sim.fabric.device import Arrival
from fanin_wire import abi
from fanin_wire.abi import ContributorClass, DType, Op, Route, Status, WqeFlag
from fanin_wire.fields import CONFIG_ACK_BODY, Opcode
from fanin_wire.limits import MAX_AHEAD, MAX_CHUNK
from tests.engine.rig import CHUNK, LIMITS, ONE, PARENT, NicRig, Sent, f32, pack, place

ONE_CLASS = {"contributors": ContributorClass.ONE, "op": Op.NONE, "dtype": DType.U8}
BRINGS = {"source_blocks": 1, "destination_blocks": 0, **ONE_CLASS}
WANTS = {"source_blocks": 0, "destination_blocks": 1, **ONE_CLASS}
NOTHING = {"source_blocks": 0, "destination_blocks": 0, **ONE_CLASS}


def ended(rig: NicRig) -> dict[int, Status]:
    """The status of each rank with a completion."""
    return {int(completion["queue"]): Status(int(completion["status"])) for completion in rig.device.completions}


def test_rank_that_waits_has_the_data_at_once_and_their_owner_knows_when_all_have_taken_part() -> None:
    rig = NicRig(Route.LOCAL, ranks=3)
    result = f32(0)
    rig.post(f32(0), result, rank=1, **WANTS)
    rig.post(f32(9), rank=0, **BRINGS)
    assert ended(rig) == {1: Status.SUCCESS}
    assert result == 9
    rig.post(f32(0), rank=2, **NOTHING)
    assert ended(rig) == dict.fromkeys(range(3), Status.SUCCESS)


def test_rank_that_asks_later_has_the_data_at_once() -> None:
    rig = NicRig(Route.LOCAL, ranks=3)
    result = f32(0)
    rig.post(f32(9), rank=0, **BRINGS)
    rig.post(f32(0), result, rank=2, **WANTS)
    assert ended(rig) == {2: Status.SUCCESS}
    assert result == 9


@pytest.mark.parametrize("route", [Route.LOCAL, Route.TREE])
def test_short_message_arrives_at_the_ranks_that_have_not_posted(route: Route) -> None:
    rig = NicRig(route, ranks=3)
    rig.post(f32(0), rank=1, **WANTS)
    rig.post(f32(9), rank=0, mid=3, **BRINGS)
    assert rig.device.arrivals == [Arrival(2, 3, f32(9).tobytes())]


def test_request_that_wants_what_has_arrived_gets_it_all_the_same() -> None:
    rig = NicRig(Route.LOCAL, ranks=2)
    result = f32(0)
    rig.post(f32(9), rank=0, **BRINGS)
    assert len(rig.device.arrivals) == 1
    rig.post(f32(0), result, rank=1, **WANTS)
    assert ended(rig) == dict.fromkeys(range(2), Status.SUCCESS)
    assert result == 9


def test_segments_of_a_longer_message_do_not_arrive() -> None:
    rig = NicRig(Route.LOCAL, ranks=2)
    data = np.arange(2 * CHUNK // 4, dtype="<f4")
    rig.post(data, rank=0, **BRINGS)
    assert rig.device.arrivals == []
    result = np.zeros_like(data)
    rig.post(data, result, rank=1, **WANTS)
    assert np.array_equal(result, data)


def test_data_of_a_rank_that_may_not_read_them_do_not_arrive() -> None:
    rig = NicRig(Route.LOCAL, ranks=2)
    rig.post(f32(9), rank=0, source_lkey=99, **BRINGS)
    assert rig.device.arrivals == []
    rig.post(f32(0), rank=1, **WANTS)
    assert ended(rig) == dict.fromkeys(range(2), Status.LOCAL_PROTECTION_ERROR)


def test_request_with_a_limit_of_time_waits_for_all() -> None:
    rig = NicRig(Route.LOCAL, ranks=3)
    rig.post(f32(0), rank=1, deadline_ms=1000, **WANTS)
    rig.post(f32(9), rank=0, **BRINGS)
    assert ended(rig) == {}
    rig.post(f32(0), rank=2, deadline_ms=1000, **WANTS)
    assert ended(rig) == dict.fromkeys(range(3), Status.SUCCESS)


def test_rank_that_has_the_data_may_leave_before_the_others_take_part() -> None:
    rig = NicRig(Route.LOCAL, ranks=3)
    rig.post(f32(9), rank=0, **BRINGS)
    rig.post(f32(0), rank=1, **WANTS)
    rig.engine.leave(1, 77, rig.now)
    rig.settle()
    result = f32(0)
    rig.post(f32(0), result, rank=2, **WANTS)
    assert ended(rig) == dict.fromkeys(range(3), Status.SUCCESS)
    assert result == 9


def test_result_from_above_ends_the_request_that_has_brought_the_data() -> None:
    rig = NicRig(ranks=2)
    rig.post(f32(9), rank=0, **BRINGS)
    rig.post(f32(0), rank=1, **WANTS)
    assert ended(rig) == {1: Status.SUCCESS}
    rig.from_parent(Opcode.RESULT, 0, flags=ONE, op=0, dtype=DType.U8)
    assert rig.statuses() == [Status.SUCCESS] * 2


def test_request_behind_another_waits_for_it() -> None:
    rig = NicRig(ranks=2)
    result = f32(0)
    rig.post(f32(1), rank=1)  # an allreduce
    rig.post(f32(0), result, rank=1, **WANTS)
    rig.post(f32(1), rank=0)
    rig.post(f32(9), rank=0, **BRINGS)
    assert result == 9
    rig.from_parent(Opcode.RESULT, 1, flags=ONE, op=0, dtype=DType.U8)
    assert ended(rig) == {}
    rig.from_parent(Opcode.RESULT, 0, f32(3).tobytes())
    assert rig.statuses() == [Status.SUCCESS] * 4


def test_nothing_arrives_for_a_request_that_is_posted_and_not_begun() -> None:
    rig = NicRig(ranks=3)
    rig.post(f32(1), rank=1)
    rig.post(f32(0), rank=1, flags=WqeFlag.FENCE | WqeFlag.SIGNALED, **WANTS)
    rig.post(f32(1), rank=0)
    rig.post(f32(9), rank=0, **BRINGS)
    assert [arrival.queue for arrival in rig.device.arrivals] == [2]


class LongRig(NicRig):
    """A job with segments as long as real ones. Its requests bring or want a message of one segment."""

    slots = 128

    def __init__(self, route: Route, ranks: int, chunk: int) -> None:
        limits = LIMITS._replace(
            slots=self.slots, max_lease=self.slots, max_chunk=chunk, requests=self.slots, regions=4 * self.slots,
            actions=1024,
        )  # fmt: skip
        super().__init__(route, ranks=ranks, join=False, limits=limits)
        self.chunk = chunk
        for rank in range(ranks):
            self.join(rank, slots=self.slots, chunk=chunk)
        if route == Route.TREE:
            self.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=self.slots, window=self.slots // 2))

    def post_segment(self, data: np.ndarray, rank: int, number: int, **changes: int) -> list[Sent]:
        return self.post(data, rank=rank, mid=number, chunk=self.chunk, segments=1, seg=number, **changes)


@pytest.mark.parametrize(
    ("route", "chunk", "length", "arrives"),
    [
        (Route.LOCAL, abi.LOCAL_CHUNK, abi.MAX_ARRIVAL, True),
        (Route.TREE, MAX_CHUNK, MAX_AHEAD, True),
        (Route.TREE, MAX_CHUNK, MAX_AHEAD + 1, False),
    ],
)
def test_longest_message_that_arrives(route: Route, chunk: int, length: int, arrives: bool) -> None:
    rig, data = LongRig(route, 2, chunk), (np.arange(length) % 251).astype(np.uint8)
    rig.post_segment(data, 0, 0, **BRINGS)
    assert rig.device.arrivals == [Arrival(1, 0, data.tobytes())] * arrives


@pytest.mark.parametrize(("route", "length"), [(Route.LOCAL, abi.MAX_ARRIVAL), (Route.TREE, MAX_AHEAD)])
def test_sender_is_no_further_ahead_than_an_arrival_ring_holds(route: Route, length: int) -> None:
    data = np.zeros(length, np.uint8)
    rig = LongRig(route, 2 if route == Route.LOCAL else 1, length)
    slots = rig.slots

    def post(rank: int, number: int, **changes: int) -> list[Sent]:
        return rig.post_segment(data, rank, number, **changes)

    sent = [packet for number in range(slots // 2) for packet in post(0, number, **BRINGS)]
    begun = len(rig.device.arrivals) if route == Route.LOCAL else len(sent)
    units = -(-(abi.ARRIVAL.itemsize + data.nbytes) // abi.ARRIVAL_UNIT)
    assert (begun + 1) * units <= abi.ARRIVAL_UNITS < (begun + 2) * units
    if route == Route.LOCAL:
        post(1, 0, **NOTHING)
        assert [arrival.mid for arrival in rig.device.arrivals] == list(range(begun + 1))
    else:
        result = {**place(0), "op": Op.NONE, "dtype": DType.U8, "sid": 0, "flags": ONE, "node_bitmap": 0b11}
        (further,) = rig.receive(Opcode.RESULT, PARENT, **result)
        assert (further.opcode, further.ceth["position"]) == (Opcode.CONTRIBUTION, begun)
