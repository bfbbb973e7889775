"""The bits of reproducible jobs do not depend on the order of arrival. Partials may travel wide."""

import itertools

import numpy as np
import pytest

from fanin_wire import abi
from fanin_wire.abi import DType, JobFlag, Op, Route, Status
from fanin_wire.fields import Flag, Opcode
from tests.engine.rig import ALL, SLOTS, NicRig, Sent, SwitchRig, f32

RUN, SHAPE, WIDE_JOB = (int(flag) for flag in (JobFlag.REPRODUCIBLE_RUN, JobFlag.REPRODUCIBLE_SHAPE, JobFlag.WIDE))
VALUES = [f32(1e8, 3), f32(-1e8, 0.1), f32(1.5, -3)]  # whose sum depends on the order
IN_ORDER = (VALUES[0] + VALUES[1]) + VALUES[2]
ORDERS = list(itertools.permutations(range(3)))
AGAIN = 4  # slots of a job, so also the position that its first slot serves after position 0
assert IN_ORDER.tolist() != ((VALUES[1] + VALUES[2]) + VALUES[0]).tolist()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_switch_folds_in_the_order_of_the_bits(order: tuple[int, ...]) -> None:
    rig = SwitchRig(3, join=False)
    for bit in range(3):
        rig.join(bit, flags=RUN, slots=4, window=2)
    assert rig.job["buffers"] == 3
    for bit in order:
        sent = rig.contribute(bit, 0, VALUES[bit], seg=0)
    assert {packet.payload for packet in sent} == {IN_ORDER.tobytes()}


def test_lease_is_counted_in_buffers() -> None:
    rig = SwitchRig(4, join=False)
    for bit in range(4):
        rig.join(bit, flags=RUN, slots=16, window=8)  # the largest lease is 16 buffers
    assert (rig.job["slots"], rig.job["buffers"]) == (4, 4)


@pytest.mark.parametrize(("route", "buffers"), [(Route.LOCAL, 1), (Route.TREE, 1), (Route.RING, 2)])
def test_ranks_need_no_buffers_of_their_own(route: Route, buffers: int) -> None:
    rig = NicRig(route, ranks=4, join=False)
    for rank in range(4):
        rig.join(rank, flags=RUN, slots=4)
    assert rig.job["buffers"] == buffers


LENGTHS = {"short": 2, "of several segments": 200}
MEMORY = pytest.mark.parametrize("memory", [{}, {"source_lkey": abi.LKEY_PROCESS}], ids=["registered", "of processes"])


class ReadingRig(NicRig):
    """A NIC that reads memory of processes at once."""

    def settle(self) -> list[Sent]:
        sent = super().settle()
        while self.device.reads:
            self.device.finish_read(self.device.reads.pop(0), self.now)
            sent += super().settle()
        return sent

    def post(self, source: np.ndarray, result: np.ndarray | None = None, rank: int = 0, **changes) -> list[Sent]:
        self.device.allow(source)
        return super().post(source, result, rank, **changes)


def turns(ranks: int) -> NicRig:
    rig = ReadingRig(Route.LOCAL, ranks=ranks, join=False)
    for rank in range(ranks):
        rig.device.register_process(rank)
        rig.join(rank, flags=RUN)
    return rig


@MEMORY
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_node_folds_its_ranks_in_order(memory: dict, order: tuple[int, ...], length: int) -> None:
    """Each is a message ahead of the next rank."""
    rig = turns(3)
    data = [[(mid + 1) * np.resize(value, length) for value in VALUES] for mid in range(2)]
    results = {(rank, mid): np.zeros(length, "<f4") for rank in range(3) for mid in range(2)}
    for rank in order:
        for mid in range(2):
            rig.post(data[mid][rank], results[rank, mid], rank, mid=mid, **memory)
    assert rig.statuses() == [Status.SUCCESS] * 6
    for (_, mid), result in results.items():
        assert result.tobytes() == ((data[mid][0] + data[mid][1]) + data[mid][2]).tobytes()


@MEMORY
@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_rank_that_waits_for_its_turn_shows_for_whom(memory: dict, length: int) -> None:
    rig = turns(4)
    data = np.ones(length, "<f4")
    for rank in (3, 1):
        rig.post(data, rank=rank, **memory)
    rig.engine.post(1, rig.request(f32(0), f32(0), opcode=abi.WqeOpcode.QUERY, mid=3, wr_id=77), rig.now)
    rig.settle()
    assert rig.device.completions[0]["missing"] == 0b101
    rig.post(data, rank=0, **memory)
    rig.post(data, rank=2, **memory)
    assert rig.statuses() == [Status.PENDING, *[Status.SUCCESS] * 4]
    assert rig.job["in_flight"] == 0


@MEMORY
@pytest.mark.parametrize("leaves_first", [True, False])
def test_rank_whose_turn_never_comes_ends_the_job(memory: dict, leaves_first: bool) -> None:
    rig = turns(2)
    if leaves_first:
        rig.engine.leave(0, 9, rig.now)
    rig.post(f32(1), rank=1, **memory)
    if not leaves_first:
        rig.engine.leave(0, 9, rig.now)
        rig.settle()
    assert rig.statuses() == [Status.ABORTED]
    assert rig.device.completions[0]["missing"] == 0b01


@MEMORY
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("wrong", range(3))
def test_rank_that_brings_an_error_is_passed_over(memory: dict, order: tuple[int, ...], wrong: int) -> None:
    rig = turns(3)
    for rank in order:
        rig.post(f32(rank), rank=rank, **({"source_lkey": 99} if rank == wrong else memory))
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR] * 3


def test_queue_pair_of_ranks_that_are_not_neighbours_is_refused() -> None:
    rig = NicRig(Route.LOCAL, ranks=3, join=False)
    rig.join(0, flags=RUN, rank_bitmap=0b101)
    assert rig.answer()[0] == Status.INVALID_REQUEST
    rig.join(0, flags=RUN, rank_bitmap=0b011)
    rig.join(1, flags=RUN, rank_bitmap=0b100)
    assert rig.answer()[0] == Status.SUCCESS


def test_ring_that_has_no_bit_left_for_its_previous_node_is_refused() -> None:
    rig = NicRig(Route.RING, join=False)
    rig.join(0, flags=RUN, rank_mask=2**64 - 1)
    assert rig.answer()[0] == Status.INVALID_REQUEST
    rig.join(0, flags=64)
    assert rig.answer()[0] == Status.INVALID_REQUEST


def used_switch(children: int, flags: int) -> SwitchRig:
    """A switch of a job whose first slot, with all its buffers, was used for position 0; AGAIN is the next one."""
    rig = SwitchRig(children, join=False)
    for bit in range(children):
        rig.join(bit, flags=flags, slots=AGAIN, window=2)
    for bit in reversed(range(children)):
        sent = rig.contribute(bit, 0, f32(*[7e8] * 4), seg=0)
    assert len(sent) == children
    return rig


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
@pytest.mark.parametrize("absent", range(4))
def test_child_that_brings_nothing_is_passed_over(order: tuple[int, ...], absent: int) -> None:
    rig = used_switch(4, RUN)
    values = dict(zip((bit for bit in range(4) if bit != absent), VALUES, strict=True))
    for bit in order:
        sent = rig.contribute(bit, AGAIN, values.get(bit), seg=0, dtype=DType.F32)
    assert {packet.payload for packet in sent} == {IN_ORDER.tobytes()}


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_only_data_that_wait_for_a_child_that_brings_nothing(order: tuple[int, ...]) -> None:
    rig = used_switch(3, RUN)
    for bit in order:
        sent = rig.contribute(bit, AGAIN, VALUES[2] if bit == 2 else None, seg=0, dtype=DType.F32)
    assert {packet.payload for packet in sent} == {VALUES[2].tobytes()}


# Wide partials

HALVES = [np.array([1, 2**-11, 3], "<f2"), np.array([2**-11, 1, 0.5], "<f2"), np.array([2**-12, 2**-11, 1], "<f2")]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_wide_partials_that_wait_for_a_child_that_brings_nothing(order: tuple[int, ...]) -> None:
    rig = used_switch(3, SHAPE | WIDE_JOB)
    for bit in order:
        value = HALVES[bit].astype("<f4") if bit else None
        flags = ALL | Flag.WANTS_RESULT | (Flag.HAS_DATA | Flag.WIDE if bit else 0)
        sent = rig.contribute(bit, AGAIN, value, seg=0, dtype=DType.F16, flags=flags)
    expected = (HALVES[1].astype("f4") + HALVES[2].astype("f4")).astype("<f2")
    assert {packet.payload for packet in sent} == {expected.tobytes()}


def test_segment_of_wide_partials_is_half_as_long() -> None:
    rig = NicRig(join=False)
    rig.join(0, flags=SHAPE)
    rig.receive(Opcode.CONFIG_ACK, int(rig.job["parent_address"]), bytes([0, 0, 0, 8, 0, 0, 0, 4]))
    sent = rig.post(np.ones(33, "<f2"), segments=3)
    assert [packet.ceth["length"] for packet in sent] == [64, 64, 4]


@pytest.mark.parametrize("op", [Op.MIN, Op.MAX])
def test_exact_operations_do_not_travel_wide(op: abi.Op) -> None:
    rig = NicRig(join=False)
    rig.join(0, flags=WIDE_JOB)
    rig.receive(Opcode.CONFIG_ACK, int(rig.job["parent_address"]), bytes([0, 0, 0, 8, 0, 0, 0, 4]))
    (up,) = rig.post(HALVES[0], op=op)
    assert (up.payload, up.ceth["flags"] & Flag.WIDE) == (HALVES[0].tobytes(), 0)


def test_narrow_partials_are_rounded_at_each_device() -> None:
    rig = NicRig(ranks=3)
    for rank, value in enumerate(HALVES):
        sent = rig.post(value, rank=rank)
    (up,) = sent
    assert up.payload == sum(value.astype("f4") for value in HALVES).astype("<f2").tobytes()
    assert up.ceth["seg"] == up.ceth["position"] % SLOTS


def test_mean_of_halves_is_divided_before_it_is_rounded() -> None:
    rig = NicRig(Route.LOCAL, ranks=3)
    results = [np.zeros(3, "<f2") for _ in range(3)]
    for rank, value in enumerate(HALVES):
        rig.post(value, results[rank], rank, op=Op.MEAN)
    rig.settle()
    expected = (sum(value.astype("f4") for value in HALVES) / np.float32(3)).astype("<f2")
    assert {result.tobytes() for result in results} == {expected.tobytes()}
