"""A path that carries headers and loses packets with data ends a job by name: at JOIN, and later."""

import numpy as np
import pytest

from fanin_nic.engine import events
from fanin_nic.engine.engine import Timing
from fanin_nic.engine.records.tables import JobState
from fanin_wire.abi import Route, Status
from fanin_wire.fields import CONFIG_ACK_BODY, CONFIG_BODY, HOP_BODY, WAIT_BODY, Flag, Opcode
from tests.engine.rig import (
    ALL,
    MILLISECOND,
    NEXT,
    PARENT,
    PREVIOUS,
    SLOTS,
    NicRig,
    Rig,
    Sent,
    SwitchRig,
    f32,
    pack,
    place,
)

CHUNK = 256
SHORT = CONFIG_BODY.size + HOP_BODY.size
BOUND, INTERVAL = Timing().detection, Timing().keepalive
GRANTED = pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2)
LEASE = GRANTED + bytes(CHUNK - len(GRANTED))
UP = (PARENT, 0, 0b1)


def asking(route: Route = Route.TREE) -> tuple[NicRig, list[Sent]]:
    """A NIC that has begun to ask, and its packets."""
    rig = NicRig(route, join=False)
    rig.join(0, chunk=CHUNK)
    return rig, rig.last


def repeats(rig: Rig, number: int) -> list[int]:
    lengths: list[int] = []
    while len(lengths) < number:
        lengths += [len(sent.payload) for sent in rig.tick(MILLISECOND) if sent.opcode == Opcode.CONFIG]
    return lengths


# JOIN


def test_answer_to_a_full_config_proves_the_path() -> None:
    rig, _ = asking()
    repeats(rig, 2)
    rig.receive(Opcode.CONFIG_ACK, PARENT, bytes(8), status=Status.PENDING, seg=1, node_bitmap=2)
    assert repeats(rig, 3) == [CHUNK] * 3
    rig.receive(Opcode.CONFIG_ACK, PARENT, GRANTED)  # of a device that does not pad
    assert rig.job["state"] == JobState.ACTIVE


def test_answer_to_a_short_config_proves_nothing() -> None:
    rig, _ = asking()
    assert repeats(rig, 3)[-1] == SHORT
    rig.receive(Opcode.CONFIG_ACK, PARENT, GRANTED)
    assert rig.job["state"] == JobState.CONFIGURING
    rig.receive(Opcode.CONFIG_ACK, PARENT, LEASE)
    assert rig.job["state"] == JobState.ACTIVE


def test_refusal_needs_no_proof() -> None:
    rig, _ = asking()
    assert repeats(rig, 3)[-1] == SHORT
    rig.receive(Opcode.CONFIG_ACK, PARENT, bytes(8), status=int(Status.NO_RESOURCES))
    assert rig.answer()[0] == Status.NO_RESOURCES


@pytest.mark.parametrize("status", [Status.PENDING, Status.SUCCESS])
@pytest.mark.parametrize(
    ("route", "above", "kind", "ends"), [(Route.TREE, PARENT, 1, 0b1), (Route.RING, NEXT, 1, 0b11)]
)
def test_path_that_loses_long_packets_ends_the_join(
    route: Route, above: int, kind: int, ends: int, status: int
) -> None:
    rig, _ = asking(route)
    start, sent = rig.now, rig.last
    while rig.job["state"] == JobState.CONFIGURING and rig.now < start + 2 * BOUND:
        sent = rig.tick(MILLISECOND)
        if [len(packet.payload) for packet in sent if packet.opcode == Opcode.CONFIG] == [SHORT]:
            rig.receive(Opcode.CONFIG_ACK, above, GRANTED, status=status, seg=1)
    told, notice = rig.answer()
    assert (told, notice["missing_kind"], notice["missing"], notice["byte_length"]) == (
        Status.PATH_MTU,
        kind,
        ends,
        above,
    )
    assert rig.now - start > BOUND


def test_path_that_loses_packets_of_any_length_is_no_path() -> None:
    """Seven short ones are answered in a row, for longer than the detection time, then a full one, and so on."""
    rig, _ = asking()

    def spend(intervals: int) -> list[int]:
        lengths: list[int] = []
        for _ in range(4 * intervals):
            rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
            lengths += [len(sent.payload) for sent in rig.tick(INTERVAL // 4) if sent.opcode == Opcode.CONFIG]
        return lengths

    def answer(length: int, times: int = 1) -> None:
        for _ in range(times):
            while length not in spend(1):
                continue
            rig.receive(Opcode.CONFIG_ACK, PARENT, bytes(8), status=Status.PENDING, seg=1, node_bitmap=2)

    for _ in range(3):
        answer(SHORT, 7)
        spend(2 * BOUND // INTERVAL)
        assert rig.job["state"] == JobState.CONFIGURING
        answer(CHUNK)
    answer(SHORT, 8)
    spend(BOUND // INTERVAL)
    assert rig.answer()[0] == Status.PATH_MTU


def test_device_above_that_comes_late_is_no_path() -> None:
    """Its first answer, just before the time-out, is to a short CONFIG."""
    rig, _ = asking()
    end = rig.now + BOUND - 2 * INTERVAL
    sent: list[Sent] = []
    while rig.now < end or [len(packet.payload) for packet in sent] != [SHORT]:
        rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
        sent = rig.tick(MILLISECOND)
    rig.receive(Opcode.CONFIG_ACK, PARENT, bytes(8), status=Status.PENDING, seg=1, node_bitmap=2)
    for _ in range(4):
        rig.tick(INTERVAL // 2)
        rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
    assert rig.now > end + 2 * INTERVAL
    assert rig.job["state"] == JobState.CONFIGURING
    rig.receive(Opcode.CONFIG_ACK, PARENT, LEASE)
    assert rig.job["state"] == JobState.ACTIVE


# Later


def test_result_that_never_arrives() -> None:
    """PROBEs are not answered, but the device above is heard."""
    rig = NicRig()
    rig.post(f32(1))
    while rig.job["state"] == JobState.ACTIVE and rig.now < 4 * BOUND:
        for sent in rig.tick(INTERVAL // 2):
            if sent.opcode == Opcode.KEEPALIVE or sent.opcode == Opcode.PROBE:
                rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
    assert rig.statuses() == [Status.PATH_MTU]


@pytest.mark.parametrize("acknowledges", [True, False])
def test_partial_that_never_arrives(acknowledges: bool) -> None:
    """In a ring, whose next node acknowledges, or lives but may not have a job yet."""
    rig = NicRig(Route.RING)
    rig.post(np.ones(3 * 16, "<f4"))  # three segments: the last one begins at this node
    while rig.job["state"] == JobState.ACTIVE and rig.now < 4 * BOUND:
        for sent in rig.tick(INTERVAL // 2):
            if sent.opcode == Opcode.PROBE and acknowledges:
                about = {name: sent.ceth[name] for name in ("position", "seg", "token")}
                rig.receive(Opcode.ACK, NEXT, **about, source=1)
            elif sent.opcode == Opcode.KEEPALIVE or sent.opcode == Opcode.PROBE:
                rig.receive(Opcode.KEEPALIVE, sent.destination, source=1)
    assert rig.statuses() == ([Status.PATH_MTU] if acknowledges else [])


def test_partial_that_has_arrived_at_last_is_no_path() -> None:
    """In a ring whose acknowledgements were lost: a result that comes round shows it."""
    rig = NicRig(Route.RING)
    rig.post(np.ones(3 * 16, "<f4"))

    def refuse(seconds: float) -> None:
        end = rig.now + round(seconds * 10**9)
        while rig.now < end:
            for sent in rig.tick(INTERVAL // 2):
                if sent.opcode == Opcode.PROBE:
                    about = {name: sent.ceth[name] for name in ("position", "seg", "token")}
                    rig.receive(Opcode.ACK, NEXT, **about, source=1)
                elif sent.opcode == Opcode.KEEPALIVE:
                    rig.receive(Opcode.KEEPALIVE, sent.destination, source=1)

    refuse(0.7 * BOUND / 10**9)
    slot = rig.slot(2)  # it began here
    about = {name: int(slot[name]) for name in ("op", "dtype", "mid", "sid")} | place(2) | {"source": 2}
    rig.receive(
        Opcode.RESULT,
        PREVIOUS,
        np.full(16, 3, "<f4").tobytes(),
        **about,
        flags=ALL | Flag.HAS_DATA,
        node_bitmap=0b011,
        rank_bitmap=0b011,
    )
    refuse(0.7 * BOUND / 10**9)
    assert rig.job["state"] == JobState.ACTIVE


def test_few_questions_blame_no_path() -> None:
    """With a detection time below the time between two questions."""
    rig = NicRig(timing=Timing.of_detection(0.3))
    rig.post(f32(1))
    asked = 0
    while rig.job["state"] == JobState.ACTIVE and rig.now < 4 * BOUND:
        for sent in rig.tick(MILLISECOND):
            if sent.opcode == Opcode.PROBE:
                asked += 1
                rig.receive(Opcode.NEED, PARENT, **place(0), token=sent.ceth["token"])
            elif sent.opcode == Opcode.KEEPALIVE:
                rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
    assert rig.statuses() == [Status.PATH_MTU]
    assert asked > 3


def test_silent_neighbour_is_lost_and_no_path() -> None:
    rig = NicRig()
    rig.post(f32(1))
    for _ in range(2 * BOUND // INTERVAL):
        rig.tick(INTERVAL)
    assert rig.statuses() == [Status.PEER_LOST]


def test_link_that_is_up_again_at_the_last_moment_is_no_path() -> None:
    """For nearly the detection time it has carried nothing: the neighbour is heard again before it counts as lost, and
    the first later PROBE finds an older series."""
    rig = NicRig()
    rig.post(f32(1))
    while not rig.count("tx_PROBE"):
        rig.tick(MILLISECOND)
    first = rig.now
    rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
    while rig.now < first + BOUND - 10 * MILLISECOND:
        rig.tick(MILLISECOND)
    rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
    while rig.now < first + BOUND + 2 * INTERVAL:
        rig.tick(MILLISECOND)
        assert rig.job["state"] == JobState.ACTIVE


def test_late_ranks_are_no_path() -> None:
    """WAIT says that the contribution has arrived."""
    rig = NicRig()
    rig.post(f32(1))
    body = pack(WAIT_BODY, oldest_age_us=1, oldest_child=1, kind=1)
    for _ in range(4 * BOUND // INTERVAL):
        for sent in rig.tick(INTERVAL):
            if sent.opcode == Opcode.PROBE:
                rig.receive(Opcode.WAIT, PARENT, body, **place(0), token=sent.ceth["token"], node_bitmap=2)
    assert (rig.statuses(), rig.job["state"]) == ([], JobState.ACTIVE)


def test_repair_long_ago_is_no_path() -> None:
    """Two positions are lost and repaired; then a rank is late for long, and the second one is asked for again."""
    rig = NicRig()
    rig.post(f32(1), mid=3)
    rig.post(f32(1), mid=4)

    def answer(seconds: float, needed: bool) -> None:
        end = rig.now + round(seconds * 10**9)
        while rig.now < end:
            for sent in rig.tick(MILLISECOND):
                if sent.opcode == Opcode.PROBE:
                    about = {name: sent.ceth[name] for name in ("position", "seg", "mid", "sid", "token")}
                    if needed and about["position"] not in repaired:
                        repaired.append(about["position"])
                        rig.receive(Opcode.NEED, PARENT, **about)
                    else:
                        body = pack(WAIT_BODY, oldest_age_us=1, oldest_child=1, kind=1)
                        rig.receive(Opcode.WAIT, PARENT, body, **about, node_bitmap=2)

    repaired: list[int] = []
    answer(1.0, True)
    assert repaired == [0, 1]
    answer(2 * BOUND / 10**9, False)
    rig.from_parent(Opcode.RESULT, 0, f32(1).tobytes(), mid=3, dtype=1, contributions=2)
    answer(1.0, False)
    assert rig.job["state"] == JobState.ACTIVE


def test_device_that_stood_still_blames_no_path() -> None:
    rig = NicRig()
    rig.post(f32(1))
    while not rig.count("tx_PROBE"):
        rig.tick(MILLISECOND)
    rig.now += 3 * BOUND
    rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
    events.note_stall(rig.engine.base, 3 * BOUND, rig.now)
    rig.tick(0)
    assert rig.job["state"] == JobState.ACTIVE


def test_switch_notices_when_its_child_asks() -> None:
    """Its own parent never gets the partial."""
    rig = SwitchRig(1, above=(UP,))
    rig.contribute(0, 0, np.ones(1, "<f4"))
    status = 0
    for _ in range(2 * BOUND // INTERVAL):
        rig.now += INTERVAL
        sent = rig.probe(0, 0)
        aborts = [packet for packet in sent if packet.opcode == Opcode.ABORT]
        if aborts:
            status = aborts[0].ceth["status"]
            break
        asked = [packet for packet in sent if packet.opcode == Opcode.PROBE]
        assert asked
        rig.receive(Opcode.NEED, PARENT, **place(0), token=asked[0].ceth["token"])
    assert status == Status.PATH_MTU
