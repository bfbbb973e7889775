"""A malformed work request gets a named status. A request with forbidden memory poisons its positions."""

import numpy as np
import pytest

from fanin_wire import abi
from fanin_wire.abi import Access, ContributorClass, Route, Status
from fanin_wire.fields import Opcode
from tests.engine.rig import CHUNK, JID, LIMITS, MILLISECOND, SLOTS, NicRig, f32

BAD = [
    ({"contributors": 3}, Status.NOT_SUPPORTED),
    ({"op": 0}, Status.NOT_SUPPORTED),
    ({"op": max(abi.Op) + 1}, Status.NOT_SUPPORTED),
    ({"op": 6}, Status.NOT_SUPPORTED),
    ({"op": 255}, Status.NOT_SUPPORTED),
    ({"dtype": 0}, Status.NOT_SUPPORTED),
    ({"dtype": max(abi.DType) + 1}, Status.NOT_SUPPORTED),
    ({"jid": JID + 1}, Status.INVALID_REQUEST),
    ({"chunk": 128}, Status.INVALID_REQUEST),
    ({"chunk": 48}, Status.INVALID_REQUEST),
    ({"chunk": 4}, Status.INVALID_REQUEST),
    ({"chunk": 0}, Status.INVALID_REQUEST),
    ({"chunk": 8, "dtype": abi.DType.C128, "op": abi.Op.SUM, "length": 16, "block": 16}, Status.INVALID_REQUEST),
    ({"route": Route.RING}, Status.INVALID_REQUEST),
    ({"rank_bitmap": 0b10}, Status.INVALID_REQUEST),
    ({"node_bitmap": 0b01}, Status.INVALID_REQUEST),
    ({"address_count": 2}, Status.INVALID_REQUEST),
    ({"length": 7}, Status.INVALID_REQUEST),
    ({"length": 2**62}, Status.INVALID_REQUEST),
    ({"seg": 1}, Status.BUFFER_ERROR),
]


@pytest.mark.parametrize(
    ("change", "status"), BAD, ids=[" ".join(f"{name}={value}" for name, value in case.items()) for case, _ in BAD]
)
def test_bad_request(change: dict, status: abi.Status) -> None:
    rig = NicRig()
    sent = rig.post(f32(1), **change)
    assert rig.statuses() == [status]
    completion = rig.device.completions[0]
    assert (completion["wr_id"], completion["byte_length"], completion["missing"]) == (50, 0, 1)
    assert Opcode.CONTRIBUTION not in [packet.opcode for packet in sent]


@pytest.mark.parametrize("opcode", [0, 9, 255])
def test_what_is_no_collective_is_refused_by_itself(opcode: int) -> None:
    """Also among others, whose job and positions are untouched."""
    rig = NicRig(Route.LOCAL, ranks=2)
    first, second = f32(0), f32(0)
    rig.post(f32(1), first, rank=0)
    rig.post(f32(9), first, rank=0, opcode=opcode)
    assert rig.statuses() == [Status.NOT_SUPPORTED]
    rig.post(f32(2), second, rank=1)
    assert rig.statuses() == [Status.NOT_SUPPORTED, Status.SUCCESS, Status.SUCCESS]
    assert (first, second) == (3, 3)
    assert rig.engine.counters()["not_offloaded"] == 1


def test_before_joining() -> None:
    rig = NicRig(join=False)
    rig.post(f32(1))
    assert rig.statuses() == [Status.NOT_CONFIGURED]


def test_before_all_have_joined() -> None:
    rig = NicRig(ranks=2, join=False)
    rig.join(0)
    rig.post(f32(1))
    assert rig.statuses() == [Status.NOT_CONFIGURED]


PROTECTION = {
    "an unknown source key": {"source_lkey": 77},
    "an unknown destination key": {"destination_lkey": 77},
    "a key of process memory that was not passed": {"source_lkey": abi.LKEY_PROCESS},
    "more than the region": {"length": 8},
    "far more than the region": {"length": 4096},
}


@pytest.mark.parametrize("change", PROTECTION.values(), ids=PROTECTION)
def test_protection(change: dict) -> None:
    rig = NicRig(Route.LOCAL)
    result = f32(0)
    rig.post(f32(1), result, **change)
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR]
    assert result == 0


@pytest.mark.parametrize("shift", [-4, 4, 2**40])
@pytest.mark.parametrize("which", ["source", "destination"])
def test_address_outside_its_region(shift: int, which: str) -> None:
    rig = NicRig(Route.LOCAL)
    source, result = f32(1), f32(0)
    wqe = rig.request(source, result)
    wqe["address"][which] += np.array(shift).astype("u8")
    rig.engine.post(0, wqe, rig.now)
    rig.settle()
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR]
    assert result == 0


@pytest.mark.parametrize("access", [Access.READ, Access.WRITE])
def test_missing_right(access: abi.Access) -> None:
    rig = NicRig(Route.LOCAL)
    source, result = f32(1), f32(0)
    name, memory = ("destination_lkey", result) if access == Access.READ else ("source_lkey", source)
    rig.post(source, result, **{name: rig.register(0, memory, int(access))})
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR]


def test_region_of_another_client() -> None:
    rig = NicRig(Route.LOCAL, ranks=2)
    source, result = f32(1), f32(0)
    rig.post(source, result, rank=0, source_lkey=rig.register(1, source))
    rig.post(f32(1), rank=1)
    rig.settle()
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR] * 2


def test_leader_posts_for_several_ranks_by_an_address_list() -> None:
    rig = NicRig(Route.LOCAL, ranks=4, join=False)
    rig.join(0, rank_bitmap=0b1111)
    memory = np.arange(8, dtype="<f4")
    lkey = rig.register(0, memory)
    start = memory.ctypes.data
    entries = np.array([(start + 16 + 4 * k, 0, 1, 0, 1, start + 4 * k) for k in range(4)], abi.ADDRESS)
    wqe = rig.request(f32(1), f32(0), length=4, address_count=4, rank_bitmap=0b1111, flags=3)
    wqe["source_lkey"] = wqe["destination_lkey"] = lkey
    wqe["address"]["source"] = entries.ctypes.data
    rig.engine.post(0, wqe, rig.now)  # the list lies outside the region
    rig.settle()
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR]
    both = np.concatenate([memory.view("u8"), entries.view("u8")])
    start, listed = both.ctypes.data, both[4:].view(abi.ADDRESS)
    listed["source"], listed["destination"] = start + 4 * np.arange(4), start + 16 + 4 * np.arange(4)
    wqe["source_lkey"] = wqe["destination_lkey"] = rig.register(0, both)
    wqe["address"]["source"] = start + 32
    wqe["seg"] = 1
    rig.engine.post(0, wqe, rig.now)
    rig.settle()
    assert rig.statuses()[1:] == [Status.SUCCESS]
    assert both[2:4].view("<f4").tolist() == [6.0] * 4


@pytest.mark.parametrize("process", [False, True], ids=["registered", "process"])
def test_an_address_list_holds_all_ranks_of_a_node(process: bool) -> None:
    """Each has its own data and result, also when places of a queue's requests are reused."""
    ranks, uses = abi.MAX_CHILDREN, 2 * LIMITS.requests
    limits = LIMITS._replace(queues=ranks, regions=64)
    rig = NicRig(Route.LOCAL, ranks=ranks, join=False, limits=limits)
    rig.join(0, rank_bitmap=2**ranks - 1)
    rig.device.register_process(0)
    for use in range(uses):
        memory = np.zeros(ranks + 4 * ranks, "u8")  # data, results, the list
        numbers, entries = memory[:ranks].view("<f4"), memory[ranks:].view(abi.ADDRESS)
        numbers[:ranks] = np.arange(ranks) + use
        entries["source"] = memory.ctypes.data + 4 * np.arange(ranks)
        entries["destination"] = entries["source"] + np.uint64(4 * ranks)
        entries["source_blocks"] = entries["destination_blocks"] = 1
        wqe = rig.request(f32(1), f32(0), length=4, address_count=ranks, rank_bitmap=2**ranks - 1, flags=3)
        wqe["source_lkey"] = rig.register(0, memory)
        wqe["destination_lkey"] = abi.LKEY_PROCESS if process else wqe["source_lkey"]
        wqe["address"]["source"] = entries.ctypes.data
        rig.engine.post(0, wqe, rig.now)
        rig.settle()
        assert rig.statuses() == [Status.SUCCESS] * (use + 1)
        assert numbers[ranks:].tolist() == [sum(range(ranks)) + ranks * use] * ranks


def test_more_ranks_than_a_request_of_the_engine_holds_can_not_join() -> None:
    rig = NicRig(Route.LOCAL, ranks=4, join=False, limits=LIMITS._replace(addresses=3))
    rig.join(0, rank_bitmap=0b1111)
    assert rig.answer()[0] == Status.INVALID_REQUEST
    rig.join(0, rank_bitmap=0b0111)
    rig.join(3)
    assert rig.answer()[0] == Status.SUCCESS


def test_each_request_has_its_chunk_within_that_of_the_lease() -> None:
    rig = NicRig()
    for chunk, segments in ((CHUNK, 2), (16, 8), (8, 16), (CHUNK, 2)):
        data = np.arange(2 * CHUNK // 4, dtype="<f4")
        result = np.zeros_like(data)
        first = int(rig.engine.tables["queues"][0]["position"])
        sent = rig.post(data, result, chunk=chunk, segments=segments)
        for number in range(segments):
            own = [packet for packet in sent if packet.opcode == Opcode.CONTRIBUTION]
            assert [len(packet.payload) for packet in own] == [chunk] * len(own)
            sent += rig.from_parent(Opcode.RESULT, first + number, data.tobytes()[number * chunk :][:chunk])
        assert rig.statuses()[-1] == Status.SUCCESS
        assert result.tobytes() == data.tobytes()


def test_zero_bytes_take_no_position_and_a_barrier_one() -> None:
    rig = NicRig()
    assert rig.post(np.zeros(0, "<f4")) == []
    assert rig.statuses() == [Status.SUCCESS]
    (credit,) = rig.post(np.zeros(0, "<f4"), contributors=ContributorClass.NONE, op=0, dtype=0, segments=1)
    assert (credit.opcode, credit.ceth["position"], credit.payload) == (Opcode.CONTRIBUTION, 0, b"")
    rig.from_parent(Opcode.RESULT, 0)
    assert rig.statuses() == [Status.SUCCESS] * 2


def test_order_of_completions_and_silent_requests() -> None:
    rig = NicRig()
    rig.post(f32(1), wr_id=1)
    rig.post(f32(1), wr_id=2, flags=0)
    rig.post(f32(1), wr_id=3)
    for position in (2, 1):
        rig.from_parent(Opcode.RESULT, position, f32(1).tobytes())
    assert rig.statuses() == []
    rig.from_parent(Opcode.RESULT, 0, f32(1).tobytes())
    assert [int(completion["wr_id"]) for completion in rig.device.completions] == [1, 3]


def test_window_bounds_the_positions_in_flight() -> None:
    rig = NicRig()
    sent = rig.post(np.zeros(16 * 10, "<f4"))
    assert [packet.ceth["position"] for packet in sent] == [0, 1, 2, 3]
    assert rig.from_parent(Opcode.RESULT, 1, bytes(64)) == []
    assert [packet.ceth["position"] for packet in rig.from_parent(Opcode.RESULT, 0, bytes(64))] == [4, 5]
    assert rig.job["high_water"] <= SLOTS // 2


def test_deadline_names_the_rank_that_has_not_posted() -> None:
    rig = NicRig(ranks=3)
    rig.post(f32(1), rank=0, deadline_ms=50)
    rig.post(f32(1), rank=2)
    assert rig.tick(50 * MILLISECOND - 1) == []
    rig.tick(1)
    assert rig.statuses() == [Status.TIMEOUT] * 2
    assert {(int(c["missing_kind"]), int(c["missing"])) for c in rig.device.completions} == {(0, 0b010)}


def test_deadline_names_the_children_that_are_missing_above() -> None:
    rig = NicRig()
    rig.post(f32(1), deadline_ms=500)
    rig.tick(200 * MILLISECOND)
    rig.from_parent(Opcode.WAIT, 0, bytes(8), node_bitmap=0b10, flags=0)
    rig.tick(300 * MILLISECOND)
    assert rig.statuses() == [Status.TIMEOUT]
    assert (rig.device.completions[0]["missing_kind"], rig.device.completions[0]["missing"]) == (1, 0b10)


def test_without_deadline_a_rank_may_wait_for_ever() -> None:
    rig = NicRig(Route.LOCAL, ranks=2)
    rig.post(f32(1), rank=0)
    for _ in range(100):
        rig.tick(60 * 1000 * MILLISECOND)
    assert rig.statuses() == []
    rig.post(f32(1), rank=1)
    rig.settle()
    assert rig.statuses() == [Status.SUCCESS] * 2


def test_requests_to_an_ended_job_complete_in_order() -> None:
    rig = NicRig(ranks=2)
    rig.post(f32(1), wr_id=50)
    rig.engine.lose(1, rig.now)  # and before the device looks at its queues again:
    rig.engine.post(0, rig.request(f32(1), f32(0), wr_id=51), rig.now)
    rig.settle()
    assert [int(completion["wr_id"]) for completion in rig.device.completions] == [50, 51]
    assert rig.statuses() == [Status.PEER_LOST] * 2
    rig.post(f32(1), wr_id=52)
    assert rig.statuses() == [Status.PEER_LOST] * 3
