"""Loss recovery: a NIC asks with a header, the device above always answers, and only missing payload is repeated."""

import numpy as np
import pytest

from fanin_wire.abi import Route, Status
from fanin_wire.fields import WAIT_BODY, Opcode
from tests.engine.rig import (
    ALL,
    MILLISECOND,
    NEXT,
    PARENT,
    PREVIOUS,
    SECOND,
    SLOTS,
    NicRig,
    SwitchRig,
    child_address,
    f32,
    pack,
    place,
    unpack,
)

CROSSING = 5 * MILLISECOND  # a PROBE so soon after a result has crossed it, as long as no loss is known
RTO, KEEPALIVE = 20 * MILLISECOND, 500 * MILLISECOND


def opcodes(sent: list) -> list[Opcode]:
    return [packet.opcode for packet in sent]


# At the parent


def test_need_when_the_contribution_is_missing() -> None:
    rig = SwitchRig()
    for _ in range(2):  # first the position is new to the slot, then the other child's data are here
        (need,) = rig.probe(0, 0)
        assert (need.opcode, need.destination, need.ceth["token"]) == (Opcode.NEED, child_address(0), 77)
        rig.contribute(1, 0, f32(1))
    assert rig.slot(0)["node_missing"] == 0b01


def test_wait_blames_no_child_for_the_time_that_the_device_itself_stood_still() -> None:
    """It handles waiting packets before its timers run."""
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1))
    rig.engine.header["next_deadline"] = rig.now + SECOND
    rig.now += 5 * SECOND
    (wait,) = rig.probe(0, 0)
    assert unpack(WAIT_BODY, wait.payload)["oldest_age_us"] == 1_000_000


def test_result_that_has_just_left_is_sent_again_only_where_losses_are_known() -> None:
    rig = SwitchRig()
    for position in (0, 1):
        rig.contribute(0, position, f32(1))
        rig.contribute(1, position, f32(2))
    rig.now += CROSSING - 1
    (wait,) = rig.probe(1, 0)
    assert (wait.opcode, wait.ceth["node_bitmap"]) == (Opcode.WAIT, 0)
    rig.now += 1
    assert opcodes(rig.probe(1, 0)) == [Opcode.RESULT]
    rig.contribute(0, 2, f32(1))
    rig.contribute(1, 2, f32(2))
    assert opcodes(rig.probe(1, 2)) == [Opcode.RESULT]


def test_switch_has_no_timers_for_data() -> None:
    rig = SwitchRig(above=((PARENT, 1, 0b11),))
    rig.contribute(0, 0, f32(1))
    rig.contribute(1, 0, f32(2))
    sent = rig.tick(4 * SECOND)
    assert {packet.opcode for packet in sent} == {Opcode.KEEPALIVE}


# At the child


def test_nic_probes_after_its_time_out_and_backs_off() -> None:
    rig = NicRig()
    rig.post(f32(1))
    assert rig.tick(RTO - 1) == []
    (probe,) = rig.tick(1)
    assert (probe.opcode, probe.payload, probe.ceth["position"]) == (Opcode.PROBE, b"", 0)
    assert probe.ceth["token"] != 0
    assert rig.tick(RTO - 1) == []
    assert opcodes(rig.tick(1)) == [Opcode.PROBE]
    assert rig.tick(2 * RTO - 1) == []
    assert opcodes(rig.tick(1)) == [Opcode.PROBE]


def test_wait_stretches_the_next_probe() -> None:
    rig = NicRig()
    rig.post(f32(1))
    rig.tick(RTO)
    doubled = [2**times * RTO for times in range(1, 5)]
    for interval in (*doubled, KEEPALIVE, KEEPALIVE):  # it goes no further than the keep-alive interval
        rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(0), node_bitmap=0b10)
        assert Opcode.PROBE not in opcodes(rig.tick(interval - 1))
        assert Opcode.PROBE in opcodes(rig.tick(1))


def test_wait_with_an_old_age_names_the_lost_peer() -> None:
    rig = NicRig()
    rig.post(f32(1))
    body = pack(WAIT_BODY, oldest_age_us=5_000_001, oldest_child=4)
    sent = rig.receive(Opcode.WAIT, PARENT, body, **place(0), node_bitmap=0b110000)
    assert {(packet.opcode, packet.ceth["status"]) for packet in sent} == {
        (Opcode.ABORT, Status.PEER_LOST),
        (Opcode.LEAVE, Status.PEER_LOST),
    }
    assert rig.statuses() == [Status.PEER_LOST]
    assert rig.device.completions[0]["missing"] == 0b10000


def test_a_late_result_teaches_nothing_about_the_round_trip() -> None:
    """It contains the slowest rank. Only an answer to a PROBE, with its token, teaches."""
    rig = NicRig()
    rig.post(f32(1))
    before = {name: int(rig.job[name]) for name in ("srtt", "rttvar", "rto")}
    rig.now += 150 * MILLISECOND
    rig.from_parent(Opcode.RESULT, 0, f32(5).tobytes())
    assert rig.statuses() == [Status.SUCCESS]
    assert {name: int(rig.job[name]) for name in before} == before


def test_later_result_makes_the_earlier_one_due_soon() -> None:
    rig = NicRig()
    rig.post(np.zeros(32, "<f4"))
    rig.from_parent(Opcode.RESULT, 1, bytes(64))
    due = int(rig.engine.header["reorder"])
    assert rig.tick(due - 1) == []
    (probe,) = rig.tick(1)
    assert (probe.opcode, probe.ceth["position"]) == (Opcode.PROBE, 0)


def test_somebody_answers_though_others_are_late() -> None:
    rig = NicRig()
    rig.post(f32(1))
    for _ in range(100):
        rig.tick(SECOND)
        rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(0), node_bitmap=0b10)
    assert rig.statuses() == []
    rig.from_parent(Opcode.RESULT, 0, f32(5).tobytes())
    assert rig.statuses() == [Status.SUCCESS]


# Ring: this is node 0 of 3; position 0 starts at node 1, position 1 at node 2, position 2 here


def partial(rig: NicRig, position: int, nodes: int, *values: float) -> list:
    ceth = place(position) | {"op": 1, "dtype": 1, "flags": ALL | 1, "contributions": 1, "node_bitmap": nodes}
    ceth |= {"rank_bitmap": 0b110}  # the others want the result
    return rig.receive(Opcode.CONTRIBUTION, PREVIOUS, f32(*values).tobytes(), **(ceth | {"sid": position, "source": 2}))


def acknowledge(rig: NicRig, base: int, contributions: int, results: int, **changes) -> list:
    ceth = {"position": base, "seg": base % 8, "source": 1, "node_bitmap": contributions, "rank_bitmap": results}
    return rig.receive(Opcode.ACK, NEXT, **(ceth | changes))


def test_ring_acknowledges_duplicates_and_stale_packets() -> None:
    rig = NicRig(Route.RING)
    for _ in range(2):
        assert Opcode.ACK in opcodes(partial(rig, 0, 0b001, 5))
    assert rig.count("drop_duplicate") == 1
    rig.slot(1)["position"] = 1 + SLOTS  # that slot serves a later position already
    assert Opcode.ACK in opcodes(partial(rig, 1, 0b001, 5))
    assert rig.count("drop_stale") == 1


@pytest.mark.parametrize("opcode", [Opcode.NEED, Opcode.WAIT])
def test_ring_has_no_use_for_answers_of_a_tree(opcode: Opcode) -> None:
    rig = NicRig(Route.RING)
    rig.post(np.ones(33, "<f4"), sid=2, segments=1)
    assert rig.receive(opcode, NEXT, **place(0), source=1) == []
    assert rig.count("drop_sender") == 1


def test_result_that_was_asked_for_teaches_the_reorder_time_and_the_round_trip() -> None:
    """It proves a loss: a late result would have come before it."""
    for token, reorder in ((0, 20 * MILLISECOND), (1, 2 * MILLISECOND)):  # two round trips
        rig = NicRig()
        rig.post(f32(1))
        (probe,) = (packet for packet in rig.tick(RTO) if packet.opcode == Opcode.PROBE)
        rig.now += MILLISECOND
        rig.from_parent(Opcode.RESULT, 0, f32(3).tobytes(), dtype=1, token=token * probe.ceth["token"])
        assert rig.statuses() == [Status.SUCCESS]
        assert rig.job["reorder"] == reorder
        assert (rig.job["srtt"] > 0) == bool(token)


def test_only_the_lowest_is_asked_for_again_and_again() -> None:
    rig = NicRig()
    rig.post(np.arange(64, dtype="f4"))  # four segments
    asked = []
    for _ in range(20):
        for packet in rig.tick(KEEPALIVE):
            if packet.opcode == Opcode.PROBE:
                asked.append(packet.ceth["position"])
                rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(packet.ceth["position"]), token=1)
    assert set(asked) == {0}


def test_lost_acknowledgement_is_noticed_by_the_next_one() -> None:
    rig = NicRig(Route.RING)
    rig.post(np.arange(64, dtype="f4"))
    sent = [packet.ceth["position"] for packet in rig.last if packet.opcode == Opcode.CONTRIBUTION]
    first, last = min(sent), max(sent)
    assert first < last or len(sent) == 1
    rig.receive(Opcode.ACK, NEXT, position=last, seg=last % 8, node_bitmap=1, source=1)
    probes = [p.ceth["position"] for p in rig.tick(20 * MILLISECOND) if p.opcode == Opcode.PROBE]
    assert probes == [position for position in sent if position != last]
