"""The data of the only rank of a NIC are sent from the rank's own memory; those of several ranks are copied first."""

from collections.abc import Callable

import numpy as np
import pytest

from fanin_wire.abi import LKEY_PROCESS, ContributorClass, JobFlag, Route, Status, WqeFlag
from fanin_wire.fields import CONFIG_ACK_BODY, Opcode
from tests.engine.rig import CHUNK, LIMITS, MILLISECOND, PARENT, SLOTS, NicRig, Sent, pack, place

RTO = 20 * MILLISECOND
ELEMENTS = CHUNK // 4  # of a segment
SEGMENTS = 3


def message(dtype: str = "<f4") -> np.ndarray:
    """Three different segments."""
    return np.arange(1, SEGMENTS * CHUNK // np.dtype(dtype).itemsize + 1).astype(dtype)


def again(rig: NicRig, position: int) -> Sent:
    """The packets after the parent has asked for a position."""
    rig.tick(RTO)
    (sent,) = rig.receive(Opcode.NEED, PARENT, **place(position))
    return sent


def post(rig: NicRig, data: np.ndarray, room: np.ndarray, source: int, **changes) -> list[Sent]:
    """Post a request whose data are at address `source`. Returns the device's packets."""
    wqe = rig.request(data, room, **changes)
    wqe["address"]["source"] = source
    rig.engine.post(0, wqe, rig.now)
    return rig.settle()


def result(rig: NicRig, position: int, value: float) -> None:
    """A result of equal elements comes."""
    rig.from_parent(Opcode.RESULT, position, np.full(ELEMENTS, value, "<f4").tobytes())


def test_data_stay_where_they_are() -> None:
    rig, data = NicRig(), message()
    sent = rig.post(data)
    assert b"".join(packet.payload for packet in sent) == data.tobytes()
    for position in range(SEGMENTS):
        assert rig.slot(position)["zero_copy_address"] == data.ctypes.data + position * CHUNK
    assert not rig.engine.tables["payload"].any()


def test_repeated_data_are_copied_and_stay_the_same() -> None:
    """A program that wrongly changes its data all the time could otherwise block all packets."""
    rig, data = NicRig(), message()
    sent = rig.post(data)
    data[ELEMENTS] += 1
    data_then = data[ELEMENTS : 2 * ELEMENTS].tobytes()
    assert again(rig, 1).payload == data_then != sent[1].payload
    assert rig.slot(1)["zero_copy_address"] == 0
    data[ELEMENTS] += 1
    assert again(rig, 1).payload == data_then


def test_slot_forgets_borrowed_memory() -> None:
    rig, data = NicRig(limits=LIMITS._replace(regions=64)), message()
    rig.post(data)
    for position in range(SEGMENTS):
        result(rig, position, 1)
    for position in range(SEGMENTS, SEGMENTS + SLOTS):
        (credit,) = rig.post(data[:0], contributors=ContributorClass.NONE, segments=1, op=0, dtype=0)
        assert (credit.opcode, credit.ceth["position"], credit.payload) == (Opcode.CONTRIBUTION, position, b"")
        assert rig.slot(position)["zero_copy_address"] == 0
        rig.from_parent(Opcode.RESULT, position, flags=0, op=0)
    assert rig.statuses() == (1 + SLOTS) * [Status.SUCCESS]


def test_results_may_come_in_the_place_of_their_data() -> None:
    rig, data = NicRig(), message()
    sent = rig.post(data, data)
    assert rig.slot(0)["zero_copy_address"] == data.ctypes.data
    for position in (1, 2):
        result(rig, position, 7)
    assert again(rig, 0) == sent[0]
    result(rig, 0, 7)
    assert (data == 7).all()
    assert rig.statuses() == [Status.SUCCESS]


def test_block_of_an_allgather_in_place_stays() -> None:
    rig, room = NicRig(), message()
    own = room[ELEMENTS : 2 * ELEMENTS]
    ranges = {"source_first": 1, "source_blocks": 1, "destination_blocks": SEGMENTS}
    sent = post(rig, room, room, own.ctypes.data, contributors=ContributorClass.ONE, block=CHUNK, **ranges)
    assert [packet.payload for packet in sent] == [b"", own.tobytes(), b""]
    assert rig.slot(1)["zero_copy_address"] == own.ctypes.data


@pytest.mark.parametrize("block", [1, 2])
def test_result_never_overwrites_data_that_may_be_resent(block: int) -> None:
    """The own block of a reduce-scatter in place overwrites the data of the first."""
    rig, data = NicRig(), message()
    first = rig.post(data, data, block=CHUNK, source_blocks=SEGMENTS, destination_first=block)[0]
    result(rig, block, 7)
    assert (data[:ELEMENTS] == 7).all()
    assert again(rig, 0) == first


def test_memory_registered_twice_counts_as_one() -> None:
    """The device reaches the process's memory by another address."""
    rig, data = NicRig(), message()
    rig.device.register_process(0)
    ranges = {"block": CHUNK, "source_blocks": SEGMENTS, "destination_first": 1, "destination_lkey": LKEY_PROCESS}
    rig.post(data, data, **ranges)
    assert rig.slot(0)["zero_copy_address"] == 0


def test_result_at_the_place_of_the_data() -> None:
    """The root of a broadcast wants it, too: the answer is a header, the data are here."""
    rig, data, room = NicRig(), message(), np.zeros_like(message())
    rig.post(data, room, contributors=ContributorClass.ONE)
    assert rig.slot(0)["zero_copy_address"] == data.ctypes.data
    for position in range(SEGMENTS):
        rig.from_parent(Opcode.RESULT, position)
    np.testing.assert_array_equal(room, data)


def test_nothing_is_read_any_more_when_the_job_has_ended() -> None:
    """The memory may be gone then."""
    rig = NicRig()
    rig.post(message())
    rig.engine.fail(0, Status.LOCAL_PROTECTION_ERROR, rig.now)
    rig.settle()
    for event in (Opcode.NEED, Opcode.WAIT):
        rig.receive(event, PARENT, **place(0))
        assert Opcode.CONTRIBUTION not in [sent.opcode for sent in rig.last]
        rig.tick(RTO)
        assert Opcode.CONTRIBUTION not in [sent.opcode for sent in rig.last]


def in_job(flags: int) -> NicRig:
    rig = NicRig(join=False)
    rig.join(0, flags=flags)
    rig.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2))
    return rig


def of_two_ranks() -> tuple[NicRig, np.ndarray]:
    rig, data = NicRig(ranks=2), message()
    rig.post(np.zeros_like(data), rank=1)
    rig.post(data)
    return rig, data


def of_a_process() -> tuple[NicRig, np.ndarray]:
    rig, data = NicRig(), message()
    rig.device.register_process(0)
    rig.device.allow(data)
    rig.post(data, source_lkey=LKEY_PROCESS)
    for read in rig.device.reads:
        rig.device.finish_read(read, rig.now)
    rig.settle()
    return rig, data


def inline() -> tuple[NicRig, np.ndarray]:
    rig, data = NicRig(), message()[:2]
    (word,) = data.view(np.uint64)
    post(rig, data, np.zeros_like(data), word, flags=WqeFlag.SIGNALED | WqeFlag.INLINE)
    return rig, data


def rounded_last() -> tuple[NicRig, np.ndarray]:
    rig, data = in_job(JobFlag.WIDE), message("<f2")[:ELEMENTS]
    rig.post(data, segments=1)
    return rig, data


@pytest.mark.parametrize("begin", [of_two_ranks, of_a_process, inline, rounded_last])
def test_others_are_copied(begin: Callable[[], tuple[NicRig, np.ndarray]]) -> None:
    rig, data = begin()
    assert rig.slot(0)["zero_copy_address"] == 0
    before = again(rig, 0)
    assert before.opcode == Opcode.CONTRIBUTION
    data[:] = 0
    assert again(rig, 0).payload == before.payload != bytes(len(before.payload))


def test_nodes_of_a_ring_copy() -> None:
    rig, data = NicRig(Route.RING), message()
    sent = rig.post(data)
    assert [packet.opcode for packet in sent] == [Opcode.CONTRIBUTION]  # position 2 starts here
    assert all(rig.slot(position)["zero_copy_address"] == 0 for position in range(SEGMENTS))
